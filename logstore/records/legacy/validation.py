"""The first of the three steps (S23): is a produced message set fit for the log, and what is it?

Nothing is changed here. With the errors that Kafka 3.9 gives for Produce v0 to v2:

| what is wrong | error |
|---|---|
| a size below the smallest message's, a wrong CRC-32, of a wrapper or inside | CORRUPT_MESSAGE |
| an entry larger than max.message.bytes; wrappers that decompress beyond the bound | MESSAGE_TOO_LARGE |
| a codec that message sets do not have | UNSUPPORTED_COMPRESSION_TYPE |
| no whole message; another magic, or two in one set; key and value that do not fill the message; a
  wrapper in a wrapper, without a value or unreadable; a null key on a compacted topic | INVALID_RECORD |
| LogAppendTime set by the producer | INVALID_TIMESTAMP |

Otherwise than in Kafka 3.9: a set may hold several wrappers and messages beside them, as brokers up
to 0.10 took them (there INVALID_RECORD); no whole message is an error (there NONE and offset -1, with
nothing kept); zstd is INVALID_RECORD there, and what is unreadable UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstore.records.errors import BatchTooLargeError, InvalidRecordError, InvalidTimestampError
from logstore.records.layout import Codec, TimestampType
from logstore.records.legacy.errors import EmptyMessageSetError
from logstore.records.legacy.layout import MAGIC_1
from logstore.records.legacy.reading import Entry, inner_entries, read_entries, unwrap

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSetRules:
    """What a topic demands of a message set; sizes in bytes.

    `max_message_bytes` is for each entry (offset and size with it), None for no bound;
    `max_decompressed_bytes` for all wrappers together. `max_magic` 0 refuses magic 1; Kafka takes
    both in every Produce version up to 2.
    """

    max_decompressed_bytes: int
    max_message_bytes: int | None = None
    require_keys: bool = False
    max_magic: int = MAGIC_1


@dataclass(frozen=True, slots=True)
class EntrySummary:
    """A valid entry: a plain message, or a wrapper of `record_count` messages.

    `takes_offset`: to give its records their offsets is to give the entry its own. So it is with a
    plain message, and with a wrapper of magic 1 whose inner offsets count from 0 without a gap.
    `max_timestamp` is the largest of its records, in ms.
    """

    position: int
    codec: Codec
    record_count: int
    max_timestamp: int
    takes_offset: bool


@dataclass(frozen=True, slots=True)
class MessageSetSummary:
    """A valid message set: `size` bytes of whole entries (a cut-off last one left out) of one magic."""

    size: int
    magic: int
    entries: tuple[EntrySummary, ...]

    @property
    def codec(self) -> Codec:
        """The first wrapper's codec, NONE without one."""
        return next((entry.codec for entry in self.entries if entry.codec), Codec.NONE)

    @property
    def record_count(self) -> int:
        """The records, those in wrappers among them."""
        return sum(entry.record_count for entry in self.entries)


def validate_message_set(message_set: Buffer, rules: MessageSetRules) -> MessageSetSummary:
    """Check what a producer sent for one partition; what it is.

    Raises a RecordsError whose `kafka_error` is what the producer is to be told.
    """
    size, magic, index = 0, -1, 0
    left = rules.max_decompressed_bytes
    summaries: list[EntrySummary] = []
    for entry in read_entries(message_set):
        _check_entry(entry, rules, magic)
        inner = None
        if entry.is_wrapper:
            inner = unwrap(entry, left, rules.max_decompressed_bytes)
            left -= len(inner)
        summary = _summary(entry, inner, index if rules.require_keys else None)
        summaries.append(summary)
        index += summary.record_count
        size, magic = entry.end, entry.magic
    if not summaries:
        raise EmptyMessageSetError
    return MessageSetSummary(size, magic, tuple(summaries))


def _check_entry(entry: Entry, rules: MessageSetRules, magic: int) -> None:
    limit = rules.max_message_bytes
    if limit is not None and entry.size > limit:
        raise BatchTooLargeError("the message", entry.size, limit)
    if entry.magic > rules.max_magic:
        raise InvalidRecordError(f"magic {entry.magic} is above {rules.max_magic}")
    if magic not in (-1, entry.magic):
        raise InvalidRecordError(f"a message of magic {entry.magic} follows one of magic {magic}")
    if entry.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise InvalidTimestampError("a producer may not set the timestamp type LogAppendTime")


def _summary(entry: Entry, inner: bytes | None, keyed_from: int | None) -> EntrySummary:
    """What is in the entry, checked; with `keyed_from`, the first record's index, keys must be there."""
    if inner is None:
        _check_record(entry, keyed_from)
        return EntrySummary(entry.position, Codec.NONE, 1, entry.timestamp, True)
    count, max_timestamp, counts = 0, -1, True
    for message in inner_entries(entry, inner):
        _check_record(message, None if keyed_from is None else keyed_from + count)
        counts = counts and message.offset == count
        max_timestamp = max(max_timestamp, message.timestamp)
        count += 1
    takes_offset = counts and entry.magic == MAGIC_1
    return EntrySummary(entry.position, entry.codec, count, max_timestamp, takes_offset)


def _check_record(message: Entry, keyed_index: int | None) -> None:
    key, _ = message.key_and_value()
    if key is None and keyed_index is not None:
        raise InvalidRecordError("a compacted topic needs a key in every record", keyed_index)
