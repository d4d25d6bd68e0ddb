"""Tests control records and the filler (S17, S25; seeds 000_, 003_ and 004_)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.batch import Record, RecordBatch, read_batches
from lacuna.logstore.records.control import ControlType, EndTxnMarker, filler, read_control_record
from lacuna.logstore.records.errors import InvalidRecordError, KafkaErrorName

ABORT_VALUE = bytes.fromhex("0000 00000007")


def control(key: bytes | None, value: bytes | None = ABORT_VALUE) -> Record:
    return Record(offset=7, timestamp=0, key=key, value=value, headers=(), attributes=0)


def only_batch(data: bytes) -> RecordBatch:
    (batch,) = read_batches(data)
    return batch


def test_s17_exact_bytes_for_the_figure_of_seed_004() -> None:
    """Offsets 0 to 10 are all aborted, so there is one control record at 10, and the next offset is 11."""
    assert filler(0, 11) == bytes.fromhex(
        "0000000000000000"  # base_offset
        "00000042"  # batch_length
        "00000000"  # partition_leader_epoch
        "02"  # magic
        "6c242b47"  # CRC-32C
        "0030"  # transactional, control
        "0000000a"  # last_offset_delta
        "ffffffffffffffff"  # base_timestamp
        "ffffffffffffffff"  # max_timestamp
        "0000000000000000"  # producer_id 0
        "0000"  # producer_epoch
        "ffffffff"  # base_sequence
        "00000001"  # one record
        "20 00 00 14"  # 16 bytes, no attributes, timestamp -1, offset delta 10
        "08 0000 0001"  # key: version 0, COMMIT
        "0c 0000 00000000"  # value: version 0, coordinator epoch 0
        "00"  # no headers
    )


@given(asked=st.integers(0, 2**62), length=st.integers(1, 2**33))
def test_s17_the_filler_ends_where_the_hole_ends(asked: int, length: int) -> None:
    end = asked + length
    batch = only_batch(filler(asked, end))
    header = batch.header
    assert header.next_offset == end
    assert header.base_offset == max(asked, end - 2**31)
    assert 0 <= header.last_offset_delta <= 2**31 - 1
    (record,) = batch.records()
    assert record.offset == end - 1
    marker = read_control_record(record).marker
    assert marker == EndTxnMarker(ControlType.COMMIT, coordinator_epoch=0)


@pytest.mark.parametrize(
    ("asked", "end", "base"),
    [
        (0, 2**31, 0),
        (0, 2**31 + 1, 1),
        (10, 2**40, 2**40 - 2**31),
        (2**63 - 2, 2**63 - 1, 2**63 - 2),
    ],
)
def test_s17_base_offset_is_clamped(asked: int, end: int, base: int) -> None:
    assert only_batch(filler(asked, end)).header.base_offset == base


@pytest.mark.parametrize(("asked", "end"), [(0, 0), (5, 5), (6, 5), (-1, 5)])
def test_s17_nothing_is_filled_in_an_empty_range(asked: int, end: int) -> None:
    with pytest.raises(ValueError, match="there is nothing to fill"):
        filler(asked, end)


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_s25_markers_round_trip(control_type: ControlType) -> None:
    marker = EndTxnMarker(control_type, coordinator_epoch=12)
    read = read_control_record(control(marker.key(), marker.value()))
    assert (read.offset, read.version, read.type_number) == (7, 0, control_type)
    assert read.marker == marker


def test_s25_bytes_of_a_marker() -> None:
    marker = EndTxnMarker(ControlType.ABORT, coordinator_epoch=7)
    assert (marker.key().hex(), marker.value()) == ("00000000", ABORT_VALUE)


def test_s25_an_unknown_type_is_kept() -> None:
    read = read_control_record(control(bytes.fromhex("0000 03e7"), b"anything"))
    assert (read.type_number, read.marker) == (999, None)


def test_s25_newer_versions_are_read_as_far_as_known() -> None:
    read = read_control_record(
        control(bytes.fromhex("0005 0001 ffff"), bytes.fromhex("0003 00000009 ffff"))
    )
    assert read.version == 5
    assert read.marker == EndTxnMarker(ControlType.COMMIT, coordinator_epoch=9, version=3)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, ABORT_VALUE, "null"),
        (b"", ABORT_VALUE, "0 bytes"),
        (b"\x00\x00\x00", ABORT_VALUE, "3 bytes"),
        (bytes.fromhex("ffff 0001"), ABORT_VALUE, "key version -1"),
        (bytes(4), None, "shorter"),
        (bytes(4), ABORT_VALUE[:5], "shorter"),
        (bytes(4), bytes.fromhex("ffff 00000001"), "has version -1"),
    ],
)
def test_s25_malformed_control_records(
    key: bytes | None, value: bytes | None, message: str
) -> None:
    with pytest.raises(InvalidRecordError, match=message) as caught:
        read_control_record(control(key, value))
    assert caught.value.kafka_error is KafkaErrorName.INVALID_RECORD
