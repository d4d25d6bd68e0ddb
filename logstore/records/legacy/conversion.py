"""Message sets to record batches (Produce v0 to v2) and back (Fetch v0 to v3) (S24)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from logstore.records.batch import RecordBatch, read_batches
from logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, compress
from logstore.records.errors import InvalidRecordError, RecordsError
from logstore.records.layout import LOG_APPEND_TIME_BIT, MAX_INT64, Codec, TimestampType
from logstore.records.legacy import by_objects, kernel
from logstore.records.legacy.codecs import codec_for, compress_set
from logstore.records.legacy.errors import EmptyMessageSetError
from logstore.records.legacy.layout import MAGIC_0, MAGIC_1, MAX_WRAPPER_RECORDS
from logstore.records.legacy.reading import read_entries, unwrap
from logstore.records.legacy.validation import MessageSetRules
from logstore.records.legacy.writing import write_entry
from logstore.records.packing import pack_batch

if TYPE_CHECKING:
    from typing_extensions import Buffer


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
    with suppress(RecordsError):  # the kernel knows only that something is wrong
        return _to_batch(message_set, rules)
    return by_objects.to_batch(message_set, rules)


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
    `max_decompressed_bytes` bounds each batch. ValueError for another magic.
    """
    if magic not in (MAGIC_0, MAGIC_1):
        raise ValueError(f"a message set has magic 0 or 1, not {magic}")
    converted = _Converted(magic, first_offset, MAX_INT64 if max_bytes is None else max_bytes)
    for buffer in batches:
        for batch in read_batches(buffer):
            if not batch.header.is_control and not converted.add(batch, max_decompressed_bytes):
                return converted.message_set()
    return converted.message_set()


def _to_batch(message_set: Buffer, rules: MessageSetRules) -> bytes:
    """As `to_batch`, but a RecordsError only means that there is one."""
    data = memoryview(message_set)
    writer = kernel.SectionWriter(rules.max_magic, rules.require_keys)
    codec, left = Codec.NONE, rules.max_decompressed_bytes
    position, is_wrapper = writer.add(data, 0)
    while is_wrapper:
        wrapper = next(read_entries(data[position:], verify=False))
        inner = unwrap(wrapper, left, rules.max_decompressed_bytes)
        left -= len(inner)
        before = writer.count
        writer.add(inner, 0, True)
        if writer.count == before:
            raise EmptyMessageSetError
        codec = codec or wrapper.codec
        position, is_wrapper = writer.add(data, position + wrapper.size)
    if not writer.count:
        raise EmptyMessageSetError
    return pack_batch(
        compress(codec, writer.section()) if codec else writer.section(),
        base_offset=0,
        attributes=codec,
        last_offset_delta=writer.count - 1,
        base_timestamp=writer.base_timestamp,
        max_timestamp=writer.max_timestamp,
        record_count=writer.count,
    )


class _Converted:
    """The message set that batches become, in parts, up to a bound in bytes."""

    def __init__(self, magic: int, first_offset: int, max_bytes: int) -> None:
        self._magic = magic
        self._first_offset = first_offset
        self._left = max_bytes
        self._parts: list[Buffer] = []

    def add(self, batch: RecordBatch, max_decompressed_bytes: int) -> bool:
        """Add the records of a batch; whether there may be room for more."""
        header = batch.header
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        try:
            reader = kernel.RecordReader(
                batch.section(max_decompressed_bytes),
                record_count=header.record_count,
                base_offset=header.base_offset,
                last_offset_delta=header.last_offset_delta,
                base_timestamp=header.base_timestamp,
                append_time=header.max_timestamp if is_append_time else None,
            )
        except InvalidRecordError:
            sets = by_objects.message_sets(
                batch, self._magic, self._first_offset, max_decompressed_bytes
            )
            return all(map(self._take, sets))
        attributes = LOG_APPEND_TIME_BIT if is_append_time and self._magic == MAGIC_1 else 0
        if header.codec is not Codec.NONE:
            return self._add_wrappers(reader, attributes, codec_for(header.codec))
        may_exceed = not self._parts
        part = reader.plain(self._magic, attributes, self._first_offset, self._left, may_exceed)
        return (not len(part) or self._take(part)) and not reader.is_cut

    def message_set(self) -> bytes:
        """What was added."""
        return b"".join(self._parts)

    def _add_wrappers(self, reader: kernel.RecordReader, attributes: int, codec: Codec) -> bool:
        while reader.left:
            inner, offset, timestamp = reader.inner(MAX_WRAPPER_RECORDS, self._magic, attributes)
            if offset < self._first_offset:
                continue
            value = compress_set(codec, inner, self._magic)
            wrapper = write_entry(offset, self._magic, attributes | codec, timestamp, None, value)
            if not self._take(wrapper):
                return False
        return True

    def _take(self, part: Buffer) -> bool:
        """Whether there was room for a part that may not be divided further; the first is always taken."""
        size = memoryview(part).nbytes
        if self._parts and size > self._left:
            return False
        self._parts.append(part)
        self._left -= size
        return True
