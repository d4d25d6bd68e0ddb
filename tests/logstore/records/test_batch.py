"""Tests batches as values: exact bytes, round trips, truncation, and the header's bits."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records import layout
from lacuna.logstore.records.batch import (
    BatchHeader,
    BatchToWrite,
    NewRecord,
    RecordBatch,
    read_batches,
    varint,
)
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    DecompressedTooLargeError,
    InvalidRecordError,
    TruncatedBatchError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import Codec, TimestampType

RECORDS = (
    NewRecord(offset_delta=0, timestamp=1000, key=b"k", value=b"v"),
    NewRecord(offset_delta=3, timestamp=990, key=None, value=b"", headers=((b"h", None),)),
    NewRecord(offset_delta=4, timestamp=1005, key=b"", value=None, headers=((b"", b"x"),) * 2),
)
BATCH = BatchToWrite(records=RECORDS, base_offset=100, last_offset_delta=9)

EXACT = bytes.fromhex(
    "0000000000000064 00000051 ffffffff 02"  # base_offset, batch_length, leader epoch, magic
    "485ee3fa 0000 00000009"  # CRC-32C, attributes, last_offset_delta
    "00000000000003e8 00000000000003ed"  # base and max timestamp
    "ffffffffffffffff ffff ffffffff 00000003"  # no producer id, epoch or sequence; count
    "10 00 00 00 02 6b 02 76 00"  # size, attributes, deltas, key, value, headers
    "12 00 13 06 01 00 02 02 68 01"
    "18 00 0a 08 00 01 04 00 02 78 00 02 78"
)

record_bytes = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.binary(max_size=8), record_bytes), max_size=3).map(tuple)
timestamps = st.integers(-1, 2**62)
producers = st.tuples(
    st.integers(-1, 2**40), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1)
)


@st.composite
def batches(draw: st.DrawFn) -> BatchToWrite:
    """Draws any batch, with holes before, between and after its records."""
    deltas = draw(st.lists(st.integers(0, 2**31 - 1), max_size=8, unique=True).map(sorted))
    records = tuple(
        NewRecord(
            offset_delta=delta,
            timestamp=draw(timestamps),
            key=draw(record_bytes),
            value=draw(record_bytes),
            headers=draw(headers),
            attributes=draw(st.integers(0, 255)),
        )
        for delta in deltas
    )
    producer_id, producer_epoch, base_sequence = draw(producers)
    return BatchToWrite(
        records=records,
        base_offset=draw(st.integers(0, 2**62)),
        last_offset_delta=draw(st.integers(deltas[-1] if deltas else 0, 2**31 - 1)),
        codec=draw(st.sampled_from(Codec)),
        is_transactional=draw(st.booleans()),
        is_control=draw(st.booleans()),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def read_one(data: bytes) -> RecordBatch:
    (batch,) = read_batches(data)
    return batch


def as_new(batch: RecordBatch) -> tuple[NewRecord, ...]:
    return tuple(
        NewRecord(
            offset_delta=record.offset - batch.header.base_offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
            attributes=record.attributes,
        )
        for record in batch.records()
    )


def test_exact_bytes() -> None:
    assert BATCH.encode() == EXACT


@pytest.mark.parametrize("codec", Codec)
def test_holes_and_nulls_survive(codec: Codec) -> None:
    batch = read_one(dataclasses.replace(BATCH, codec=codec).encode())
    assert as_new(batch) == RECORDS
    assert [record.offset for record in batch.records()] == [100, 103, 104]
    assert batch.header.codec is codec


def test_the_bound_is_for_what_is_compressed() -> None:
    """max.message.bytes may be larger, and every other reader accepts an uncompressed batch of any size."""
    batch = read_one(BATCH.encode())
    assert batch.records(1) == batch.records()
    with pytest.raises(DecompressedTooLargeError):
        read_one(dataclasses.replace(BATCH, codec=Codec.LZ4).encode()).records(1)


def test_s16_next_offset_comes_from_last_offset_delta() -> None:
    header = read_one(BATCH.encode()).header
    assert (header.last_offset, header.next_offset, header.record_count) == (109, 110, 3)


@given(batch=batches())
def test_round_trip(batch: BatchToWrite) -> None:
    data = batch.encode()
    read = read_one(data)
    header = read.header
    assert as_new(read) == batch.records
    assert header.pack() == data[: layout.HEADER_SIZE]
    assert header.size == len(data)
    assert header.is_transactional == batch.is_transactional
    assert header.is_control == batch.is_control
    assert header.last_offset_delta == batch.last_offset_delta
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
    )


def test_the_layout_names_the_struct() -> None:
    fields = (
        ("batch_length", layout.BATCH_LENGTH_AT, 4),
        ("magic", layout.MAGIC_AT, 1),
        ("crc", layout.CRC_AT, 4),
        ("attributes", layout.ATTRIBUTES_AT, 2),
        ("max_timestamp", layout.MAX_TIMESTAMP_AT, 8),
        ("record_count", layout.RECORD_COUNT_AT, 4),
    )
    header = read_one(BATCH.encode()).header
    for name, position, size in fields:
        changed = header._replace(**{name: 0x11})
        zero = header._replace(**{name: 0}).pack()
        differing = [i for i, byte in enumerate(changed.pack()) if byte != zero[i]]
        assert differing == [position + size - 1], name


def test_byte_at_a_time_says_how_much_is_needed() -> None:
    """A prefix is reported as truncated, never corrupt, and `needed` is exact once the length is known."""
    data = BATCH.encode()
    for end in range(1, len(data)):
        with pytest.raises(TruncatedBatchError) as caught:
            list(read_batches(data[:end]))
        assert caught.value.position == 0
        assert caught.value.needed == (61 if end < 61 else len(data))
        assert caught.value.needed > end


def test_whole_batches_come_before_a_truncated_one() -> None:
    data = BATCH.encode()
    for end in range(len(data) + 1, 2 * len(data)):
        batches_read = read_batches((data * 2)[:end])
        assert next(batches_read).data == data
        with pytest.raises(TruncatedBatchError) as caught:
            next(batches_read)
        assert caught.value.position == len(data)


def test_nothing_holds_no_batch() -> None:
    assert list(read_batches(b"")) == []


def test_any_changed_byte_under_the_checksum_is_corrupt() -> None:
    for position in range(21, len(EXACT)):
        data = bytearray(BATCH.encode())
        data[position] ^= 0x01
        with pytest.raises(CorruptBatchError, match="CRC-32C"):
            list(read_batches(data))
        assert next(read_batches(data, verify=False)).data == data


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_another_magic_is_corrupt_as_soon_as_it_is_there(magic: int) -> None:
    data = bytearray(BATCH.encode())
    data[layout.MAGIC_AT] = magic
    with pytest.raises(CorruptBatchError, match="magic"):
        list(read_batches(data[: layout.MAGIC_AT + 1]))


@pytest.mark.parametrize("batch_length", [-1, 0, 48])
def test_a_length_without_room_for_the_header_is_corrupt(batch_length: int) -> None:
    data = bytearray(BATCH.encode())
    data[8:12] = batch_length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatchError, match="batch_length"):
        list(read_batches(data))


@pytest.mark.parametrize(
    ("base_sequence", "last_sequence"),
    [(-1, -1), (0, 9), (2**31 - 10, 2**31 - 1), (2**31 - 9, 0), (2**31 - 1, 8)],
)
def test_s10_sequences_wrap_to_zero(base_sequence: int, last_sequence: int) -> None:
    batch = dataclasses.replace(BATCH, producer_id=1, base_sequence=base_sequence)
    assert read_one(batch.encode()).header.last_sequence == last_sequence


def test_attribute_bits() -> None:
    bits = {"is_transactional": 0x10, "is_control": 0x20, "has_delete_horizon": 0x40}
    plain = read_one(BATCH.encode()).header
    for name, bit in bits.items():
        header = plain._replace(attributes=bit)
        assert [getattr(header, other) for other in bits] == [other == name for other in bits]


def test_an_unknown_codec_is_named() -> None:
    header = read_one(BATCH.encode()).header._replace(attributes=5)
    with pytest.raises(UnsupportedCodecError):
        _ = header.codec


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = dataclasses.replace(
        BATCH, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=5000
    )
    assert {record.timestamp for record in read_one(batch.encode()).records()} == {5000}


@pytest.mark.parametrize(
    ("deltas", "last"),
    [((0, 0), None), ((1, 0), None), ((-1,), None), ((2**31,), None), ((0, 5), 4), ((), -1)],
)
def test_deltas_that_cannot_be_written(deltas: tuple[int, ...], last: int | None) -> None:
    records = tuple(NewRecord(offset_delta=delta) for delta in deltas)
    with pytest.raises(ValueError, match="delta"):
        BatchToWrite(records=records, last_offset_delta=last).encode()


@pytest.mark.parametrize(("delta", "last"), [(10, 9), (-1, 9)])
def test_records_beyond_their_batch_are_invalid(delta: int, last: int) -> None:
    """A record's offset delta must be within the batch, even if the checksum is correct."""
    section = bytes((0, 0)) + varint(delta) + varint(-1) + varint(-1) + varint(0)
    section = varint(len(section)) + section
    header = read_one(BATCH.encode()).header._replace(record_count=1)
    batch = RecordBatch(
        header._replace(last_offset_delta=last),
        memoryview(header.pack() + section),
    )
    with pytest.raises(InvalidRecordError, match="out of order"):
        batch.records()


