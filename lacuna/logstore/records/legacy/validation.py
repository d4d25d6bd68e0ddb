"""Checks whether a produced message set may enter the log (S23), without changing it.

The errors for Produce v0 to v2 are those of Kafka 3.9, apart from the differences below:

| what is wrong | error |
|---|---|
| a size below the smallest message's; a wrong CRC-32, including one inside a wrapper | CORRUPT_MESSAGE |
| wrappers that decompress beyond the limit | MESSAGE_TOO_LARGE |
| a codec that message sets cannot have | UNSUPPORTED_COMPRESSION_TYPE |
| no complete message; any other magic, or two magics in one set; a key and value that do not fill the message; a
  wrapper that is in another wrapper, has no value or is unreadable | INVALID_RECORD |
| LogAppendTime set by the producer | INVALID_TIMESTAMP |

The topic's own requirements (max.message.bytes, keys, timestamps) are checked once the set has become a batch.

Kafka 3.9 differs as follows. It returns INVALID_RECORD for a set with several wrappers, or with messages next to a
wrapper; Lacuna accepts these, as brokers up to 0.10 did. For a set without a complete message, it returns NONE and
offset -1, and stores nothing. It returns INVALID_RECORD for zstd, and UNKNOWN_SERVER_ERROR for an unreadable wrapper.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lacuna.logstore.records.errors import (
    EmptyMessageSetError,
    InvalidRecordError,
    InvalidTimestampError,
)
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy.reading import Entry, inner_entries, read_entries, unwrap

if TYPE_CHECKING:
    from typing_extensions import Buffer


def check_message_set(message_set: Buffer, max_bytes: int) -> Codec:
    """Check a producer's message set for one partition. Return the first wrapper's codec, or NONE if there is no
    wrapper.

    The wrappers may decompress to at most `max_bytes` in total. Raises a RecordsError whose `kafka_error` is the error
    to send to the producer.
    """
    magic, codec, left = -1, Codec.NONE, max_bytes
    for entry in read_entries(message_set):
        _check_entry(entry, magic)
        messages: Iterable[Entry] = (entry,)
        if entry.is_wrapper:
            inner = unwrap(entry, left, max_bytes)
            left -= len(inner)
            codec = codec or entry.codec
            messages = inner_entries(entry, inner)
        for message in messages:
            message.key_and_value()
        magic = entry.magic
    if magic < 0:
        raise EmptyMessageSetError
    return codec


def _check_entry(entry: Entry, magic: int) -> None:
    if magic not in (-1, entry.magic):
        raise InvalidRecordError(f"a message of magic {entry.magic} follows one of magic {magic}")
    if entry.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise InvalidTimestampError("a producer may not set the timestamp type LogAppendTime")
