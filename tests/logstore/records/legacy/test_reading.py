"""Tests shallow and deep reading of message sets, with the offsets and timestamps of S22."""

from __future__ import annotations

import gzip
import struct
import zlib

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.errors import (
    CorruptMessageError,
    CorruptRecordsError,
    DecompressedTooLargeError,
    InvalidRecordError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy.codecs import compress_set, decompress_set
from lacuna.logstore.records.legacy.lz4_header import (
    with_old_checksum,
    with_right_checksum,
    xxh32_short,
)
from lacuna.logstore.records.legacy.reading import Message, read_entries, read_messages
from lacuna.logstore.records.legacy.writing import write_entry
from tests.logstore.records.legacy import naive
from tests.logstore.records.legacy.naive import Rec

BOUND = 1 << 20
PAYLOAD = st.none() | st.binary(max_size=20)
TIMESTAMP = st.integers(-1, 2**62)


def _records(offsets: st.SearchStrategy[list[int]]) -> st.SearchStrategy[list[Rec]]:
    record = st.tuples(TIMESTAMP, PAYLOAD, PAYLOAD)

    def filled(offsets: list[int]) -> st.SearchStrategy[list[Rec]]:
        size = len(offsets)
        rows = st.lists(record, min_size=size, max_size=size)
        return rows.map(lambda rows: [Rec(o, *r) for o, r in zip(offsets, rows, strict=True)])

    return offsets.flatmap(filled)


INCREASING = st.lists(st.integers(0, 2**40), min_size=1, max_size=8, unique=True).map(sorted)


def _deep(message_set: bytes) -> list[Rec]:
    return [_rec(m) for m in read_messages(message_set, max_bytes=BOUND)]


def _rec(m: Message) -> Rec:
    return Rec(m.offset, m.timestamp, m.key, m.value)


@given(st.sampled_from((0, 1)), _records(INCREASING))
def test_plain_messages(magic: int, records: list[Rec]) -> None:
    """S22: tests framing, magic, timestamps (none in magic 0), keys and values."""
    message_set = naive.plain(magic, records)
    assert _deep(message_set) == naive.read(message_set)
    if magic == 1:
        assert _deep(message_set) == records


@given(
    st.sampled_from((0, 1)),
    _records(INCREASING),
    st.integers(1, 2**60),
    st.sampled_from((1, 9)),
    TIMESTAMP,
)
def test_wrappers(
    magic: int, records: list[Rec], wrapper_offset: int, attributes: int, timestamp: int
) -> None:
    """S22: RO = inner - last inner, AO = wrapper + RO in magic 1, whatever the inner offsets are."""
    attributes = attributes if magic else 1
    inner = naive.plain(magic, records, attributes & 8)
    message_set = naive.wrapper(
        magic, wrapper_offset, inner, attributes=attributes, timestamp=timestamp
    )
    got = _deep(message_set)
    assert got == naive.read(message_set)
    if magic == 1:
        assert got[-1].offset == wrapper_offset
        assert [r.offset - got[0].offset for r in got] == [
            r.offset - records[0].offset for r in records
        ]
    else:
        assert [r.offset for r in got] == [r.offset for r in records]


def test_log_append_time_overrides() -> None:
    """S22: the timestamp of a LogAppendTime wrapper replaces those of its inner messages, which are CreateTime."""
    inner = naive.plain(1, [Rec(0, 5, b"a", b"b"), Rec(1, 6, None, None)])
    message_set = naive.wrapper(1, 41, inner, attributes=9, timestamp=777)
    first, second = read_messages(message_set, max_bytes=BOUND)
    append = TimestampType.LOG_APPEND_TIME
    assert first == Message(40, 777, append, b"a", b"b", 1)
    assert second == Message(41, 777, append, None, None, 1)
    create = naive.wrapper(1, 41, inner, attributes=1, timestamp=777)
    assert [m.timestamp for m in read_messages(create, max_bytes=BOUND)] == [5, 6]


def test_a_plain_message_of_log_append_time() -> None:
    """S22: without a wrapper, the message's own attribute determines the timestamp type."""
    (message,) = read_messages(naive.plain(1, [Rec(3, 9, None, b"v")], 8), max_bytes=BOUND)
    assert message.timestamp_type is TimestampType.LOG_APPEND_TIME
    (old,) = read_messages(naive.plain(0, [Rec(3, 9, None, b"v")], 8), max_bytes=BOUND)
    assert (old.timestamp_type, old.timestamp) == (TimestampType.CREATE_TIME, -1)


def test_a_wrapper_of_a_producer_has_offset_0() -> None:
    """Inner offsets from 0 in a wrapper with offset 0, as librdkafka sends them, do not become negative."""
    inner = naive.plain(1, [Rec(n, 1, None, b"v") for n in range(3)])
    assert [r.offset for r in _deep(naive.wrapper(1, 0, inner))] == [0, 1, 2]


def test_shallow_iteration() -> None:
    """A wrapper is one entry, with its codec, size and position."""
    first = naive.plain(1, [Rec(3, 9, b"k", b"v")])
    message_set = first + naive.wrapper(1, 5, naive.plain(1, [Rec(0, 8, None, b"x")]), timestamp=8)
    plain, wrapper = read_entries(message_set)
    assert (plain.position, plain.offset, plain.codec, plain.size) == (0, 3, Codec.NONE, len(first))
    assert (wrapper.position, wrapper.offset, wrapper.codec) == (len(first), 5, Codec.GZIP)
    assert (wrapper.size, wrapper.timestamp) == (len(message_set) - len(first), 8)
    assert [r.offset for r in _deep(message_set)] == [3, 5]


@pytest.mark.parametrize("magic", [0, 1])
def test_cut_at_every_byte(magic: int) -> None:
    """S22: whole messages are read, and a truncated last message ends the iteration silently."""
    entries = [
        naive.plain(magic, [Rec(0, 1, b"k", b"v")]),
        naive.wrapper(magic, 2, naive.plain(magic, [Rec(1, 1, None, b"a"), Rec(2, 1, b"", b"")])),
        naive.plain(magic, [Rec(3, 1, b"end", None)]),
    ]
    whole = b"".join(entries)
    ends = [sum(map(len, entries[:n])) for n in range(len(entries) + 1)]
    records_before = [0, 1, 3, 4]
    for cut in range(len(whole) + 1):
        complete = max(n for n, end in enumerate(ends) if end <= cut)
        assert _deep(whole[:cut]) == _deep(whole)[: records_before[complete]]


def test_cut_inside_a_wrapper() -> None:
    """S22 also covers inner sets. As in Kafka, one without a whole message is an error."""
    inner = naive.plain(1, [Rec(0, 1, b"k", b"v"), Rec(1, 2, b"l", b"w")])
    for cut in range(len(inner)):
        message_set = naive.wrapper(1, 8, inner[:cut])
        if cut < len(inner) // 2:
            with pytest.raises(InvalidRecordError, match="no complete message"):
                _deep(message_set)
        else:
            assert [r.key for r in _deep(message_set)] == [b"k"]


def test_nested_wrappers_are_refused() -> None:
    inner = naive.wrapper(1, 0, naive.plain(1, [Rec(0, 1, None, b"v")]))
    with pytest.raises(InvalidRecordError, match="is inside another wrapper"):
        _deep(naive.wrapper(1, 0, inner))


def test_another_magic_inside_is_refused() -> None:
    for outer, inside in ((0, 1), (1, 0)):
        message_set = naive.wrapper(outer, 0, naive.plain(inside, [Rec(0, 1, None, b"v")]))
        with pytest.raises(InvalidRecordError, match=f"magic {inside} is inside a wrapper"):
            _deep(message_set)


def test_a_wrapper_without_value_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="no value"):
        _deep(naive.entry(0, naive.message(1, 1, 0, None, None)))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_garbage_under_a_codec(codec: Codec) -> None:
    with pytest.raises(CorruptRecordsError):
        _deep(write_entry(0, 0, codec, -1, None, b"\xff" * 40))


