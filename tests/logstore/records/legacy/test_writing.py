"""Tests that message sets are written as S22 specifies, and that invalid produced ones are rejected (S23)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.errors import (
    DecompressedTooLargeError,
    InvalidTimestampError,
    RecordsError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy.reading import read_entries, read_messages, unwrap
from lacuna.logstore.records.legacy.validation import check_message_set
from lacuna.logstore.records.legacy.writing import NewMessage, write_message_set
from tests.logstore.records.legacy import naive

BOUND = 1 << 20
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
PAYLOAD = st.none() | st.binary(max_size=40)
MESSAGES = st.lists(
    st.tuples(st.integers(0, 2**60), st.integers(-1, 2**60), PAYLOAD, PAYLOAD),
    min_size=1,
    max_size=8,
    unique_by=lambda row: row[0],
).map(lambda rows: [NewMessage(*row) for row in sorted(rows, key=lambda row: row[0])])


@given(MESSAGES, st.sampled_from((0, 1)), st.sampled_from(CODECS), st.sampled_from(TimestampType))
def test_round_trip(
    messages: list[NewMessage], magic: int, codec: Codec, kind: TimestampType
) -> None:
    """S22: every magic, codec and timestamp type keeps offsets, holes, keys and values."""
    kind = kind if magic else TimestampType.CREATE_TIME
    message_set = write_message_set(
        messages, magic=magic, codec=codec, timestamp_type=kind, append_time=123
    )
    appended = kind is TimestampType.LOG_APPEND_TIME
    times = [-1 if not magic else 123 if appended else m.timestamp for m in messages]
    assert [
        (m.offset, m.timestamp, m.timestamp_type, m.key, m.value, m.magic)
        for m in read_messages(message_set, max_bytes=BOUND)
    ] == [
        (m.offset, time, kind, m.key, m.value, magic)
        for m, time in zip(messages, times, strict=True)
    ]


@given(MESSAGES, st.sampled_from((0, 1)), st.sampled_from((Codec.NONE, Codec.GZIP)))
def test_an_independent_reader(messages: list[NewMessage], magic: int, codec: Codec) -> None:
    """S22: the naive reader reads what was written."""
    got = naive.read(write_message_set(messages, magic=magic, codec=codec))
    assert [(r.offset, r.key, r.value) for r in got] == [
        (m.offset, m.key, m.value) for m in messages
    ]
    if codec is Codec.NONE:
        recs = [naive.Rec(m.offset, m.timestamp, m.key, m.value) for m in messages]
        assert write_message_set(messages, magic=magic) == naive.plain(magic, recs)


@given(MESSAGES, st.sampled_from((0, 1)), st.sampled_from(CODECS[1:]))
def test_the_wrapper(messages: list[NewMessage], magic: int, codec: Codec) -> None:
    """S22: it has the last message's offset and the largest timestamp; inner offsets are relative only in magic 1."""
    (wrapper,) = read_entries(write_message_set(messages, magic=magic, codec=codec))
    assert (wrapper.offset, wrapper.magic, wrapper.codec) == (messages[-1].offset, magic, codec)
    if magic == 1:
        assert wrapper.timestamp == max(m.timestamp for m in messages)
    base = messages[0].offset if magic else 0
    inner = unwrap(wrapper, BOUND, BOUND)
    assert [e.offset for e in read_entries(inner)] == [m.offset - base for m in messages]


def test_no_messages_are_no_bytes() -> None:
    for codec in CODECS:
        assert write_message_set([], magic=1, codec=codec) == b""


def test_what_cannot_be_written() -> None:
    one = NewMessage(5, 0, None, b"v")
    with pytest.raises(ValueError, match="magic 0 or 1, not 2"):
        write_message_set([one], magic=2)
    for second in (5, 4):
        with pytest.raises(ValueError, match=f"offset {second} follows 5"):
            write_message_set([one, NewMessage(second)], magic=1)
    with pytest.raises(ValueError, match="no timestamps"):
        write_message_set([one], magic=0, timestamp_type=TimestampType.LOG_APPEND_TIME)
    with pytest.raises(UnsupportedCodecError, match="zstd"):
        write_message_set([one], magic=1, codec=Codec.ZSTD)


def _refused(message_set: bytes, max_bytes: int = BOUND) -> RecordsError:
    with pytest.raises(RecordsError) as caught:
        check_message_set(message_set, max_bytes)
    return caught.value


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_what_a_valid_set_is(magic: int, codec: Codec) -> None:
    """S23: a truncated end is ignored, and the codec is the first wrapper's."""
    message_set = write_message_set([NewMessage(n) for n in range(3)], magic=magic, codec=codec)
    assert check_message_set(message_set + message_set[:20], BOUND) is codec
    plain = write_message_set([NewMessage(0)], magic=magic)
    assert check_message_set(plain + message_set, BOUND) is codec


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_not_the_producers(codec: Codec) -> None:
    message_set = write_message_set(
        [NewMessage(0)],
        magic=1,
        codec=codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        append_time=5,
    )
    assert isinstance(_refused(message_set), InvalidTimestampError)


def test_decompression_has_a_bound() -> None:
    message_set = write_message_set([NewMessage(0)], magic=1, codec=Codec.GZIP)
    assert isinstance(_refused(message_set, 0), DecompressedTooLargeError)
