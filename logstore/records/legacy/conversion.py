"""Message sets to record batches (Produce v0 to v2) and back (Fetch v0 to v3) (S24)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from logstore.records.batch import BatchToWrite, NewRecord, Record, RecordBatch, read_batches
from logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES
from logstore.records.errors import InvalidTimestampError
from logstore.records.layout import Codec, TimestampType
from logstore.records.legacy.layout import MAGIC_1
from logstore.records.legacy.reading import read_messages
from logstore.records.legacy.validation import MessageSetRules, validate_message_set
from logstore.records.legacy.writing import NewMessage, write_message_set

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Every client that reads message sets has gzip; lz4 and snappy need libraries that it may lack.
_INSTEAD_OF_ZSTD: Final = Codec.GZIP
_INT64_RANGE: Final = 2**63
# A batch of 1 MiB may hold more than a million records, of which each takes hundreds of bytes while it is
# converted. Producers do not come near: librdkafka ends a batch at 10,000.
MAX_WRAPPER_RECORDS: Final = 1 << 14


def to_batch(message_set: Buffer, *, max_bytes: int, requires_key: bool, magic: int) -> bytes:
    """The records of a produced message set as one batch of magic 2, as well-formed as S11 asks.

    Offsets begin at 0, whatever the set's were; CreateTime, NO_TIMESTAMP in magic 0; no producer
    id. The codec is the first wrapper's. A message that is cut off at the end is left out, as
    Kafka does; a set of nothing else is an EmptyMessageSetError. `max_bytes` bounds what the
    wrappers decompress to, all together. `requires_key` is for compacted topics. `magic` is the
    highest that is taken: 1 for Produce v0 to v2, in all of which Kafka takes 0 and 1 (a batch of
    magic 2, which it takes too, is `validate.validate_produced`'s). Raises a RecordsError as the
    table in `validation` says; max.message.bytes is left to who validates the batch.
    """
    rules = MessageSetRules(
        max_decompressed_bytes=max_bytes, require_keys=requires_key, max_magic=magic
    )
    summary = validate_message_set(message_set, rules)
    messages = read_messages(message_set, max_bytes=max_bytes, verify=False)
    records = tuple(
        NewRecord(offset_delta=delta, timestamp=m.timestamp, key=m.key, value=m.value)
        for delta, m in enumerate(messages)
    )
    _check_timestamps(records)
    return BatchToWrite(records=records, codec=summary.codec, partition_leader_epoch=0).encode()


def from_batches(
    batches: Iterable[Buffer],
    *,
    magic: int,
    max_bytes: int | None = None,
    first_offset: int,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """The records of `batches` (buffers of whole batches of magic 2) as a message set of `magic`.

    Offsets stay, holes with them; timestamps stay in magic 1; headers and producers are dropped,
    control batches left out. A compressed batch becomes one wrapper of its codec, or several where it has
    more than MAX_WRAPPER_RECORDS records. Records below `first_offset` are left out, but for those
    in a wrapper with others (clients skip them).
    zstd becomes gzip: Kafka answers UNSUPPORTED_COMPRESSION_TYPE, an error that these versions'
    clients do not even know, while no client needs a library for gzip and the size stays near.

    At most `max_bytes` bytes, whole messages only, but the first whatever its size. What is behind
    the bound is not read from `batches`. Raises as `read_batches` and `RecordBatch.records`;
    `max_decompressed_bytes` bounds each batch.
    """
    parts: list[bytes] = []
    size = 0
    for batch in _data_batches(batches):
        for part in _converted(batch, magic, first_offset, max_decompressed_bytes):
            if parts and max_bytes is not None and size + len(part) > max_bytes:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def _check_timestamps(records: tuple[NewRecord, ...]) -> None:
    """A batch keeps differences to the first timestamp, in 64 bits."""
    base = records[0].timestamp
    for index, record in enumerate(records):
        if not -_INT64_RANGE <= record.timestamp - base < _INT64_RANGE:
            raise InvalidTimestampError(
                f"timestamps {base} and {record.timestamp} are too far apart for one batch", index
            )


def _data_batches(batches: Iterable[Buffer]) -> Iterator[RecordBatch]:
    for buffer in batches:
        for batch in read_batches(buffer):
            if not batch.header.is_control:
                yield batch


def _converted(
    batch: RecordBatch, magic: int, first_offset: int, max_decompressed_bytes: int
) -> Iterator[bytes]:
    """The message sets of a batch that may not be divided further."""
    for records in batch.record_groups(MAX_WRAPPER_RECORDS, max_decompressed_bytes):
        if not records or records[-1].offset < first_offset:
            continue
        if batch.header.codec is not Codec.NONE:
            yield _message_set(batch, records, magic)
            continue
        for record in records:
            if record.offset >= first_offset:
                yield _message_set(batch, (record,), magic)


def _message_set(batch: RecordBatch, records: Sequence[Record], magic: int) -> bytes:
    """Records of a batch as its codec has them: plain or in one wrapper."""
    codec = batch.header.codec
    is_timed = magic == MAGIC_1
    return write_message_set(
        [NewMessage(each.offset, each.timestamp, each.key, each.value) for each in records],
        magic=magic,
        codec=_INSTEAD_OF_ZSTD if codec is Codec.ZSTD else codec,
        timestamp_type=batch.header.timestamp_type if is_timed else TimestampType.CREATE_TIME,
        append_time=batch.header.max_timestamp,
    )
