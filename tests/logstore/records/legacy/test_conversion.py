"""Tests the conversion of message sets to batches and back (S24)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.batch import BatchToWrite, NewRecord, RecordBatch, read_batches
from lacuna.logstore.records.control import filler
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    DecompressedTooLargeError,
    EmptyMessageSetError,
    InvalidTimestampError,
)
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy import from_batches, to_batch
from lacuna.logstore.records.legacy.layout import MAX_WRAPPER_RECORDS
from lacuna.logstore.records.legacy.reading import read_entries, read_messages
from lacuna.logstore.records.legacy.writing import NewMessage, write_message_set
from lacuna.logstore.records.validate import ProduceRules, validate_produced
from tests.logstore.records.legacy import naive
from tests.logstore.records.legacy.naive import Rec

BOUND = 1 << 20
LEGACY_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
PAYLOAD = st.none() | st.binary(max_size=40)


def _to_batch(message_set: bytes) -> RecordBatch:
    (batch,) = read_batches(to_batch(message_set, max_bytes=BOUND))
    return batch


def _batch(
    base_offset: int, deltas: tuple[int, ...], codec: Codec = Codec.NONE, size: int = 1
) -> bytes:
    records = tuple(
        NewRecord(
            offset_delta=d,
            timestamp=100 + d,
            key=b"k%d" % d,
            value=bytes(size),
            headers=((b"h", b""),),
        )
        for d in deltas
    )
    return BatchToWrite(records=records, base_offset=base_offset, codec=codec).encode()


def _offsets(message_set: bytes) -> list[int]:
    return [m.offset for m in read_messages(message_set, max_bytes=BOUND)]


# Produce v0 to v2


@given(
    st.lists(
        st.tuples(
            st.sampled_from(LEGACY_CODECS),
            st.lists(st.tuples(st.integers(-1, 2**60), PAYLOAD, PAYLOAD), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from((0, 1)),
)
def test_to_batch(
    parts: list[tuple[Codec, list[tuple[int, bytes | None, bytes | None]]]], magic: int
) -> None:
    """S24, S11: plain messages and wrappers in one set become one batch that is valid in Produce v3."""
    message_set = b"".join(
        write_message_set(
            [NewMessage(n, *row) for n, row in enumerate(rows)], magic=magic, codec=codec
        )
        for codec, rows in parts
    )
    batch = _to_batch(message_set)
    expected = [row for _, rows in parts for row in rows]
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records()] == [
        (n, time if magic else -1, key, value, ()) for n, (time, key, value) in enumerate(expected)
    ]
    first_codec = next((codec for codec, _ in parts if codec), Codec.NONE)
    assert batch.header.codec is first_codec
    summary = validate_produced(batch.data, ProduceRules(max_message_bytes=BOUND), now_ms=0)
    assert (summary.record_count, summary.producer_id) == (len(expected), -1)
    assert batch.header.partition_leader_epoch == 0


def test_to_batch_leaves_a_cut_off_message_out() -> None:
    """S22: as in Kafka, this happens silently, but a set with nothing else is rejected."""
    whole = naive.plain(1, [Rec(0, 1, b"a", b"v")])
    assert [r.key for r in _to_batch(whole + whole[:-1]).records()] == [b"a"]
    with pytest.raises(EmptyMessageSetError):
        _to_batch(whole[:-1])


def test_to_batch_checks() -> None:
    """S23: a rejected set gets the validation step's error."""
    plain = naive.plain(1, [Rec(0, 1, None, b"v")])
    with pytest.raises(DecompressedTooLargeError):
        to_batch(naive.wrapper(1, 0, plain), max_bytes=len(plain) - 1)
    with pytest.raises(InvalidTimestampError, match="LogAppendTime"):
        _to_batch(naive.plain(1, [Rec(0, 1, None, b"v")], 8))


def test_timestamps_too_far_apart_for_one_batch() -> None:
    """A batch stores timestamps as 64-bit differences, so a wider range is the producer's fault."""
    low, high = -(2**63), 2**63 - 1
    for times in ((0, high), (0, low), (-1, low), (high, 0)):
        message_set = naive.plain(1, [Rec(n, t, None, None) for n, t in enumerate(times)])
        assert [r.timestamp for r in _to_batch(message_set).records()] == list(times)
    for times in ((low, high), (high, low), (-1, high), (1, low)):
        message_set = naive.plain(1, [Rec(n, t, None, None) for n, t in enumerate(times)])
        with pytest.raises(InvalidTimestampError, match="too far apart"):
            _to_batch(message_set)


# Fetch v0 to v3


