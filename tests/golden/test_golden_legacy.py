"""Tests that lacuna.logstore.records.legacy reads and writes message sets as kafka-clients 0.9, 0.10 and 0.11 did (S22,
S24).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.records.errors import InvalidTimestampError
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy import from_batches, to_batch
from lacuna.logstore.records.legacy.lz4_header import with_old_checksum, with_right_checksum
from lacuna.logstore.records.legacy.reading import Entry, read_entries, read_messages, unwrap
from lacuna.logstore.records.legacy.writing import NewMessage, write_message_set
from tests.golden.old_clients import HERE, VERSIONS, Row, rows

GOLDEN: dict[str, list[dict[str, Any]]] = json.loads((HERE / "sets.json").read_text())
SETS = GOLDEN["sets"]
CONVERSIONS = GOLDEN["conversions"]
BOUND = 1 << 20


def _name(case: dict[str, Any]) -> str:
    first = case["read"].split(":")[0]
    who = case.get("client", "conversion")
    return f"{who}-{case['magic']}-{case['codec']}-{case['timestamp_type']}-{first}"


def _read(message_set: bytes) -> list[Row]:
    messages = read_messages(message_set, max_bytes=BOUND)
    return [(m.offset, m.timestamp, m.key, m.value) for m in messages]


def _shape(message_set: bytes) -> list[tuple[int, int, int, int, bytes]]:
    """Return each entry with its content, except for what a compressor may choose freely."""
    return [
        (e.offset, e.magic, e.attributes, e.timestamp, _content(e))
        for e in read_entries(message_set)
    ]


def _content(entry: Entry) -> bytes:
    if entry.codec is Codec.NONE:
        return bytes(entry.data)
    return unwrap(entry, BOUND, BOUND)


def test_reads_what_the_old_client_reads() -> None:
    """S22: offsets, timestamps, keys and values as the client that wrote the set decodes them."""
    for case in SETS:
        assert _read(bytes.fromhex(case["bytes"])) == rows(case["read"]), _name(case)


def test_writes_what_the_old_client_writes() -> None:
    """S22: wrapper, inner offsets, attributes and timestamps match to the byte, except for the compression."""
    for case in SETS:
        if case["client"] != "0.9.0.1":
            _check_written(case)


def _check_written(case: dict[str, Any]) -> None:
    append_time = case["timestamp_type"] == "LogAppendTime"
    messages = [NewMessage(*row) for row in rows(case["written"])]
    written = write_message_set(
        messages,
        magic=case["magic"],
        codec=Codec[case["codec"].upper()],
        timestamp_type=TimestampType(int(append_time)),
        append_time=case["append_time"],
    )
    golden = bytes.fromhex(case["bytes"])
    assert _shape(written) == _shape(golden), _name(case)
    if case["codec"] == "none":
        assert written == golden


def test_lz4_header_checksums() -> None:
    """KAFKA-3160: magic 0 has the wrong checksum, magic 1 the right one, as the old clients wrote them."""
    for case in (each for each in SETS if each["codec"] == "lz4"):
        (wrapper,) = read_entries(bytes.fromhex(case["bytes"]))
        _, value = wrapper.key_and_value()
        assert value is not None
        frame = bytes(value)
        expected = (with_old_checksum if case["magic"] == 0 else with_right_checksum)(frame)
        assert frame == expected, _name(case)
        assert with_old_checksum(frame) != with_right_checksum(frame)


def test_becomes_a_batch() -> None:
    """S24: one batch of magic 2 with the same records; INVALID_TIMESTAMP for LogAppendTime."""
    for case in SETS:
        _check_converted(case)


def _check_converted(case: dict[str, Any]) -> None:
    if case["timestamp_type"] == "LogAppendTime":
        with pytest.raises(InvalidTimestampError):
            to_batch(bytes.fromhex(case["bytes"]), max_bytes=BOUND, requires_key=False, magic=1)
        return
    batch_bytes = to_batch(
        bytes.fromhex(case["bytes"]), max_bytes=BOUND, requires_key=False, magic=1
    )
    (batch,) = read_batches(batch_bytes)
    assert batch.header.codec is Codec[case["codec"].upper()]
    got = [(r.offset, r.timestamp, r.key, r.value) for r in batch.records()]
    expected = rows(case["read"])
    assert got == [(index, *row[1:]) for index, row in enumerate(expected)], _name(case)


def test_converts_as_a_broker_did() -> None:
    """S24: the set that Kafka 0.11 makes of a batch for Fetch v0 to v3, entry by entry."""
    for case in CONVERSIONS:
        converted = from_batches(
            [bytes.fromhex(case["batch"])], magic=case["magic"], first_offset=case["first_offset"]
        )
        assert _read(converted) == rows(case["read"]), _name(case)
        if case["magic"] == 1 or case["timestamp_type"] == "CreateTime":
            assert _shape(converted) == _shape(bytes.fromhex(case["bytes"])), _name(case)


def test_the_capture_holds_what_it_is_for() -> None:
    """It contains every client, magic and codec, both timestamp types, and holes inside wrappers."""
    assert {s["client"] for s in SETS} == set(VERSIONS)
    codecs = ("none", "gzip", "snappy", "lz4")
    assert {(s["magic"], s["codec"]) for s in SETS} == {(m, c) for m in (0, 1) for c in codecs}
    assert {s["timestamp_type"] for s in SETS} == {"CreateTime", "LogAppendTime"}
    offsets = [row[0] for row in rows(SETS[-1]["read"])]
    assert offsets == [1000, 1001, 1005, 1006]
