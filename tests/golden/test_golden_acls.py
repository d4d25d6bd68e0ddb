"""Tests that the steps of acls.py have the same outcomes as on Kafka 4.1, except for the reasons in `EXPLAINED`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.golden.acls import SETS, outcomes
from tests.golden.capture_acls import GOLDEN
from tests.golden.guarded import guarded

KAFKA: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text())

_BY_ENUM: Final = (
    "a value that cannot be in an ACL is INVALID_REQUEST here; Kafka fails to read the request"
)
#: Why a step has another outcome here, for those who may take it; by step.
EXPLAINED: Final = {
    "metadata v9 2": "the answer has the new topic already; Kafka's first one has an error",
    "fetch v12 2": "any agent serves any partition, also to what says that it is a replica; Kafka knows its replicas",
    "create_acls v3 3": _BY_ENUM,
    "create_acls v3 4": _BY_ENUM,
    "create_acls v3 5": _BY_ENUM,
    "create_acls v3 6": _BY_ENUM,
    "describe_user_scram_credentials v0 1": "Kafka adds a user without a name to its refusal",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """The outcomes here."""
    with guarded(tmp_path_factory.mktemp("acls")) as bootstrap:
        yield outcomes(bootstrap)


@pytest.mark.parametrize("name", SETS)
def test_the_answers_are_those_of_kafka(found: dict[str, dict[str, Any]], name: str) -> None:
    """Every step, for every set of ACLs."""
    here = found[name]
    assert here.keys() == KAFKA[name].keys()
    differing = {step for step, kept in KAFKA[name].items() if here[step] != kept}
    assert differing <= EXPLAINED.keys()


def test_every_explanation_is_needed(found: dict[str, dict[str, Any]]) -> None:
    """No explanation hides a denial that Kafka does not give, or the reverse."""
    differing = [
        (step, str(kept), str(found[name][step]))
        for name, steps in KAFKA.items()
        for step, kept in steps.items()
        if found[name][step] != kept
    ]
    assert {step for step, *_ in differing} == EXPLAINED.keys()
    for step, there, here in differing:
        assert _denials(there) == _denials(here), step


def _denials(outcome: str) -> set[str]:
    return set(re.findall(r"(?<=error_code': )(?:29|30|31|53|65)\b", outcome))
