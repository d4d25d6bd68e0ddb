"""Tests coalescing (S19): many batches become one without any change for consumers."""

from __future__ import annotations

import dataclasses
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.batch import BatchHeader, BatchToWrite, NewRecord, read_batches
from lacuna.logstore.records.control import filler
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    DecompressedTooLargeError,
    InvalidRecordError,
    TruncatedBatchError,
)
from lacuna.logstore.records.layout import HEADER_SIZE, NO_TIMESTAMP, Codec, TimestampType
from lacuna.logstore.records.packing import with_crc

record_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.binary(max_size=5), record_bytes), max_size=2).map(tuple)


def records_of(batches: list[bytes]) -> list[tuple[object, ...]]:
    """Return everything that a consumer sees of the records, in order."""
    return [
        (r.offset, r.timestamp, r.key, r.value, r.headers, r.attributes, b.header.timestamp_type)
        for data in batches
        for b in read_batches(data)
        for r in b.records()
    ]


def plain(base_offset: int, *deltas: int, timestamp: int = 1000, size: int = 1) -> BatchToWrite:
    return BatchToWrite(
        base_offset=base_offset,
        records=tuple(
            NewRecord(offset_delta=delta, timestamp=timestamp + delta, value=b"v" * size)
            for delta in deltas
        ),
    )


def appended(base_offset: int, now_ms: int) -> bytes:
    return dataclasses.replace(
        plain(base_offset, 0, 1),
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp=now_ms,
    ).encode()


@st.composite
def stored_batches(draw: st.DrawFn) -> list[bytes]:
    """Draws stored batches from any producers, with holes between and within them."""
    offset = draw(st.integers(0, 2**40))
    batches = []
    for _ in range(draw(st.integers(0, 6))):
        offset += draw(st.integers(0, 2**31))
        deltas = draw(st.lists(st.integers(0, 2**20), max_size=5, unique=True).map(sorted))
        append_time = draw(st.sampled_from([None, None, 5, 6]))
        batch = BatchToWrite(
            records=tuple(
                NewRecord(
                    offset_delta=delta,
                    timestamp=draw(st.integers(-1, 2**62)),
                    key=draw(record_bytes),
                    value=draw(record_bytes),
                    headers=draw(headers),
                    attributes=draw(st.integers(0, 255)),
                )
                for delta in deltas
            ),
            base_offset=offset,
            last_offset_delta=draw(st.integers(deltas[-1] if deltas else 0, 2**21)),
            codec=draw(st.sampled_from(Codec)),
            timestamp_type=TimestampType(int(append_time is not None)),
            max_timestamp=append_time,
            is_transactional=draw(st.booleans()),
            producer_id=draw(st.integers(-1, 5)),
        )
        batches.append(batch.encode())
        offset = BatchHeader.parse(batches[-1]).next_offset
    return batches


@given(
    batches=stored_batches(),
    codec=st.sampled_from([-1, *Codec]),
    max_bytes=st.sampled_from([100, 400, 1 << 20]),
    joined=st.booleans(),
)
def test_s19_consumers_see_the_same_records(
    rewriting: ModuleType, batches: list[bytes], codec: int, max_bytes: int, joined: bool
) -> None:
    chunks = [memoryview(b"".join(batches))] if joined else batches
    merged = rewriting.coalesce(chunks, codec, max_bytes)
    assert records_of(merged) == records_of(batches)
    expected_codec = codec
    if codec == -1 and batches:
        expected_codec = BatchHeader.parse(batches[0]).codec
    for data in merged:
        (batch,) = read_batches(data)
        header, records = batch.header, batch.records()
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        assert header.attributes & ~0x08 == expected_codec
        assert header.partition_leader_epoch == 0
        assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
        assert header.max_timestamp == max(record.timestamp for record in records)
        section = len(batch.section())
        assert len(records) == 1 or HEADER_SIZE + section <= max_bytes


def test_s19_many_producers_become_one_batch(rewriting: ModuleType) -> None:
    batches = [
        dataclasses.replace(
            plain(10 * i, 0, 2), producer_id=i, producer_epoch=1, base_sequence=0,
            is_transactional=i % 2 == 0,
        ).encode()
        for i in range(50)
    ]  # fmt: skip
    (merged,) = rewriting.coalesce(batches)
    assert records_of([merged]) == records_of(batches)
    assert BatchHeader.parse(merged).record_count == 100


def test_s19_the_delete_horizon_is_cleared(rewriting: ModuleType) -> None:
    data = plain(0, 0, 1).encode()
    header = BatchHeader.parse(data)
    marked = header._replace(attributes=header.attributes | 0x40)
    (merged,) = rewriting.coalesce([with_crc(bytearray(marked.pack() + data[HEADER_SIZE:]))])
    assert not BatchHeader.parse(merged).has_delete_horizon


def test_s19_timestamp_types_are_kept_apart(rewriting: ModuleType) -> None:
    batches = [plain(0, 0).encode(), appended(1, 50), plain(3, 0).encode(), plain(4, 0).encode()]
    merged = rewriting.coalesce(batches)
    assert [BatchHeader.parse(data).timestamp_type for data in merged] == [0, 1, 0]
    assert records_of(merged) == records_of(batches)


def test_s19_append_times_are_kept_apart(rewriting: ModuleType) -> None:
    batches = [appended(0, 50), appended(2, 50), appended(4, 51), appended(6, 50)]
    merged = rewriting.coalesce(batches)
    headers = [BatchHeader.parse(data) for data in merged]
    assert [(h.max_timestamp, h.record_count) for h in headers] == [(50, 4), (51, 2), (50, 2)]


