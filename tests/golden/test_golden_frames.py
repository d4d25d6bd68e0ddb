"""kio speaks what Kafka 4.1 spoke: captured frames decode, and encode to the same bytes (S24).

The agent leans on kio's schemas for all but the hot pair; DescribeTransactions is the exception that this
capture found (kio refuses the -1 that says "no transaction runs").
"""

from __future__ import annotations

import io
import json
import pathlib
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import OutOfBoundValue

HERE = pathlib.Path(__file__).parent
FRAMES = (HERE / "frames.bin").read_bytes()
Row = tuple[str, int, int, int, int, int, int]
INDEX: list[Row] = [tuple(row) for row in json.loads((HERE / "frames.json").read_text())]
NAMED = [f"{row[0]}-v{row[2]}-at-{row[3]}" for row in INDEX]


def _again(schema: Any, frame: bytes) -> bytes:
    """A frame decoded and encoded: its header, then its body."""
    header, position = entity_reader(schema.__header_schema__)(frame, 0)
    body, size = entity_reader(schema)(frame, position)
    assert position + size == len(frame)
    out = io.BytesIO()
    entity_writer(schema.__header_schema__)(out, header)
    entity_writer(schema)(out, body)
    return out.getvalue()


@pytest.mark.parametrize("row", INDEX, ids=NAMED)
def test_request(row: Row) -> None:
    _, key, version, position, size, _, _ = row
    frame = FRAMES[position : position + size]
    assert _again(load_request_schema(key, version), frame) == frame


@pytest.mark.parametrize("row", INDEX, ids=NAMED)
def test_response(row: Row) -> None:
    _, key, version, _, _, position, size = row
    frame = FRAMES[position : position + size]
    assert _again(load_response_schema(key, version), frame) == frame


def test_kio_refuses_a_transaction_without_start() -> None:
    """Once this fails, the agent's hand-written DescribeTransactions can go."""
    schema = load_response_schema(65, 0)
    idle = bytes.fromhex("00000001 00 00000000 02 0000 0274 06456d707479 0000ea60")
    idle += b"\xff" * 8 + bytes(7) + b"\x05" + bytes(2) + b"\x01\x00\x00"
    with pytest.raises(OutOfBoundValue):
        _again(schema, idle)
