"""The last of the three steps (S23): a validated set written anew, where nothing less will do (002_)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstore.records.layout import NO_TIMESTAMP, Codec, TimestampType
from logstore.records.legacy.reading import read_messages
from logstore.records.legacy.validation import MessageSetSummary
from logstore.records.legacy.writing import NewMessage, write_message_set

if TYPE_CHECKING:
    from typing_extensions import Buffer


def needs_rebuild(summary: MessageSetSummary, *, magic: int, codec: Codec) -> bool:
    """Whether the set cannot become one of `magic` and `codec` by `correction` alone.

    So it is for another magic, another codec, compressed sets of magic 0 (absolute offsets inside)
    and wrappers whose inner offsets do not count from 0.
    """
    return summary.magic != magic or not all(
        entry.takes_offset and entry.codec == codec for entry in summary.entries
    )


def rebuild(
    message_set: Buffer,
    *,
    first_offset: int,
    magic: int,
    codec: Codec,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time: int = NO_TIMESTAMP,
    max_bytes: int,
) -> bytes:
    """The records of a validated set as a new one, with contiguous offsets from `first_offset` on.

    From magic 0 to 1 they have NO_TIMESTAMP unless `timestamp_type` gives them `append_time`; from
    1 to 0 theirs are lost. `max_bytes` bounds what the wrappers decompress to. Raises as
    `read_messages` and `write_message_set`.
    """
    messages = [
        NewMessage(first_offset + index, message.timestamp, message.key, message.value)
        for index, message in enumerate(
            read_messages(message_set, max_bytes=max_bytes, verify=False)
        )
    ]
    return write_message_set(
        messages, magic=magic, codec=codec, timestamp_type=timestamp_type, append_time=append_time
    )
