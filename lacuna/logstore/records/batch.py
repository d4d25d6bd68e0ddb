"""Record batches of magic 2 as values: one type for reading, and one for writing (KIP-98).

`read_batches` yields a `RecordBatch` for each batch in a buffer. Its `header` is parsed; its `records` are decompressed
and parsed only when requested. `BatchToWrite` keeps the given offset deltas, so that holes survive a rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from crc32c import crc32c

from lacuna.logstore.records import kernel
from lacuna.logstore.records.compression import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    codec_of,
    compress,
    decompress,
)
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    InvalidRecordError,
    TruncatedBatchError,
)
from lacuna.logstore.records.layout import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_INT32,
    MAX_INT64,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    Codec,
    TimestampType,
)
from lacuna.logstore.records.packing import pack_batch

if TYPE_CHECKING:
    from typing_extensions import Buffer

Headers: TypeAlias = tuple[tuple[bytes, bytes | None], ...]
# A record as the kernel returns it: attributes, timestamp delta, offset delta, key, value, headers.
RawRecord: TypeAlias = tuple[int, int, int, bytes | None, bytes | None, Headers]
_OFFSET_DELTA: Final = 2
# A 32-bit varint has at most five bytes.
_MAX_SIZE_SHIFT: Final = 28


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch, with Kafka's field names. `crc` is the stored CRC-32C.

    This is a named tuple, which is cheap to create, because every produced batch needs one.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def parse(cls, buffer: Buffer, position: int = 0) -> BatchHeader:
        """Parse the header at byte `position`.

        Raises TruncatedBatchError if fewer than 61 bytes are left, and CorruptBatchError if the magic is not 2 or
        batch_length leaves no room for the header.
        """
        data = memoryview(buffer)
        if len(data) - position > MAGIC_AT and data[position + MAGIC_AT] != MAGIC:
            raise CorruptBatchError(
                f"its magic is {data[position + MAGIC_AT]}, not {MAGIC}", position
            )
        if len(data) - position < HEADER_SIZE:
            raise TruncatedBatchError(position, HEADER_SIZE)
        header = cls._make(HEADER.unpack_from(data, position))
        if header.size < HEADER_SIZE:
            raise CorruptBatchError(
                f"its batch_length makes it {header.size} bytes long, shorter than a batch header",
                position,
            )
        return header

    def pack(self) -> bytes:
        return HEADER.pack(*self)

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def codec(self) -> Codec:
        """The compression codec. Raises UnsupportedCodecError for the numbers 5 to 7, which no codec has."""
        return codec_of(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """The source of the records' timestamps. With LOG_APPEND_TIME, max_timestamp applies to every record."""
        return TimestampType(int(self.attributes & LOG_APPEND_TIME_BIT != 0))

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether base_timestamp is the time after which the batch's tombstones may be deleted (KIP-534)."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def last_offset(self) -> int:
        """The last offset in the batch's range, even if no record has it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset that follows the batch (S16), computed from last_offset_delta, not from the record count."""
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or NO_SEQUENCE if there is none. Sequences wrap around from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_INT32


