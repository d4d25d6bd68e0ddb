"""Messages for every API in Kafka 4.4 and 3.9 as Kafka wrote them, as bytes and as values.

`messages.jsonl` has a section for each Kafka API, including those that Lacuna does not serve. A section begins with a
line that names the API. Each further line is one message:

    [kind, version, version of its header, bytes in hex (without the header), values]

The bytes were written by the classes of Kafka 4.4.0, or of 3.9.1 for versions that Kafka 4 no longer has. The values
are Kafka's own JSON for the same message, from the JSON converters in the same jars. In it, bytes are in base64, ids
are in URL-safe base64, and only the size of records is given; a tagged field with its default is omitted. Each version
has up to three messages: one without a null, one with a null wherever the version allows it, and a mixture. Numbers are
random, and often the minimum or maximum of their type.

`capture_messages.py` writes the file. `tests/wire/test_messages.py` compares the messages with `lacuna.wire`, and
`tests/rules/test_any_input.py` sends the ones that Lacuna does not serve.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DIRECTORY = Path(__file__).parent
FILE = DIRECTORY / "messages.jsonl"


class Sample(NamedTuple):
    """A message of one version: its header, its bytes without the header, and Kafka's JSON of it."""

    version: int
    header_version: int
    body: bytes
    values: dict[str, Any]


def _lines() -> dict[int, tuple[str, list[str]]]:
    """Return the name of each API and its messages' lines. A renamed API has its newest name."""
    found: dict[int, tuple[str, list[str]]] = {}
    lines: list[str] = []
    for line in FILE.read_text("utf-8").splitlines():
        if line.startswith("{"):
            heading, lines = json.loads(line), []
            found[heading["api_key"]] = (heading["name"], lines)
        else:
            lines.append(line)
    return found


_LINES = _lines()
#: Kafka's name for each API by its key, in snake case.
API_NAMES = {key: name for key, (name, _) in _LINES.items()}


@cache
def _samples(api_key: int, kind: str) -> list[Sample]:
    return [
        Sample(version, header, bytes.fromhex(body), values)
        for each, version, header, body, values in map(json.loads, _LINES[api_key][1])
        if each == kind
    ]


def requests(api_key: int) -> list[Sample]:
    return _samples(api_key, "request")


def responses(api_key: int) -> list[Sample]:
    return _samples(api_key, "response")
