"""Converts message sets to record batches (Produce v0 to v2) and back (Fetch v0 to v3) (S24)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from lacuna.logstore.records.batch import RecordBatch, read_batches
from lacuna.logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, compress
from lacuna.logstore.records.errors import EmptyMessageSetError, InvalidRecordError, RecordsError
from lacuna.logstore.records.layout import LOG_APPEND_TIME_BIT, MAX_INT64, Codec, TimestampType
from lacuna.logstore.records.legacy import by_objects, kernel
from lacuna.logstore.records.legacy.codecs import codec_for, compress_set
from lacuna.logstore.records.legacy.layout import MAGIC_0, MAGIC_1, MAX_WRAPPER_RECORDS
from lacuna.logstore.records.legacy.reading import read_entries, unwrap
from lacuna.logstore.records.legacy.writing import write_entry
from lacuna.logstore.records.packing import pack_batch

if TYPE_CHECKING:
    from typing_extensions import Buffer


def to_batch(message_set: Buffer, *, max_bytes: int) -> bytes:
    """Return the records of a produced message set as one batch of magic 2 that is valid according to S11.

    Offsets begin at 0, regardless of the set's offsets. The timestamp type is CreateTime; messages of magic 0 get
    NO_TIMESTAMP. There is no producer id. The codec is the first wrapper's. A message that is cut off at the end is
    dropped, as in Kafka; without a whole message, EmptyMessageSetError is raised. `max_bytes` limits the decompressed
    size of all wrappers together. Raises the RecordsErrors listed in the table in `validation`.
    """
    with suppress(RecordsError):  # the kernel knows only that something is wrong
        return _to_batch(message_set, max_bytes)
    return by_objects.to_batch(message_set, max_bytes)


def from_batches(
    batches: Iterable[Buffer],
    *,
    magic: int,
    max_bytes: int | None = None,
    first_offset: int,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """Return the records of `batches` (buffers of whole batches of magic 2) as a message set of `magic`.

    Offsets and holes are kept. Timestamps are kept only in magic 1. Headers, producers and control batches are dropped.
    A compressed batch becomes one wrapper of its codec, or several if it has more than MAX_WRAPPER_RECORDS records.
    Records below `first_offset` are dropped, except those that share a wrapper with other records; clients skip these.
    zstd becomes gzip, which every client can read and which is about as small. Kafka returns
    UNSUPPORTED_COMPRESSION_TYPE instead, an error that clients of these versions do not know.

    The result has at most `max_bytes`, in whole messages, but always includes the first message. `batches` is not read
    beyond that. `max_decompressed_bytes` bounds each batch. Raises the errors of `read_batches` and
    `RecordBatch.records`, and ValueError for another magic.
    """
    if magic not in (MAGIC_0, MAGIC_1):
        raise ValueError(f"a message set has magic 0 or 1, not {magic}")
    converted = _Converted(magic, first_offset, MAX_INT64 if max_bytes is None else max_bytes)
    for buffer in batches:
        for batch in read_batches(buffer):
            if not batch.header.is_control and not converted.add(batch, max_decompressed_bytes):
                return converted.message_set()
    return converted.message_set()


def _to_batch(message_set: Buffer, max_bytes: int) -> bytes:
    """Do what `to_batch` does, but without its exact errors: a bad set may raise any RecordsError."""
    data = memoryview(message_set)
    writer = kernel.SectionWriter()
    codec, left = Codec.NONE, max_bytes
    position, is_wrapper = writer.add(data, 0)
    while is_wrapper:
        wrapper = next(read_entries(data[position:], verify=False))
        inner = unwrap(wrapper, left, max_bytes)
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
    """A message set that is built from batches, in parts, up to a bound in bytes."""

    def __init__(self, magic: int, first_offset: int, max_bytes: int) -> None:
        self._magic = magic
        self._first_offset = first_offset
        self._left = max_bytes
        self._parts: list[Buffer] = []

    def add(self, batch: RecordBatch, max_decompressed_bytes: int) -> bool:
        """Add the records of a batch, and return whether there may be room for more."""
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
        """Return the message set of all added records."""
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
        """Add a part that must stay whole, if there is room or it is the first part. Return whether it was added."""
        size = memoryview(part).nbytes
        if self._parts and size > self._left:
            return False
        self._parts.append(part)
        self._left -= size
        return True