@dataclass(frozen=True, slots=True)
class Record:
    """A record read from a batch. `timestamp` is the append time if the batch has LOG_APPEND_TIME."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    attributes: int


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A batch read from a buffer: its parsed header, and all its bytes as a view of the buffer."""

    header: BatchHeader
    data: memoryview

    def verify(self) -> None:
        """Raise CorruptBatchError if the stored CRC-32C does not match the bytes."""
        computed = crc32c(self.data[ATTRIBUTES_AT:])
        if computed != self.header.crc:
            raise CorruptBatchError(f"its CRC-32C is {self.header.crc:08x}, not {computed:08x}")

    def section(self, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> bytes:
        """Return the records section, decompressed. Raises the same errors as `compression.decompress`.

        `max_bytes` does not apply to an uncompressed section, which is already in memory.
        """
        codec, section = self.header.codec, self.data[HEADER_SIZE:]
        return bytes(section) if codec is Codec.NONE else decompress(codec, section, max_bytes)

    def records(self, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> list[Record]:
        """Return the records in offset order. `max_bytes` limits the size of the decompressed section.

        Raises InvalidRecordError if the records contradict the header, and the same errors as `section`.
        """
        return self._checked(kernel.read_records(self.section(max_bytes), self.header.record_count))

    def record_groups(
        self, most: int, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    ) -> Iterator[list[Record]]:
        """Yield the records in lists of at most `most`, to limit memory usage: a 7-byte record can become an object of
        hundreds of bytes.

        Raises the same errors as `records` when it reaches the first invalid record.
        """
        section = self.section(max_bytes)
        start, first, last_delta = 0, 0, -1
        while (left := self.header.record_count - first) > most:
            end = _behind_records(section, start, most)
            raw = kernel.read_records(section[start:end], most)
            yield self._checked(raw, first, last_delta)
            start, first, last_delta = end, first + most, raw[-1][_OFFSET_DELTA]
        yield self._checked(kernel.read_records(section[start:], left), first, last_delta)

    def _checked(
        self, raw_records: list[RawRecord], first: int = 0, last_delta: int = -1
    ) -> list[Record]:
        """Check and convert records, given the index of the first one and the offset delta before it."""
        header = self.header
        records: list[Record] = []
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        for index, raw in enumerate(raw_records, first):
            attributes, timestamp_delta, offset_delta, key, value, headers = raw
            if not last_delta < offset_delta <= header.last_offset_delta:
                raise InvalidRecordError(f"its offset delta {offset_delta} is out of order", index)
            last_delta = offset_delta
            time = header.max_timestamp if append_time else header.base_timestamp + timestamp_delta
            offset = header.base_offset + offset_delta
            if offset > MAX_INT64 or not -MAX_INT64 - 1 <= time <= MAX_INT64:
                raise InvalidRecordError("its timestamp or offset exceeds 64 bits", index)
            records.append(Record(offset, time, key, value, headers, attributes))
        return records


def _behind_records(section: bytes, position: int, count: int) -> int:
    """Return the position after `count` records, of which only the sizes (zigzag varints) are read.

    If the records do not fit, return the end of the section, so that reading them fails.
    """
    length = len(section)
    for _ in range(count):
        size = shift = 0
        while position < length:
            byte = section[position]
            position += 1
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > _MAX_SIZE_SHIFT:
                return length
        position += size >> 1
        if size & 1 or position > length:
            return length
    return position


def read_batches(buffer: Buffer, *, verify: bool = True) -> Iterator[RecordBatch]:
    """Yield the consecutive batches in `buffer`, which must end where a batch ends.

    Raises TruncatedBatchError, after yielding all complete batches, if the last one is incomplete, and
    CorruptBatchError if more bytes would not help. With `verify=False`, checksums are not verified.
    """
    data = memoryview(buffer)
    position = 0
    while position < len(data):
        batch = _read_batch(data, position)
        if verify:
            batch.verify()
        yield batch
        position += batch.header.size


def _read_batch(data: memoryview, position: int) -> RecordBatch:
    header = BatchHeader.parse(data, position)
    end = position + header.size
    if end > len(data):
        raise TruncatedBatchError(position, header.size)
    return RecordBatch(header, data[position:end])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """A record to write. `offset_delta` is relative to the batch's base_offset; `timestamp` is in ms."""

    offset_delta: int
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    attributes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchToWrite:
    """A batch to write. Offset deltas must strictly increase, but may leave holes.

    Defaults: last_offset_delta is the last record's offset delta, base_timestamp is the first record's timestamp, and
    max_timestamp is the largest timestamp (-1 without records).
    """

    records: tuple[NewRecord, ...]
    base_offset: int = 0
    last_offset_delta: int | None = None
    codec: Codec = Codec.NONE
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    is_transactional: bool = False
    is_control: bool = False
    base_timestamp: int | None = None
    max_timestamp: int | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH

    def encode(self) -> bytes:
        """Return the batch's bytes. Raises ValueError if offset deltas are out of order or out of range."""
        base_timestamp, max_timestamp = self._timestamps()
        section = b"".join(_encode_record(record, base_timestamp) for record in self.records)
        if self.codec is not Codec.NONE:
            section = compress(self.codec, section)
        return pack_batch(
            section,
            base_offset=self.base_offset,
            attributes=self._attributes(),
            last_offset_delta=self._last_offset_delta(),
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(self.records),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            partition_leader_epoch=self.partition_leader_epoch,
        )

    def _attributes(self) -> int:
        bits = int(self.codec)
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            bits |= LOG_APPEND_TIME_BIT
        if self.is_transactional:
            bits |= TRANSACTIONAL_BIT
        if self.is_control:
            bits |= CONTROL_BIT
        return bits

    def _timestamps(self) -> tuple[int, int]:
        times = [record.timestamp for record in self.records] or [NO_TIMESTAMP]
        base = times[0] if self.base_timestamp is None else self.base_timestamp
        return base, max(times) if self.max_timestamp is None else self.max_timestamp

    def _last_offset_delta(self) -> int:
        highest = -1
        for record in self.records:
            if record.offset_delta <= highest:
                raise ValueError(f"offset delta {record.offset_delta} follows {highest}")
            highest = record.offset_delta
        last = highest if self.last_offset_delta is None else self.last_offset_delta
        if not max(highest, 0) <= last <= MAX_INT32:
            raise ValueError(f"last_offset_delta {last} is not in [{max(highest, 0)}, 2^31)")
        return last


def _encode_record(record: NewRecord, base_timestamp: int) -> bytes:
    body = bytearray((record.attributes,))
    body += varint(record.timestamp - base_timestamp)
    body += varint(record.offset_delta)
    body += _sized(record.key)
    body += _sized(record.value)
    body += varint(len(record.headers))
    for key, value in record.headers:
        body += _sized(key)
        body += _sized(value)
    return varint(len(body)) + bytes(body)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def varint(value: int) -> bytes:
    bits = (value << 1) ^ (value >> 63)
    if not 0 <= bits < 1 << 64:
        raise ValueError(f"{value} does not fit 64 bits")
    encoded = bytearray()
    while bits > 0x7F:
        encoded.append(bits & 0x7F | 0x80)
        bits >>= 7
    encoded.append(bits)
    return bytes(encoded)
