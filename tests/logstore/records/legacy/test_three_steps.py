"""Validate, correct and rebuild are three steps (S23), each by itself and one behind the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.records.errors import (
    BatchTooLargeError,
    DecompressedTooLargeError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaErrorName,
    RecordsError,
    UnsupportedCodecError,
)
from logstore.records.layout import Codec, TimestampType
from logstore.records.legacy.correction import assign_offsets, assign_timestamps
from logstore.records.legacy.errors import CorruptMessageError, EmptyMessageSetError
from logstore.records.legacy.reading import read_entries, read_messages
from logstore.records.legacy.rebuilding import needs_rebuild, rebuild
from logstore.records.legacy.validation import (
    MessageSetRules,
    MessageSetSummary,
    validate_message_set,
)
from logstore.records.legacy.writing import NewMessage, write_message_set
from tests.logstore.records.legacy import naive
from tests.logstore.records.legacy.naive import Rec

BOUND = 1 << 20
RULES = MessageSetRules(max_decompressed_bytes=BOUND)
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


def _set(count: int, magic: int, codec: Codec, first_offset: int = 0) -> bytes:
    messages = [NewMessage(first_offset + n, 10 + n, b"k%d" % n, b"v") for n in range(count)]
    return write_message_set(messages, magic=magic, codec=codec)


def _rows(message_set: bytes) -> list[tuple[int, int, TimestampType, bytes | None]]:
    found = read_messages(message_set, max_bytes=BOUND)
    return [(m.offset, m.timestamp, m.timestamp_type, m.key) for m in found]


def _refused(message_set: bytes, rules: MessageSetRules = RULES) -> RecordsError:
    with pytest.raises(RecordsError) as caught:
        validate_message_set(message_set, rules)
    return caught.value


# Validate


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_what_a_valid_set_is(magic: int, codec: Codec) -> None:
    """Size without the cut-off end, magic, codec, records and largest timestamps."""
    message_set = _set(3, magic, codec)
    summary = validate_message_set(message_set + message_set[:20], RULES)
    assert (summary.size, summary.magic, summary.codec) == (len(message_set), magic, codec)
    assert summary.record_count == 3
    assert max(e.max_timestamp for e in summary.entries) == (12 if magic else -1)
    assert all(e.takes_offset for e in summary.entries) == (magic == 1 or codec is Codec.NONE)


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
    """max.message.bytes counts an entry with its offset and size; decompression has its own bound."""
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
    """CORRUPT_MESSAGE for a wrong CRC-32 of an entry, and of a message behind a wrapper's right one."""
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


# Correct


@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_of_plain_messages_in_place(magic: int) -> None:
    """S23: only the eight bytes of each offset change, whatever stood there."""
    message_set = naive.plain(magic, [Rec(0, 1, b"a", b"v"), Rec(0, 2, b"b", b"v")])
    corrected = bytearray(message_set)
    assert assign_offsets(corrected, validate_message_set(message_set, RULES), 500) == 502
    assert corrected == naive.plain(magic, [Rec(500, 1, b"a", b"v"), Rec(501, 2, b"b", b"v")])


@pytest.mark.parametrize("codec", CODECS[1:])
def test_offsets_of_wrappers_in_place(codec: Codec) -> None:
    """S22, S23: in magic 1 the wrapper's own offset is all there is to change."""
    message_set = _set(3, 1, codec) + _set(1, 1, Codec.NONE) + _set(2, 1, codec)
    corrected = bytearray(message_set)
    assert assign_offsets(corrected, validate_message_set(message_set, RULES), 500) == 506
    assert [row[0] for row in _rows(bytes(corrected))] == list(range(500, 506))
    assert len(corrected) == len(message_set)
    assert sum(a != b for a, b in zip(corrected, message_set, strict=True)) <= 3 * 8


@pytest.mark.parametrize(
    "message_set",
    [
        _set(2, 0, Codec.GZIP),
        naive.wrapper(1, 1, naive.plain(1, [Rec(0, 1, None, b"a"), Rec(0, 1, None, b"b")])),
        naive.wrapper(1, 3, naive.plain(1, [Rec(0, 1, None, b"a"), Rec(2, 1, None, b"b")])),
    ],
    ids=["absolute offsets", "all 0", "a gap"],
)
def test_offsets_that_need_a_rebuild(message_set: bytes) -> None:
    """S23: then nothing is changed in place, and the rebuilt set has the offsets."""
    summary = validate_message_set(message_set, RULES)
    untouched = bytearray(message_set)
    with pytest.raises(ValueError, match="rebuild"):
        assign_offsets(untouched, summary, 9)
    assert untouched == message_set
    assert needs_rebuild(summary, magic=summary.magic, codec=Codec.GZIP)
    rebuilt = rebuild(
        message_set, first_offset=9, magic=summary.magic, codec=Codec.GZIP, max_bytes=BOUND
    )
    assert [row[0] for row in _rows(rebuilt)] == [9, 10]


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_in_place(codec: Codec) -> None:
    """S22, S23: attributes, timestamp and CRC-32 of the entries; inner messages stay as they are."""
    message_set = _set(3, 1, codec)
    corrected = bytearray(message_set)
    summary = validate_message_set(message_set, RULES)
    assign_timestamps(corrected, summary, APPEND, 9000)
    assert [row[1:3] for row in _rows(bytes(corrected))] == [(9000, APPEND)] * 3
    assert len(corrected) == len(message_set)
    assign_timestamps(corrected, summary, CREATE, 0)
    if codec is Codec.NONE:
        # What was overwritten is gone from the bytes, but not from the summary.
        assert [row[1] for row in _rows(bytes(corrected))] == [10, 11, 12]
    assert corrected == message_set


