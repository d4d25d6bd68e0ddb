"""Tests headers, records and markers that a real Kafka 4.4 wrote (S17, S25)."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from lacuna.logstore.records.batch import RecordBatch, read_batches
from lacuna.logstore.records.control import ControlType, read_control_record

RECORDS = pathlib.Path(__file__).with_name("records.json")
INDEX: dict[str, dict[str, Any]] = json.loads(RECORDS.read_text())


def _bytes(name: str) -> bytes:
    return bytes.fromhex(INDEX[name]["bytes"])


def _batches(name: str) -> list[RecordBatch]:
    return list(read_batches(_bytes(name)))


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


@pytest.mark.parametrize("name", sorted(INDEX))
def test_headers(name: str) -> None:
    """The fields of each batch header, and S16: next_offset follows from last_offset_delta."""
    expected = INDEX[name]["batches"]
    got = [
        {
            "base_offset": b.header.base_offset,
            "last_offset": b.header.next_offset - 1,
            "producer_id": b.header.producer_id,
            "producer_epoch": b.header.producer_epoch,
            "base_sequence": b.header.base_sequence,
            "attributes": b.header.attributes,
            "count": b.header.record_count,
            "partition_leader_epoch": b.header.partition_leader_epoch,
            "base_timestamp": b.header.base_timestamp,
            "max_timestamp": b.header.max_timestamp,
        }
        for b in _batches(name)
    ]
    assert got == expected


@pytest.mark.parametrize("name", sorted(INDEX))
def test_records(name: str) -> None:
    """S11, S19: offsets, timestamps, keys, values and headers match librdkafka's."""
    got = [
        [
            record.offset,
            record.timestamp,
            _hex(record.key),
            _hex(record.value),
            [[header.decode(), _hex(value)] for header, value in record.headers],
        ]
        for batch in _batches(name)
        if not batch.header.is_control
        for record in batch.records()
    ]
    assert got == INDEX[name]["records"]


@pytest.mark.parametrize("name", ["interleaved", "java_transactions"])
def test_control_records(name: str) -> None:
    """S25: version and type come from the key, and the coordinator's epoch from the value."""
    got = []
    for batch in _batches(name):
        for record in batch.records() if batch.header.is_control else []:
            control = read_control_record(record)
            assert control.marker is not None
            got.append([control.offset, control.type_number, control.marker.coordinator_epoch])
    expected = INDEX[name]["control_records"]
    assert got == expected
    assert {ControlType(kind) for _, kind, _ in got} == {ControlType.ABORT, ControlType.COMMIT}


def test_the_capture_holds_what_it_is_for() -> None:
    """It contains every codec from both clients, holes within a batch, both timestamp types, and transactions."""
    codecs = {b["attributes"] & 7 for entry in INDEX.values() for b in entry["batches"]}
    assert codecs == {0, 1, 2, 3, 4}
    compacted = INDEX["compacted"]["batches"]
    assert any(b["count"] <= b["last_offset"] - b["base_offset"] for b in compacted)
    assert any(b["attributes"] & 0x08 for b in INDEX["log_append_time"]["batches"])
    assert _bytes("java_snappy").count(b"\x82SNAPPY\x00") >= 1