@given(
    st.lists(
        st.tuples(
            st.sampled_from(Codec),
            st.sampled_from(TimestampType),
            st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True).map(sorted),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from((0, 1)),
)
def test_from_batches(parts: list[tuple[Codec, TimestampType, list[int]]], magic: int) -> None:
    """S24: offsets with their holes, keys and values are kept, as are timestamps and their type in magic 1."""
    batches, expected = [], []
    for number, (codec, kind, deltas) in enumerate(parts):
        records = tuple(NewRecord(offset_delta=d, timestamp=d, key=b"k%d" % d) for d in deltas)
        batch = BatchToWrite(
            records=records,
            base_offset=100 * number,
            last_offset_delta=50,
            codec=codec,
            timestamp_type=kind,
            max_timestamp=99,
        )
        batches.append(batch.encode())
        for d in deltas:
            time = 99 if kind is TimestampType.LOG_APPEND_TIME else d
            seen = (time, kind) if magic else (-1, TimestampType.CREATE_TIME)
            expected.append((100 * number + d, *seen, b"k%d" % d))
    message_set = from_batches(batches, magic=magic, first_offset=0)
    assert [
        (m.offset, m.timestamp, m.timestamp_type, m.key)
        for m in read_messages(message_set, max_bytes=BOUND)
    ] == expected
    wrappers = [e.codec for e in read_entries(message_set) if e.codec]
    gzip_for_zstd = [Codec.GZIP if codec is Codec.ZSTD else codec for codec, *_ in parts if codec]
    assert wrappers == gzip_for_zstd


def test_control_batches_are_left_out() -> None:
    """S24: the filler of S17 and all other control records are omitted, and batches without records produce nothing."""
    empty = BatchToWrite(records=(), base_offset=3, last_offset_delta=4).encode()
    buffers = [_batch(0, (0, 1)) + filler(2, 3), empty, _batch(8, (0,))]
    assert _offsets(from_batches(buffers, magic=1, first_offset=0)) == [0, 1, 8]
    assert from_batches([filler(2, 3)], magic=0, first_offset=2) == b""
    assert from_batches([], magic=0, first_offset=0) == b""


def test_records_below_the_first_offset() -> None:
    """Plain messages are omitted. Wrappers remain whole, and clients skip their first records."""
    batches = [_batch(0, (0, 1, 2)), _batch(3, (0, 1, 2), Codec.GZIP)]
    assert _offsets(from_batches(batches, magic=1, first_offset=2)) == [2, 3, 4, 5]
    assert _offsets(from_batches(batches[1:], magic=1, first_offset=5)) == [3, 4, 5]
    assert from_batches(batches[:1], magic=1, first_offset=3) == b""


def test_the_bound() -> None:
    """The result contains whole messages, at least the first. Nothing after the limit is read."""
    whole = from_batches([_batch(0, (0, 1, 2))], magic=1, first_offset=0)
    third = len(whole) // 3
    for max_bytes in range(3 * third + 2):
        cut = from_batches([_batch(0, (0, 1, 2))], magic=1, max_bytes=max_bytes, first_offset=0)
        assert cut == whole[: max(1, max_bytes // third) * third]

    def batches() -> Iterator[bytes]:
        yield _batch(0, (0, 1), Codec.LZ4, size=500)
        yield _batch(2, (0, 1), Codec.LZ4, size=500)
        raise AssertionError("read beyond the bound")

    assert _offsets(from_batches(batches(), magic=0, max_bytes=1, first_offset=0)) == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_of_very_many_records_becomes_several_wrappers(magic: int) -> None:
    """Wrappers limit the memory used. Those before the requested offset are omitted."""
    deltas = tuple(range(0, 6 * MAX_WRAPPER_RECORDS + 9, 3))
    batch = _batch(7, deltas, Codec.ZSTD, size=1)
    whole = from_batches([batch], magic=magic, first_offset=0)
    assert [m.offset for m in read_messages(whole, max_bytes=8 * BOUND)] == [7 + d for d in deltas]
    first, second, third = read_entries(whole)
    cut = from_batches([batch], magic=magic, first_offset=0, max_bytes=len(whole) - 1)
    assert cut == whole[: third.position]
    for offset, position in (
        (first.offset, 0),
        (first.offset + 1, second.position),
        (second.offset, second.position),
        (third.offset, third.position),
        (third.offset + 1, len(whole)),
    ):
        assert from_batches([batch], magic=magic, first_offset=offset) == whole[position:]


def test_damaged_batches_are_errors() -> None:
    damaged = bytearray(_batch(0, (0,)))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        from_batches([bytes(damaged)], magic=1, first_offset=0)
    with pytest.raises(DecompressedTooLargeError):
        from_batches(
            [_batch(0, (0,), Codec.ZSTD, size=5000)],
            magic=1,
            first_offset=0,
            max_decompressed_bytes=4000,
        )


@given(
    st.lists(PAYLOAD, min_size=1, max_size=6),
    st.sampled_from((0, 1)),
    st.sampled_from(LEGACY_CODECS),
)
def test_there_and_back(values: list[bytes | None], magic: int, codec: Codec) -> None:
    """A produced set is read from the log unchanged, except for its compressor's choices."""
    messages = [NewMessage(n, 5, None, value) for n, value in enumerate(values)]
    message_set = write_message_set(messages, magic=magic, codec=codec)
    back = from_batches([_to_batch(message_set).data], magic=magic, first_offset=0)
    assert list(read_messages(back, max_bytes=BOUND)) == list(
        read_messages(message_set, max_bytes=BOUND)
    )
    if codec is Codec.NONE:
        assert back == message_set