def test_a_wrappers_timestamp_becomes_the_largest() -> None:
    """Old clients wrote other times there; CreateTime means the largest of the records."""
    inner = naive.plain(1, [Rec(0, 7, None, b"a"), Rec(1, 3, None, b"b")])
    corrected = bytearray(naive.wrapper(1, 1, inner, timestamp=1))
    assign_timestamps(corrected, validate_message_set(corrected, RULES), CREATE, 0)
    (wrapper,) = read_entries(corrected)
    assert wrapper.timestamp == 7


def test_entries_that_are_right_are_not_touched() -> None:
    """A CRC-32 that went wrong after validation is not made right by the way."""
    message_set = _set(1, 1, Codec.NONE)
    summary = validate_message_set(message_set, RULES)
    damaged = bytearray(message_set)
    damaged[-1] ^= 1
    assign_timestamps(damaged, summary, CREATE, 0)
    with pytest.raises(CorruptMessageError):
        _rows(bytes(damaged))


def test_magic_0_has_no_timestamps_to_correct() -> None:
    message_set = _set(2, 0, Codec.NONE)
    corrected = bytearray(message_set)
    assign_timestamps(corrected, validate_message_set(message_set, RULES), APPEND, 9000)
    assert corrected == message_set


# Rebuild


@pytest.mark.parametrize("codec", CODECS)
def test_nothing_is_rebuilt_without_need(codec: Codec) -> None:
    """S23: magic 1 with the topic's codec is corrected; another codec or magic is rebuilt."""
    summary = validate_message_set(_set(3, 1, codec), RULES)
    for magic in (0, 1):
        for wanted in CODECS:
            expected = (magic, wanted) != (1, codec)
            assert needs_rebuild(summary, magic=magic, codec=wanted) == expected


@given(
    st.sampled_from((0, 1)),
    st.sampled_from(CODECS),
    st.sampled_from((0, 1)),
    st.sampled_from(CODECS),
    st.integers(1, 5),
    st.integers(0, 2**50),
)
def test_rebuild(
    magic: int, codec: Codec, new_magic: int, new_codec: Codec, count: int, first_offset: int
) -> None:
    """S23: any magic and codec to any other; times are lost in magic 0 and not made up in 1."""
    rebuilt = rebuild(
        _set(count, magic, codec),
        first_offset=first_offset,
        magic=new_magic,
        codec=new_codec,
        max_bytes=BOUND,
    )
    kept = magic == new_magic == 1
    assert _rows(rebuilt) == [
        (first_offset + n, 10 + n if kept else -1, CREATE, b"k%d" % n) for n in range(count)
    ]
    summary = validate_message_set(rebuilt, RULES)
    assert (summary.magic, summary.codec) == (new_magic, new_codec)


def test_rebuild_with_log_append_time() -> None:
    rebuilt = rebuild(
        _set(2, 0, Codec.GZIP),
        first_offset=0,
        magic=1,
        codec=Codec.LZ4,
        timestamp_type=APPEND,
        append_time=77,
        max_bytes=BOUND,
    )
    assert _rows(rebuilt) == [(0, 77, APPEND, b"k0"), (1, 77, APPEND, b"k1")]


# One behind the other


@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from(CODECS)), min_size=1, max_size=4),
    st.sampled_from((0, 1)),
    st.sampled_from(CODECS),
    st.integers(0, 2**50),
)
def test_both_ways_give_the_same_records(
    parts: list[tuple[int, Codec]], magic: int, codec: Codec, first_offset: int
) -> None:
    """S23: where correction is enough it gives what a rebuild would give."""
    message_set = b"".join(_set(count, magic, used) for count, used in parts)
    summary: MessageSetSummary = validate_message_set(message_set, RULES)
    rebuilt = rebuild(
        message_set, first_offset=first_offset, magic=magic, codec=codec, max_bytes=BOUND
    )
    if needs_rebuild(summary, magic=magic, codec=codec):
        assert any(used != codec for _, used in parts) or (magic == 0 and codec is not Codec.NONE)
        return
    corrected = bytearray(message_set)
    assert assign_offsets(corrected, summary, first_offset) == first_offset + summary.record_count
    assert _rows(bytes(corrected)) == _rows(rebuilt)