def test_s19_the_first_batch_names_the_codec(rewriting: ModuleType) -> None:
    lz4 = dataclasses.replace(plain(0, 0, 1), codec=Codec.LZ4).encode()
    none = plain(2, 0).encode()
    for batches, codec in (([lz4, none], Codec.LZ4), ([none, *[plain(9, 0).encode()]], Codec.NONE)):
        (merged,) = rewriting.coalesce(batches)
        assert BatchHeader.parse(merged).codec is codec
    (merged,) = rewriting.coalesce([lz4, none], Codec.GZIP)
    assert BatchHeader.parse(merged).codec is Codec.GZIP


def test_deltas_beyond_32_bits_begin_another_batch(rewriting: ModuleType) -> None:
    batches = [plain(5, 0).encode(), plain(5 + 2**31 - 1, 0, 1).encode()]
    merged = rewriting.coalesce(batches)
    assert [BatchHeader.parse(data).base_offset for data in merged] == [5, 5 + 2**31]
    assert BatchHeader.parse(merged[0]).last_offset_delta == 2**31 - 1


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (2**63 - 1, 0, 1),
        (2**63 - 1, -1, 1),
        (2**63 - 1, -2, 2),
        (-1, 2**63 - 1, 2),
        (-1, 2**63 - 2, 1),
        (0, -(2**63), 1),
        (1, -(2**63), 2),
        (-1, -(2**63), 1),
    ],
)
def test_timestamps_too_far_apart_begin_another_batch(
    rewriting: ModuleType, first: int, second: int, count: int
) -> None:
    batches = [plain(i, 0, timestamp=time).encode() for i, time in enumerate((first, second))]
    merged = rewriting.coalesce(batches)
    assert len(merged) == count
    assert records_of(merged) == records_of(batches)


def test_s19_records_older_than_1970_have_no_largest_timestamp(rewriting: ModuleType) -> None:
    """Kafka and the index of a segment both count from -1 up."""
    batches = [plain(i, 0, timestamp=-5000 - i).encode() for i in range(2)]
    (merged,) = rewriting.coalesce(batches)
    assert records_of([merged]) == records_of(batches)
    assert BatchHeader.parse(merged).max_timestamp == NO_TIMESTAMP


def test_large_records_grow_the_buffer(rewriting: ModuleType) -> None:
    batches = [plain(i, 0, size=30_000 * (i + 1)).encode() for i in range(4)]
    (merged,) = rewriting.coalesce(batches)
    assert records_of([merged]) == records_of(batches)


def test_a_record_larger_than_the_bound_goes_alone(rewriting: ModuleType) -> None:
    batches = [plain(0, 0).encode(), plain(1, 0, size=500).encode(), plain(2, 0).encode()]
    merged = rewriting.coalesce(batches, -1, 200)
    assert [BatchHeader.parse(data).record_count for data in merged] == [1, 1, 1]


@pytest.mark.parametrize(
    "chunks", [[], [b""], [BatchToWrite(records=(), last_offset_delta=3).encode()]]
)
def test_never_a_batch_without_records(rewriting: ModuleType, chunks: list[bytes]) -> None:
    assert rewriting.coalesce(chunks) == []


def test_control_batches_are_refused(rewriting: ModuleType) -> None:
    with pytest.raises(ValueError, match="control"):
        rewriting.coalesce([filler(0, 5)])


def test_offsets_must_increase(rewriting: ModuleType) -> None:
    with pytest.raises(CorruptBatchError, match="offset 3 follows offset 3"):
        rewriting.coalesce([plain(3, 0).encode(), plain(3, 0).encode()])


def test_a_truncated_chunk(rewriting: ModuleType) -> None:
    data = plain(0, 0).encode()
    for end in range(1, len(data)):
        with pytest.raises(TruncatedBatchError):
            rewriting.coalesce([data[:end]])


def forged(data: bytes, **fields: int) -> bytes:
    return BatchHeader.parse(data)._replace(**fields).pack() + data[HEADER_SIZE:]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"record_count": 1}, "follow the last"),
        ({"record_count": 3}, "end inside"),
        ({"record_count": -1}, "follow the last"),
        ({"base_timestamp": 2**63 - 1}, "exceeds 64 bits"),
        ({"base_offset": 2**63 - 1}, "exceeds 64 bits"),
    ],
)
def test_headers_at_odds_with_their_records(
    rewriting: ModuleType, fields: dict[str, int], message: str
) -> None:
    with pytest.raises(InvalidRecordError, match=message):
        rewriting.coalesce([forged(plain(0, 0, 1).encode(), **fields)])


def test_decompression_is_bounded(rewriting: ModuleType) -> None:
    data = dataclasses.replace(plain(0, 0, size=10_000), codec=Codec.GZIP).encode()
    with pytest.raises(DecompressedTooLargeError):
        rewriting.coalesce([data], -1, 1 << 20, 5000)


@given(at=st.integers(HEADER_SIZE, 200), byte=st.integers(0, 255))
def test_changed_record_bytes_give_batches_or_a_typed_error(
    rewriting: ModuleType, at: int, byte: int
) -> None:
    data = bytearray(plain(0, 0, 1, 2).encode())
    data[HEADER_SIZE + at % (len(data) - HEADER_SIZE)] = byte
    try:
        merged = rewriting.coalesce([data])
    except (InvalidRecordError, CorruptBatchError):
        return
    assert sum(BatchHeader.parse(batch).record_count for batch in merged) == 3
