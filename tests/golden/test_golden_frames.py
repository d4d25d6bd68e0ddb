"""Tests that lacuna.wire decodes frames captured from Kafka 4.1, and encodes them to the same bytes (S24)."""

from __future__ import annotations

import json
import pathlib

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


def test_requests() -> None:
    for name, key, version, at, size, _, _ in INDEX:
        request, _ = BY_KEY[key]
        client_id_size = int.from_bytes(FRAMES[at + 8 : at + 10], "big")
        body = FRAMES[at + 10 + client_id_size + request.is_flexible(version) : at + size]
        read = request.read(memoryview(body), version)
        assert request.write(read, version) == body, (name, version, at)


def test_responses() -> None:
    for name, key, version, _, _, at, size in INDEX:
        _, answer = BY_KEY[key]
        body = FRAMES[at + 4 + response_header_version(key, version) : at + size]
        read = answer.read(memoryview(body), version)
        assert answer.write(read, version) == body, (name, version, at)
