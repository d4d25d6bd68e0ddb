"""lacuna.wire speaks what Kafka 4.1 spoke: captured frames decode, and encode to the same bytes (S24)."""

from __future__ import annotations

import json
import pathlib

import pytest

from lacuna.agent.registry import response_header_version
from tests.wire.samples import MESSAGES

HERE = pathlib.Path(__file__).parent
FRAMES = (HERE / "frames.bin").read_bytes()
Row = tuple[str, int, int, int, int, int, int]
INDEX: list[Row] = [tuple(row) for row in json.loads((HERE / "frames.json").read_text())]
BY_KEY = {
    message.api_key: (message, MESSAGES[name.replace("_REQUEST", "_RESPONSE")])
    for name, message in MESSAGES.items()
    if name.endswith("_REQUEST")
}
NAMED = [f"{row[0]}-v{row[2]}-at-{row[3]}" for row in INDEX]


@pytest.mark.parametrize("row", INDEX, ids=NAMED)
def test_request(row: Row) -> None:
    _, key, version, at, size, _, _ = row
    request, _ = BY_KEY[key]
    client_id_size = int.from_bytes(FRAMES[at + 8 : at + 10], "big")
    body = FRAMES[at + 10 + client_id_size + request.is_flexible(version) : at + size]
    assert request.write(request.read(memoryview(body), version), version) == body


@pytest.mark.parametrize("row", INDEX, ids=NAMED)
def test_response(row: Row) -> None:
    _, key, version, _, _, at, size = row
    _, answer = BY_KEY[key]
    body = FRAMES[at + 4 + response_header_version(key, version) : at + size]
    assert answer.write(answer.read(memoryview(body), version), version) == body