@pytest.mark.parametrize("number", [4, 5, 6, 7])
def test_codecs_that_message_sets_do_not_have(number: int) -> None:
    """zstd came with magic 2, and 5 to 7 are undefined."""
    with pytest.raises(UnsupportedCodecError):
        _deep(naive.entry(0, naive.message(1, number, 0, None, b"v")))


@pytest.mark.slow
def test_decompression_is_bounded_over_all_wrappers() -> None:
    """Two wrappers that fit separately exceed the limit together, and a bomb is never unpacked."""
    inner = naive.plain(1, [Rec(0, 1, None, bytes(1000))])
    pair = naive.wrapper(1, 0, inner) + naive.wrapper(1, 1, inner)
    assert len(list(read_messages(pair, max_bytes=2 * len(inner)))) == 2
    with pytest.raises(DecompressedTooLargeError, match=f"more than {2 * len(inner) - 1} bytes"):
        list(read_messages(pair, max_bytes=2 * len(inner) - 1))
    bomb = naive.entry(0, naive.message(0, 1, -1, None, gzip.compress(bytes(64 << 20))))
    with pytest.raises(DecompressedTooLargeError):
        list(read_messages(bomb, max_bytes=1000))


def test_sizes_that_cannot_be() -> None:
    for size in (-1, 0, 13):
        with pytest.raises(CorruptMessageError, match=f"its size is {size} bytes"):
            list(read_entries(struct.pack(">qi", 0, size) + bytes(20)))
    short = naive.message(0, 0, -1, None, None)
    body = b"\x01" + short[5:]  # magic 1 with the 14 bytes of magic 0
    with pytest.raises(CorruptMessageError, match="too few"):
        list(read_entries(naive.entry(0, short[:4] + body)))


