"""Messages of every API of Kafka 4.1 and 3.9, as Kafka wrote them: bytes, and the values that they stand for."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DIRECTORY = Path(__file__).parent


class Sample(NamedTuple):
    """A message of one version: which header it has, its bytes without that, and Kafka's JSON of it."""

    version: int
    header_version: int
    body: bytes
    values: dict[str, Any]


_FILES = {int(path.stem[1:].split("_")[0]): path for path in DIRECTORY.glob("k*.jsonl")}
#: Kafka's name of each API by its key, in snake case.
API_NAMES = {key: path.stem.split("_", 1)[1] for key, path in sorted(_FILES.items())}


@cache
def _samples(api_key: int, kind: str) -> list[Sample]:
    rows = map(json.loads, _FILES[api_key].read_text("utf-8").splitlines())
    return [
        Sample(version, header, bytes.fromhex(body), values)
        for each, version, header, body, values in rows
        if each == kind
    ]


def requests(api_key: int) -> list[Sample]:
    """All requests of an API."""
    return _samples(api_key, "request")


def responses(api_key: int) -> list[Sample]:
    """All responses of an API."""
    return _samples(api_key, "response")
