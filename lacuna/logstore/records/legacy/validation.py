"""Checks whether a produced message set may enter the log (S23), without changing it.

The errors are those of Kafka 3.9 for Produce v0 to v2:

| what is wrong | error |
|---|---|
| a size below the smallest message's, a wrong CRC-32, of a wrapper or inside | CORRUPT_MESSAGE |
| an entry larger than max.message.bytes; wrappers that decompress beyond the bound | MESSAGE_TOO_LARGE |
| a codec that message sets do not have | UNSUPPORTED_COMPRESSION_TYPE |
| no whole message; another magic, or two in one set; key and value that do not fill the message; a
  wrapper in a wrapper, without a value or unreadable; a null key on a compacted topic | INVALID_RECORD |
| LogAppendTime set by the producer | INVALID_TIMESTAMP |

Kafka 3.9 differs as follows. It returns INVALID_RECORD for a set with several wrappers, or with messages beside a
wrapper; Lacuna accepts these, as brokers up to 0.10 did. For a set without a whole message, it returns NONE and offset
-1, and stores nothing. It returns INVALID_RECORD for zstd, and UNKNOWN_SERVER_ERROR for an unreadable wrapper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lacuna.logstore.records.errors import (
    BatchTooLargeError,
    EmptyMessageSetError,
    InvalidRecordError,
    InvalidTimestampError,
)
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy.layout import MAGIC_1
from lacuna.logstore.records.legacy.reading import Entry, inner_entries, read_entries, unwrap

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSetRules:
    """A topic's requirements for a message set; sizes in bytes.

    `max_message_bytes` limits each entry, including its offset and size; None means no limit. `max_decompressed_bytes`
    limits all wrappers together. A `max_magic` of 0 rejects magic 1; Kafka allows both in every Produce version up to
    2.
    """

    max_decompressed_bytes: int
    max_message_bytes: int | None = None
    require_keys: bool = False
    max_magic: int = MAGIC_1


@dataclass(frozen=True, slots=True)
class MessageSetSummary:
    """A valid message set: `size` bytes of whole entries of one magic, without a cut-off last one.

    `codec` is the first wrapper's, NONE without one; `record_count` includes the records in wrappers.
    """

    size: int
    magic: int
    codec: Codec
    record_count: int


def validate_message_set(message_set: Buffer, rules: MessageSetRules) -> MessageSetSummary:
    """Check a producer's message set for one partition, and return its summary.

    Raises a RecordsError whose `kafka_error` is the error to send to the producer.
    """
    size, magic, count, codec = 0, -1, 0, Codec.NONE
    left = rules.max_decompressed_bytes
    for entry in read_entries(message_set):
        _check_entry(entry, rules, magic)
        inner = None
        if entry.is_wrapper:
            inner = unwrap(entry, left, rules.max_decompressed_bytes)
            left -= len(inner)
            codec = codec or entry.codec
        count += _count_records(entry, inner, count if rules.require_keys else None)
        size, magic = entry.end, entry.magic
    if not size:
        raise EmptyMessageSetError
    return MessageSetSummary(size, magic, codec, count)


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


def _count_records(entry: Entry, inner: bytes | None, keyed_from: int | None) -> int:
    """Check and count the records of an entry. If `keyed_from`, the first one's index, is given, each needs a key."""
    messages = (entry,) if inner is None else inner_entries(entry, inner)
    count = 0
    for message in messages:
        _check_record(message, None if keyed_from is None else keyed_from + count)
        count += 1
    return count


def _check_record(message: Entry, keyed_index: int | None) -> None:
    key, _ = message.key_and_value()
    if key is None and keyed_index is not None:
        raise InvalidRecordError("a compacted topic needs a key in every record", keyed_index)