@pytest.mark.parametrize(
    "lengths",
    [
        struct.pack(">ii", 5, -1),  # a key beyond the message
        struct.pack(">ii", -2, -1),  # a negative length that is not null
        struct.pack(">ii", 0, 1),  # a value beyond the message
        struct.pack(">ii", -1, -1) + b"more",  # bytes after the value
        struct.pack(">i", 4) + b"abcd",  # no room for the value's length
    ],
)
def test_lengths_that_do_not_fit(lengths: bytes) -> None:
    """With a correct CRC-32, a key and value that do not fill the message are an invalid record."""
    body = b"\x00\x00" + lengths
    message_set = naive.entry(0, struct.pack(">I", zlib.crc32(body)) + body)
    with pytest.raises(InvalidRecordError, match="at byte 0"):
        _deep(message_set)


def test_other_magics() -> None:
    """With a correct CRC-32, the magic is rejected; otherwise, the bytes are reported as damaged."""
    message = naive.message(2, 0, 0, None, None)
    with pytest.raises(InvalidRecordError, match="magic 0 or 1, not 2"):
        list(read_entries(naive.entry(0, message)))
    with pytest.raises(CorruptMessageError, match="its magic is 2"):
        list(read_entries(naive.entry(0, bytes(4) + message[4:])))


@pytest.mark.parametrize("magic", [0, 1])
def test_every_damaged_bit_is_found(magic: int) -> None:
    """No flipped bit results in other records, except in the offset, which no CRC-32 covers. In the first entry's size,
    it can only end the set (S22).
    """
    single = naive.plain(magic, [Rec(7, 1, b"k", b"v")])
    wrapped = naive.wrapper(magic, 7, naive.plain(magic, [Rec(7, 1, b"k", b"v")]))
    for message_set in (single, wrapped):
        for bit in range(8 * 8, 8 * len(message_set)):
            damaged = bytearray(message_set)
            damaged[bit // 8] ^= 1 << bit % 8
            if int.from_bytes(damaged[8:12], "big", signed=True) > len(message_set) - 12:
                assert _deep(bytes(damaged)) == []
                continue
            with pytest.raises(CorruptMessageError):
                _deep(bytes(damaged))


def test_checksums_can_be_left_unchecked() -> None:
    """`verify=False` is for bytes that have already been verified, and covers wrappers and their contents."""
    inner = bytearray(naive.plain(1, [Rec(0, 1, b"k", b"v")]))
    inner[12] ^= 1
    message_set = naive.wrapper(1, 3, bytes(inner))
    with pytest.raises(CorruptMessageError):
        _deep(message_set)
    (message,) = read_messages(message_set, max_bytes=BOUND, verify=False)
    assert (message.offset, message.key) == (3, b"k")


@given(st.binary(max_size=300), st.booleans(), st.sampled_from((0, 4, 5, 6, 7)))
def test_the_right_checksum_is_that_of_the_lz4_library(
    content: bytes, store_size: bool, block_size: int
) -> None:
    frame = lz4.frame.compress(content, store_size=store_size, block_size=block_size)
    assert with_right_checksum(frame) == frame
    assert with_right_checksum(with_old_checksum(frame)) == frame


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)],
)
def test_known_hashes(data: bytes, expected: int) -> None:
    """XXH32 with seed 0 matches other implementations. Captured frames test the old variant."""
    assert xxh32_short(data) == expected


def test_only_short_input_is_hashed() -> None:
    with pytest.raises(ValueError, match="16 bytes are too many"):
        xxh32_short(bytes(16))


def test_each_magic_has_its_own() -> None:
    """The library rejects magic 0 frames, which differ only in the checksum."""
    old = compress_set(Codec.LZ4, b"inner set", 0)
    right = compress_set(Codec.LZ4, b"inner set", 1)
    assert [at for at in range(len(old)) if old[at] != right[at]] == [6]
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(old)
    assert decompress_set(Codec.LZ4, old, 0, 100) == b"inner set"
    # Clients that never had the error (or fixed it) write the correct one in magic 0 too.
    assert decompress_set(Codec.LZ4, right, 0, 100) == b"inner set"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x04\x22\x4d\x18\x60\x40",  # ends before the checksum
        b"\x04\x22\x4d\x18\x68\x40\x00\x00",  # ends inside the content size
        b"\x04\x22\x4d\x18\x61\x40\x00\x00\x00\x00\x00\x00",  # with a dictionary
        b"\x02\x21\x4c\x18\x60\x40\x82\x00",  # the legacy frame's magic number
    ],
)
def test_what_is_no_frame_is_left_alone(frame: bytes) -> None:
    assert with_old_checksum(frame) == frame
    assert with_right_checksum(frame) == frame
