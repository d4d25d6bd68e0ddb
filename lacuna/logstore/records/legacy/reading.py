"""Reads message sets, either entry by entry or with the records inside wrappers (002_, S22)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from lacuna.logstore.records.errors import (
    CorruptMessageError,
    DecompressedTooLargeError,
    InvalidRecordError,
)
from lacuna.logstore.records.layout import (
    CODEC_MASK,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    Codec,
    TimestampType,
)
from lacuna.logstore.records.legacy.codecs import decompress_set, legacy_codec
from lacuna.logstore.records.legacy.layout import (
    ATTRIBUTES_AT,
    CRC,
    CRC_END,
    ENTRY,
    ENTRY_SIZE,
    KEY_AT,
    MAGIC_1,
    MAGIC_AT,
    MIN_MESSAGE_BYTES,
    OFFSET,
    SIZE,
    TIMESTAMP_AT,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Message(NamedTuple):
    """A record of a message set, whether or not it was in a wrapper. `offset` is absolute; `timestamp` is in ms.

    With LogAppendTime, the timestamp is the append time, which a wrapper sets for all of its records. In magic 0, which
    has no timestamps, it is NO_TIMESTAMP and has the type CreateTime. This is a named tuple, which is cheap to create,
    because every record needs one.
    """

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    magic: int


class Entry(NamedTuple):
    """An entry of a message set: a record, or a wrapper of records.

    The entry begins at `position` in its set; `data` is a view of its message, starting with the CRC-32. A wrapper's
    `offset` is that of its last inner message.
    """

    position: int
    offset: int
    data: memoryview
    magic: int
    attributes: int
    timestamp: int

    @property
    def size(self) -> int:
        """The entry's size in bytes, including its offset and size fields."""
        return ENTRY_SIZE + len(self.data)

    @property
    def is_wrapper(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def codec(self) -> Codec:
        """The entry's codec. Raises UnsupportedCodecError if message sets cannot have it."""
        return legacy_codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """The source of `timestamp`. It is CreateTime in magic 0, which has no timestamps."""
        if self.magic < MAGIC_1 or not self.attributes & LOG_APPEND_TIME_BIT:
            return TimestampType.CREATE_TIME
        return TimestampType.LOG_APPEND_TIME

    def verify(self) -> None:
        """Raise CorruptMessageError if the stored CRC-32 does not match the bytes."""
        stored, computed = CRC.unpack_from(self.data)[0], crc32(self.data[CRC_END:])
        if stored != computed:
            raise CorruptMessageError(
                f"its CRC-32 is {stored:08x}, not {computed:08x}", self.position
            )

    def key_and_value(self) -> tuple[memoryview | None, memoryview | None]:
        """Return views of the key and the value, or None for null. Raises InvalidRecordError if they do not fill the
        message.
        """
        key, at = self._sized(KEY_AT[self.magic])
        value, at = self._sized(at)
        if at != len(self.data):
            raise InvalidRecordError(
                f"{len(self.data) - at} bytes follow the value of the message at byte "
                f"{self.position}"
            )
        return key, value

    def _sized(self, at: int) -> tuple[memoryview | None, int]:
        start, left = at + SIZE.size, len(self.data) - at - SIZE.size
        if left >= 0:
            (length,) = SIZE.unpack_from(self.data, at)
            if length == -1:
                return None, start
            if 0 <= length <= left:
                return self.data[start : start + length], start + length
        raise InvalidRecordError(
            f"a key or value does not fit the message at byte {self.position} of its set"
        )


def read_entries(message_set: Buffer, *, verify: bool = True) -> Iterator[Entry]:
    """Yield the entries of `message_set` in order, without unwrapping any, and without a truncated last entry.

    Raises CorruptMessageError for a size that is too small or, with `verify`, a wrong CRC-32, and InvalidRecordError
    for a magic other than 0 or 1.
    """
    data = memoryview(message_set)
    for position, offset, end in _framed(data):
        message = data[position + ENTRY_SIZE : end]
        magic = message[MAGIC_AT]
        if magic > MAGIC_1:
            _refuse_magic(message, position)
        if len(message) < MIN_MESSAGE_BYTES[magic]:
            raise CorruptMessageError(f"{len(message)} bytes are too few", position)
        timestamp = OFFSET.unpack_from(message, TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
        entry = Entry(position, offset, message, magic, message[ATTRIBUTES_AT], timestamp)
        if verify:
            entry.verify()
        yield entry


def read_messages(message_set: Buffer, *, max_bytes: int, verify: bool = True) -> Iterator[Message]:
    """Yield the records of `message_set` in order, including those in wrappers, with absolute offsets.

    The wrappers may decompress to at most `max_bytes` in total, and only one is in memory at a time. Raises the same
    errors as `read_entries`; DecompressedTooLargeError beyond `max_bytes`; CorruptRecordsError if a codec cannot read a
    wrapper; InvalidRecordError for a wrapper that has no value or no complete message, is inside another wrapper, or
    has messages of a different magic; UnsupportedCodecError.
    """
    left = max_bytes
    for entry in read_entries(message_set, verify=verify):
        if not entry.is_wrapper:
            yield _message(entry, entry.offset, None)
            continue
        inner = unwrap(entry, left, max_bytes)
        left -= len(inner)
        yield from _inner_messages(entry, inner, verify)


def unwrap(wrapper: Entry, left: int, max_bytes: int) -> bytes:
    """Return the inner message set of `wrapper`, with its offsets unchanged.

    It may be at most `left` bytes long, which is what remains of `max_bytes`, the limit in the error message. Raises
    the same errors as `read_messages`.
    """
    _, value = wrapper.key_and_value()
    if value is None:
        raise InvalidRecordError(f"the wrapper at byte {wrapper.position} of its set has no value")
    try:
        return decompress_set(wrapper.codec, value, wrapper.magic, left)
    except DecompressedTooLargeError:
        raise DecompressedTooLargeError(max_bytes) from None


def inner_entries(wrapper: Entry, inner: bytes, *, verify: bool = True) -> Iterator[Entry]:
    """Yield the entries of `inner`. Raises the same errors as `read_messages` for entries that are wrappers or have a
    different magic.
    """
    entry = None
    for entry in read_entries(inner, verify=verify):
        if entry.magic != wrapper.magic:
            raise InvalidRecordError(
                f"a message of magic {entry.magic} is inside a wrapper of magic {wrapper.magic}"
            )
        if entry.is_wrapper:
            raise InvalidRecordError(
                "a wrapper is inside another wrapper; compress messages only once"
            )
        yield entry
    if entry is None:
        raise InvalidRecordError(
            f"the wrapper at byte {wrapper.position} of its set holds no complete message"
        )


def absolute_base(wrapper_offset: int, last_inner_offset: int) -> int:
    """Return the number to add to the inner offsets of a wrapper of magic 1 (002_).

    Normally, the last inner message has the wrapper's offset. But a wrapper with offset 0 comes from a producer that
    does not know the offsets yet (librdkafka, kafka-python). As in Kafka, its inner offsets are used unchanged, since
    they would otherwise become negative.
    """
    if wrapper_offset == 0:
        return 0
    return wrapper_offset - last_inner_offset


def _inner_messages(wrapper: Entry, inner: bytes, verify: bool) -> Iterator[Message]:
    base = absolute_base(wrapper.offset, _last_offset(inner)) if wrapper.magic else 0
    append_time = None
    if wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME:
        append_time = wrapper.timestamp
    for entry in inner_entries(wrapper, inner, verify=verify):
        yield _message(entry, base + entry.offset, append_time)


def _message(entry: Entry, offset: int, append_time: int | None) -> Message:
    key, value = entry.key_and_value()
    timestamp, timestamp_type = entry.timestamp, entry.timestamp_type
    if append_time is not None:
        timestamp, timestamp_type = append_time, TimestampType.LOG_APPEND_TIME
    return Message(
        offset,
        timestamp,
        timestamp_type,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        entry.magic,
    )


def _last_offset(message_set: bytes) -> int:
    """Return the offset of the last complete entry, or 0 if there is none, without reading the messages."""
    last = 0
    for _, offset, _ in _framed(memoryview(message_set)):
        last = offset
    return last


def _framed(data: memoryview) -> Iterator[tuple[int, int, int]]:
    position, length = 0, len(data)
    while length - position >= ENTRY_SIZE:
        offset, size = ENTRY.unpack_from(data, position)
        if size < MIN_MESSAGE_BYTES[0]:
            raise CorruptMessageError(f"its size is {size} bytes", position)
        end = position + ENTRY_SIZE + size
        if end > length:
            return
        yield position, offset, end
        position = end


def _refuse_magic(message: memoryview, position: int) -> None:
    if CRC.unpack_from(message)[0] == crc32(message[CRC_END:]):
        raise InvalidRecordError(f"a message set has magic 0 or 1, not {message[MAGIC_AT]}")
    raise CorruptMessageError(f"its magic is {message[MAGIC_AT]}, not 0 or 1", position)
