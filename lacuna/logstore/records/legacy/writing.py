"""Writes message sets, either plain or as one wrapper around a compressed inner set (002_, S22)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from lacuna.logstore.records.layout import LOG_APPEND_TIME_BIT, NO_TIMESTAMP, Codec, TimestampType
from lacuna.logstore.records.legacy.codecs import compress_set, legacy_codec
from lacuna.logstore.records.legacy.layout import CRC, CRC_END, ENTRY, HEAD, MAGIC_0, MAGIC_1, SIZE

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NULL = SIZE.pack(-1)


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to write at an absolute `offset`. `timestamp` is in ms, and is dropped in magic 0."""

    offset: int
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None


def write_message_set(
    messages: Sequence[NewMessage],
    *,
    magic: int,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time: int = NO_TIMESTAMP,
) -> bytes:
    """Write `messages` as a set of `magic`: one entry for each or, with a codec, one wrapper around all.

    The wrapper has the last message's offset and the largest timestamp. Inner offsets are absolute in magic 0, and
    relative to the first message's in magic 1. With LogAppendTime, the wrapper and all messages have the timestamp
    `append_time`. Without messages, the set is empty. Raises UnsupportedCodecError for zstd, and ValueError for any
    other magic, for offsets that do not increase, and for LogAppendTime in magic 0.
    """
    _check(messages, magic, timestamp_type)
    legacy_codec(codec)
    attributes = 0
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes = LOG_APPEND_TIME_BIT
        messages = [NewMessage(m.offset, append_time, m.key, m.value) for m in messages]
    if codec is Codec.NONE or not messages:
        return _plain_set(messages, magic, attributes, 0)
    base = messages[0].offset if magic == MAGIC_1 else 0
    inner = _plain_set(messages, magic, attributes, base)
    return write_entry(
        messages[-1].offset,
        magic,
        attributes | codec,
        max(message.timestamp for message in messages),
        None,
        compress_set(codec, inner, magic),
    )


def write_entry(
    offset: int,
    magic: int,
    attributes: int,
    timestamp: int,
    key: Buffer | None,
    value: Buffer | None,
) -> bytes:
    times = (timestamp,) if magic == MAGIC_1 else ()
    covered = b"".join(
        (HEAD[magic].pack(magic, attributes, *times), *_sized(key), *_sized(value)),
    )
    return b"".join((ENTRY.pack(offset, CRC_END + len(covered)), CRC.pack(crc32(covered)), covered))


def _plain_set(messages: Iterable[NewMessage], magic: int, attributes: int, base: int) -> bytes:
    return b"".join(
        write_entry(m.offset - base, magic, attributes, m.timestamp, m.key, m.value)
        for m in messages
    )


def _sized(data: Buffer | None) -> tuple[Buffer, ...]:
    return (_NULL,) if data is None else (SIZE.pack(memoryview(data).nbytes), data)


def _check(messages: Sequence[NewMessage], magic: int, timestamp_type: TimestampType) -> None:
    if magic not in (MAGIC_0, MAGIC_1):
        raise ValueError(f"a message set has magic 0 or 1, not {magic}")
    if magic == MAGIC_0 and timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise ValueError("messages of magic 0 have no timestamps, and so no append time")
    last = -1
    for message in messages:
        if message.offset <= last:
            raise ValueError(f"offset {message.offset} follows {last}; they must increase")
        last = message.offset
