"""Converts records one by one as Python objects, which is slower than the kernel but gives exact errors.

`conversion` calls these functions for input that the kernel has rejected. They raise the error, or return what the
kernel would have returned. A record takes a few hundred bytes of memory, and at most MAX_WRAPPER_RECORDS records of a
batch are in memory at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from lacuna.logstore.records.batch import BatchToWrite, NewRecord, Record, RecordBatch
from lacuna.logstore.records.errors import InvalidTimestampError
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.legacy.codecs import codec_for
from lacuna.logstore.records.legacy.layout import MAGIC_1, MAX_WRAPPER_RECORDS
from lacuna.logstore.records.legacy.reading import read_messages
from lacuna.logstore.records.legacy.validation import check_message_set
from lacuna.logstore.records.legacy.writing import NewMessage, write_message_set

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INT64_RANGE: Final = 2**63


def to_batch(message_set: Buffer, max_bytes: int) -> bytes:
    codec = check_message_set(message_set, max_bytes)
    messages = read_messages(message_set, max_bytes=max_bytes, verify=False)
    records = tuple(
        NewRecord(offset_delta=delta, timestamp=m.timestamp, key=m.key, value=m.value)
        for delta, m in enumerate(messages)
    )
    _check_timestamps(records)
    return BatchToWrite(records=records, codec=codec, partition_leader_epoch=0).encode()


def message_sets(
    batch: RecordBatch, magic: int, first_offset: int, max_decompressed_bytes: int
) -> Iterator[bytes]:
    """Yield a batch's indivisible message sets. Raises the same errors as `conversion.from_batches`."""
    for records in batch.record_groups(MAX_WRAPPER_RECORDS, max_decompressed_bytes):
        if not records or records[-1].offset < first_offset:
            continue
        if batch.header.codec is not Codec.NONE:
            yield _message_set(batch, records, magic)
            continue
        for record in records:
            if record.offset >= first_offset:
                yield _message_set(batch, (record,), magic)


def _check_timestamps(records: tuple[NewRecord, ...]) -> None:
    base = records[0].timestamp
    for index, record in enumerate(records):
        if not -_INT64_RANGE <= record.timestamp - base < _INT64_RANGE:
            raise InvalidTimestampError(
                f"timestamps {base} and {record.timestamp} are too far apart for one batch", index
            )


def _message_set(batch: RecordBatch, records: Sequence[Record], magic: int) -> bytes:
    is_timed = magic == MAGIC_1
    return write_message_set(
        [NewMessage(each.offset, each.timestamp, each.key, each.value) for each in records],
        magic=magic,
        codec=codec_for(batch.header.codec),
        timestamp_type=batch.header.timestamp_type if is_timed else TimestampType.CREATE_TIME,
        append_time=batch.header.max_timestamp,
    )
