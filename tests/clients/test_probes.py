"""Tests that every probe is answered as Apache Kafka 4.4 answers it, except for intended differences.

tests/golden/capture.py records the answers of Kafka in tests/golden/probes_kafka_4_4.json.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lacuna.testing import Cluster as LacunaCluster

from .conftest import Given
from .hurry import raise_epoch
from .probes import GOLDEN, run
from .probing import PROBES

Differences = dict[str, tuple[Any, str]]

RECORDED: dict[str, Any] = json.loads(GOLDEN.read_text())
#: Probe → path of keys → what Lacuna answers, and why. docs/protocol.md documents the same.
DIFFERENCES: dict[str, Differences] = json.loads(
    Path(__file__).with_name("differences.json").read_text()
)


def _compare(expected: Any, got: Any, differences: Differences, path: str) -> list[str]:
    """Return the paths at which the two answers differ, as lines for the assertion's message."""
    if path in differences:
        wanted = differences[path][0]
        return [] if wanted == got else [f"{path}: {got!r}, Lacuna's rule: {wanted!r}"]
    if isinstance(expected, dict) and isinstance(got, dict):
        return [
            line
            for key in sorted(expected.keys() | got.keys())
            for line in _compare(
                expected.get(key), got.get(key), differences, f"{path}/{key}" if path else key
            )
        ]
    return [] if expected == got else [f"{path}: {got!r}, Kafka: {expected!r}"]


@pytest.mark.parametrize("name", sorted(PROBES))
def test_answers_as_kafka_does(
    name: str, cluster: Given | LacunaCluster, bootstrap: str, is_kafka: bool
) -> None:
    """S4, S5, S7-S15, S21, S26: the same mistake gets the same error."""
    differences = {} if is_kafka else DIFFERENCES.get(name, {})
    if isinstance(cluster, Given):
        found = run(name, bootstrap)
    else:
        found = run(name, bootstrap, cluster.advance, partial(raise_epoch, cluster))
    lines = _compare(RECORDED[name], found, differences, "")
    assert not lines, "\n".join(lines)


def test_every_difference_is_one() -> None:
    """Each recorded difference is Lacuna's current answer, and differs from Kafka's."""
    for name, rows in DIFFERENCES.items():
        for path, (ours, _) in rows.items():
            found = RECORDED[name]
            for key in filter(None, path.split("/")):
                found = found.get(key)  # Kafka lacks what only Lacuna has
            assert found != ours, f"{name}: {path}"