@pytest.mark.parametrize(
    ("base_offset", "base_timestamp", "timestamp_delta"),
    [(2**63 - 1, 0, 0), (0, 2**63 - 1, 1), (0, -(2**63), -1)],
)
def test_records_beyond_64_bits_are_invalid(
    base_offset: int, base_timestamp: int, timestamp_delta: int
) -> None:
    """All of the kernel's readers enforce this, so code that writes int64 need not check."""
    section = (
        bytes((0,)) + varint(timestamp_delta) + varint(1) + varint(-1) + varint(-1) + varint(0)
    )
    section = varint(len(section)) + section
    header = read_one(BATCH.encode()).header._replace(
        base_offset=base_offset,
        base_timestamp=base_timestamp,
        last_offset_delta=1,
        record_count=1,
        attributes=0,
    )
    with pytest.raises(InvalidRecordError, match="exceeds 64 bits"):
        RecordBatch(header, memoryview(header.pack() + section)).records()


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_varints_hold_64_bits(value: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        varint(value)


def test_header_parse_at_a_position() -> None:
    data = b"xxx" + BATCH.encode()
    assert BatchHeader.parse(data, 3).base_offset == 100


@given(batches(), st.integers(1, 9))
def test_groups_are_the_records_in_lists(batch: BatchToWrite, most: int) -> None:
    """They include records longer than 63 bytes, whose sizes take two or more bytes."""
    (read,) = read_batches(batch.encode())
    groups = list(read.record_groups(most))
    assert [each for group in groups for each in group] == read.records()
    assert all(len(group) == most for group in groups[:-1])
    assert len(groups[-1]) <= most


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("size", [b"\x0f", b"\x80", b"\xff" * 9, b"\xfe\xff\xff\xff\x0f"])
def test_groups_of_damaged_records_end_in_an_error(size: bytes, most: int) -> None:
    """The second record's size is negative, truncated, endless or too large."""
    records = tuple(NewRecord(offset_delta=d, timestamp=0, value=b"12345678") for d in range(5))
    whole = BatchToWrite(records=records).encode()
    (read,) = read_batches(whole)
    record_size = len(read.section()) // len(records)
    damaged = RecordBatch(read.header, memoryview(whole[: layout.HEADER_SIZE + record_size] + size))
    with pytest.raises(InvalidRecordError):
        list(damaged.record_groups(most))


@pytest.mark.parametrize("most", [1, 2, 3])
def test_groups_are_in_order_from_one_to_the_next(most: int) -> None:
    records = tuple(NewRecord(offset_delta=d, timestamp=0) for d in range(4))
    (read,) = read_batches(BatchToWrite(records=records).encode())
    section = read.section()
    half = len(section) // 2
    twice = read.data[: layout.HEADER_SIZE].tobytes() + section[:half] + section[:half]
    with pytest.raises(InvalidRecordError, match="out of order"):
        list(RecordBatch(read.header, memoryview(twice)).record_groups(most))
