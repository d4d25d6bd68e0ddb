"""The second of the three steps (S23): a validated set gets its offsets and timestamps, in place.

No entry changes its size and nothing is decompressed. What cannot be corrected so is for
`rebuilding`, which says when that is (002_).
"""

from __future__ import annotations

from zlib import crc32

from logstore.records.layout import LOG_APPEND_TIME_BIT, TimestampType
from logstore.records.legacy.layout import (
    ATTRIBUTES_AT,
    CRC,
    CRC_END,
    ENTRY_SIZE,
    MAGIC_0,
    OFFSET,
    SIZE,
    TIMESTAMP_AT,
)
from logstore.records.legacy.validation import EntrySummary, MessageSetSummary


def assign_offsets(message_set: bytearray, summary: MessageSetSummary, first_offset: int) -> int:
    """Give the records contiguous offsets from `first_offset` on; the offset behind the last.

    Only the entries' own offsets are written, which no CRC-32 covers: a plain message's, or a
    wrapper's last one. ValueError, with nothing changed, where that is not enough.
    """
    if not all(entry.takes_offset for entry in summary.entries):
        raise ValueError("the inner offsets do not count from 0 in magic 1; rebuild the set")
    next_offset = first_offset
    for entry in summary.entries:
        next_offset += entry.record_count
        OFFSET.pack_into(message_set, entry.position, next_offset - 1)
    return next_offset


def assign_timestamps(
    message_set: bytearray,
    summary: MessageSetSummary,
    timestamp_type: TimestampType,
    append_time: int,
) -> None:
    """Make the entries tell the topic's kind of time: `append_time` (ms), or the producer's own.

    A wrapper's time then is `append_time`, which overrides those inside, or its records' largest.
    The CRC-32 is computed anew where an entry changes. Magic 0 has no timestamps: nothing changes.
    """
    if summary.magic == MAGIC_0:
        return
    for entry in summary.entries:
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            _set_time(message_set, entry, LOG_APPEND_TIME_BIT, append_time)
        else:
            _set_time(message_set, entry, 0, entry.max_timestamp)


def _set_time(message_set: bytearray, entry: EntrySummary, type_bit: int, timestamp: int) -> None:
    start = entry.position + ENTRY_SIZE
    (size,) = SIZE.unpack_from(message_set, start - SIZE.size)
    message = memoryview(message_set)[start : start + size]
    attributes = message[ATTRIBUTES_AT] & ~LOG_APPEND_TIME_BIT | type_bit
    if (message[ATTRIBUTES_AT], *OFFSET.unpack_from(message, TIMESTAMP_AT)) == (
        attributes,
        timestamp,
    ):
        return
    message[ATTRIBUTES_AT] = attributes
    OFFSET.pack_into(message, TIMESTAMP_AT, timestamp)
    CRC.pack_into(message, 0, crc32(message[CRC_END:]))
