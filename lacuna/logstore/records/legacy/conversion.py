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
    """Convert a produced message set to one batch of magic 2 that is valid according to S11.

    Offsets start at 0, whatever they are in the set. The timestamp type is CreateTime, and messages of magic 0 get
    NO_TIMESTAMP. There is no producer id. The codec is that of the first wrapper. As in Kafka, a truncated last message
    is dropped; EmptyMessageSetError is raised if no complete message is left. `max_bytes` limits the total decompressed
    size of all wrappers. Raises the RecordsErrors listed in `validation`.
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
    """Convert `batches` (buffers of complete batches of magic 2) to a message set of `magic`.

    Offsets and holes are kept; timestamps are kept only in magic 1. Headers, producers and control batches are dropped.
    A compressed batch becomes one wrapper with the same codec, or several if it has more than MAX_WRAPPER_RECORDS
    records. Records below `first_offset` are dropped, except those in a wrapper that also contains later records, since
    clients skip them. zstd becomes gzip, which every client can read and which compresses about as well. Kafka returns
    UNSUPPORTED_COMPRESSION_TYPE for zstd, an error that clients using these versions do not recognize.

    The result consists of complete messages and is at most `max_bytes` long, but always includes the first message.
    `batches` is not read further than needed. `max_decompressed_bytes` limits each batch. Raises the same errors as
    `read_batches` and `RecordBatch.records`, and ValueError for any other magic.
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
    """Like `to_batch`, but without exact errors: an invalid set may raise any RecordsError."""
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
    def __init__(self, magic: int, first_offset: int, max_bytes: int) -> None:
        self._magic = magic
        self._first_offset = first_offset
        self._left = max_bytes
        self._parts: list[Buffer] = []

    def add(self, batch: RecordBatch, max_decompressed_bytes: int) -> bool:
        """Add a batch's records. Return whether there may be room for more."""
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
        """Add an indivisible part if there is room for it, or if it is the first. Return whether it was added."""
        size = memoryview(part).nbytes
        if self._parts and size > self._left:
            return False
        self._parts.append(part)
        self._left -= size
        return True
