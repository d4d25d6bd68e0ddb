"""Tests that message sets are written as S22 specifies, and which produced ones are rejected (S23)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.logstore.records.errors import (
    BatchTooLargeError,
    CorruptMessageError,
    DecompressedTooLargeError,
    EmptyMessageSetError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaErrorName,
    RecordsError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy.reading import read_entries, read_messages, unwrap
from lacuna.logstore.records.legacy.validation import MessageSetRules, validate_message_set
from lacuna.logstore.records.legacy.writing import NewMessage, write_message_set
from tests.logstore.records.legacy import naive
from tests.logstore.records.legacy.naive import Rec

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
    """S22: the naive model reads what is written."""
    got = naive.read(write_message_set(messages, magic=magic, codec=codec))
    assert [(r.offset, r.key, r.value) for r in got] == [
        (m.offset, m.key, m.value) for m in messages
    ]
    if codec is Codec.NONE:
        recs = [naive.Rec(m.offset, m.timestamp, m.key, m.value) for m in messages]
        assert write_message_set(messages, magic=magic) == naive.plain(magic, recs)


@given(MESSAGES, st.sampled_from((0, 1)), st.sampled_from(CODECS[1:]))
def test_the_wrapper(messages: list[NewMessage], magic: int, codec: Codec) -> None:
    """S22: the last message's offset, the largest timestamp; relative offsets inside magic 1 only."""
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


RULES = MessageSetRules(max_decompressed_bytes=BOUND)
CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


def _set(count: int, magic: int, codec: Codec, first_offset: int = 0) -> bytes:
    messages = [NewMessage(first_offset + n, 10 + n, b"k%d" % n, b"v") for n in range(count)]
    return write_message_set(messages, magic=magic, codec=codec)


def _refused(message_set: bytes, rules: MessageSetRules = RULES) -> RecordsError:
    with pytest.raises(RecordsError) as caught:
        validate_message_set(message_set, rules)
    return caught.value


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_what_a_valid_set_is(magic: int, codec: Codec) -> None:
    """S23: size without the truncated end, magic, codec and records."""
    message_set = _set(3, magic, codec)
    summary = validate_message_set(message_set + message_set[:20], RULES)
    assert (summary.size, summary.magic, summary.codec) == (len(message_set), magic, codec)
    assert summary.record_count == 3


def test_keys_on_compacted_topics() -> None:
    """S11, S23: INVALID_RECORD names the first record without a key, in wrappers and outside."""
    keyed = MessageSetRules(max_decompressed_bytes=BOUND, require_keys=True)
    inner = naive.plain(1, [Rec(0, 1, b"k", b"v"), Rec(1, 1, None, b"v")])
    message_set = naive.plain(1, [Rec(0, 1, b"k", b"v")]) + naive.wrapper(1, 1, inner)
    assert validate_message_set(message_set, RULES).record_count == 3
    error = _refused(message_set, keyed)
    assert isinstance(error, InvalidRecordError)
    assert (error.record_index, error.kafka_error) == (2, KafkaErrorName.INVALID_RECORD)
    assert _refused(naive.plain(0, [Rec(0, 1, None, b"v")]), keyed).kafka_error == "INVALID_RECORD"
    assert validate_message_set(naive.plain(0, [Rec(0, 1, b"", b"v")]), keyed).record_count == 1


def test_sizes() -> None:
    """max.message.bytes counts an entry with its offset and size. Decompression has its own bound."""
    message_set = _set(2, 1, Codec.NONE)
    largest = max(e.size for e in read_entries(message_set))
    fits = MessageSetRules(max_decompressed_bytes=0, max_message_bytes=largest)
    assert validate_message_set(message_set, fits).record_count == 2
    tight = MessageSetRules(max_decompressed_bytes=0, max_message_bytes=largest - 1)
    error = _refused(message_set, tight)
    assert isinstance(error, BatchTooLargeError)
    assert (error.size, error.kafka_error) == (largest, KafkaErrorName.MESSAGE_TOO_LARGE)
    no_room = MessageSetRules(max_decompressed_bytes=0)
    assert isinstance(_refused(_set(2, 1, Codec.GZIP), no_room), DecompressedTooLargeError)


def test_checksums() -> None:
    """A wrong CRC-32 gives CORRUPT_MESSAGE, for an entry and for a message in a valid wrapper."""
    inner = bytearray(_set(2, 1, Codec.NONE))
    inner[-1] ^= 1
    for message_set in (bytes(inner), naive.wrapper(1, 1, bytes(inner))):
        error = _refused(message_set)
        assert isinstance(error, CorruptMessageError)
        assert error.kafka_error == KafkaErrorName.CORRUPT_MESSAGE


def test_codecs_and_magics() -> None:
    zstd = naive.entry(0, naive.message(1, 4, 0, None, b"v"))
    assert isinstance(_refused(zstd), UnsupportedCodecError)
    mixed = _set(1, 0, Codec.NONE) + _set(1, 1, Codec.NONE)
    assert "magic 1 follows one of magic 0" in str(_refused(mixed))
    only_0 = MessageSetRules(max_decompressed_bytes=BOUND, max_magic=0)
    assert validate_message_set(_set(1, 0, Codec.GZIP), only_0).magic == 0
    assert "magic 1 is above 0" in str(_refused(_set(1, 1, Codec.NONE), only_0))


@pytest.mark.parametrize("message_set", [b"", _set(1, 1, Codec.GZIP)[:-1]])
def test_no_whole_message(message_set: bytes) -> None:
    error = _refused(message_set)
    assert isinstance(error, EmptyMessageSetError)
    assert error.kafka_error == KafkaErrorName.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_not_the_producers(codec: Codec) -> None:
    message_set = write_message_set(
        [NewMessage(0)], magic=1, codec=codec, timestamp_type=APPEND, append_time=5
    )
    assert isinstance(_refused(message_set), InvalidTimestampError)
