# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Converts stored batches to columns: their records in the layout of Arrow's arrays.

Cython compiles this module, or Python interprets it; `columns.pyi` declares the types for callers. The input must be
complete batches with true offsets and verified checksums, as returned by the walks in `kernel` and `pieces`:

    builder = ColumnBuilder(headers=True)
    for data in blocks:
        for columns in builder.read(data, first_offset=10, end_offset=500):
            yield columns                       # whenever max_bytes or max_records is reached
    columns = builder.take()                    # the rest, or None

If a record is malformed, `kernel.read_records` reads it again and raises the error.
"""

from __future__ import annotations

import sys

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

from lacuna.logstore.records.column_layout import BinaryColumn, HeaderColumn, RecordColumns
from lacuna.logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, decompress
from lacuna.logstore.records.errors import CorruptBatchError, InvalidRecordError
from lacuna.logstore.records.kernel import read_records

if not cython.compiled:
    from lacuna.logstore.records.integers import int32_at, int64_at
    from lacuna.logstore.records.rewriting import batch_size

MAX_BYTES = 8 * 1024 * 1024
"""The maximum number of bytes of keys, values and headers in one RecordColumns, unless a single record has more."""
MAX_RECORDS = 64 * 1024

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_CODEC = cython.declare(cython.int, 0x07)
_LOG_APPEND_TIME = cython.declare(cython.int, 0x08)
_CONTROL = cython.declare(cython.int, 0x20)
_DELETE_HORIZON = cython.declare(cython.int, 0x40)
_MAX_INT32 = cython.declare(cython.longlong, 0x7FFFFFFF)
_MAX_INT64 = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 1 << 12)
_FIRST_ROWS = cython.declare(cython.Py_ssize_t, 1 << 8)
# Faults of a record.
_BAD = cython.declare(cython.int, 1)
_OUT_OF_ORDER = cython.declare(cython.int, 2)
_FAR_TIME = cython.declare(cython.int, 3)
# The reasons why `add_records` returns.
_END_OF_BATCH = cython.declare(cython.int, 0)
_FULL = cython.declare(cython.int, 1)
_NO_ROOM = cython.declare(cython.int, 2)
_FAULT = cython.declare(cython.int, 3)


@cython.final
@cython.cclass
class _Growing:
    """A buffer that grows at its end: a bytearray, or whatever `allocate` returns (see ColumnBuilder).

    In compiled form, the memory is not cleared, and the `put` methods need no interpreter lock; room must have been
    reserved before they are called.
    """

    allocate: object
    buffer: object
    memory: cython.p_uchar
    size: cython.Py_ssize_t
    capacity: cython.Py_ssize_t
    expected: cython.Py_ssize_t

    def __init__(self, allocate: object, expected: int = 0) -> None:
        self.allocate = allocate
        self.expected = expected
        self.begin()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def begin(self) -> cython.int:
        self.buffer = bytearray() if self.allocate is None or not cython.compiled else None
        self.size = 0
        self.capacity = 0
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reserve(self, length: cython.Py_ssize_t) -> cython.int:
        if self.size + length > self.capacity:
            self.capacity = max(
                self.size + length, 2 * self.capacity, self.expected, _FIRST_CAPACITY
            )
            if cython.compiled:
                self.resize(self.capacity)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def resize(self, size: cython.Py_ssize_t) -> cython.int:
        if cython.compiled:
            if self.allocate is None:
                PyByteArray_Resize(self.buffer, size)  # noqa: F821 - in columns.pxd
                self.memory = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(self.buffer))  # noqa: F821
            else:
                if self.buffer is None:
                    self.buffer = self.allocate(size)
                else:
                    self.buffer.resize(size, False)
                self.memory = cython.cast(
                    cython.p_uchar, cython.cast(cython.size_t, self.buffer.address)
                )
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put(
        self,
        data: cython.const[cython.uchar][::1],
        at: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> cython.void:
        if length <= 0:
            return
        if cython.compiled:
            memcpy(self.memory + self.size, cython.address(data[at]), length)  # noqa: F821
        else:
            self.buffer += data[at : at + length]
        self.size += length

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_int64(self, value: cython.longlong) -> cython.void:
        if cython.compiled:
            memcpy(self.memory + self.size, cython.address(value), 8)  # noqa: F821
        else:
            self.buffer += value.to_bytes(8, sys.byteorder, signed=True)
        self.size += 8

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_int32(self, value: cython.int) -> cython.void:
        if cython.compiled:
            memcpy(self.memory + self.size, cython.address(value), 4)  # noqa: F821
        else:
            self.buffer += value.to_bytes(4, sys.byteorder, signed=True)
        self.size += 4

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_byte(self, value: cython.uchar) -> cython.void:
        if cython.compiled:
            self.memory[self.size] = value
        else:
            self.buffer.append(value)
        self.size += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def set_bit(self, index: cython.Py_ssize_t) -> cython.void:
        bit: cython.int = 1 << (index & 7)
        if cython.compiled:
            self.memory[index >> 3] |= bit
        else:
            self.buffer[index >> 3] |= bit

    @cython.cfunc
    def take(self) -> object:
        """Return the bytes written so far, and start a new buffer with room for the same number of bytes."""
        if self.capacity == 0:
            self.reserve(1)
        if cython.compiled:
            self.resize(self.size)
        taken = self.buffer
        self.expected = self.size
        self.begin()
        return taken


@cython.final
@cython.cclass
class _BinaryBuilder:
    validity: _Growing
    offsets: _Growing
    data: _Growing
    count: cython.Py_ssize_t
    null_count: cython.Py_ssize_t

    def __init__(self, allocate: object, expected: int = 0) -> None:
        self.validity = _Growing(allocate)
        self.offsets = _Growing(allocate)
        self.data = _Growing(allocate, expected)
        self.count = 0
        self.null_count = 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reserve(self, rows: cython.Py_ssize_t, length: cython.Py_ssize_t) -> cython.int:
        self.validity.reserve((rows >> 3) + 1)
        self.offsets.reserve(4 * (rows + 1))
        self.data.reserve(length)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has_room(self, length: cython.longlong) -> cython.bint:
        return self.data.size + length <= self.data.capacity

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add(
        self,
        data: cython.const[cython.uchar][::1],
        at: cython.Py_ssize_t,
        length: cython.longlong,
    ) -> cython.void:
        if self.count & 7 == 0:
            self.validity.put_byte(0)
        if length < 0:
            self.null_count += 1
        else:
            self.validity.set_bit(self.count)
        self.offsets.put_int32(cython.cast(cython.int, self.data.size))
        self.data.put(data, at, length)
        self.count += 1

    @cython.cfunc
    def take(self) -> object:
        self.offsets.reserve(4)
        self.offsets.put_int32(cython.cast(cython.int, self.data.size))
        validity = self.validity.take()
        if self.null_count == 0:
            validity = None
        offsets = memoryview(self.offsets.take()).cast("B").cast("i")
        column = BinaryColumn(validity, offsets, self.data.take())
        self.count = 0
        self.null_count = 0
        return column


@cython.final
@cython.cclass
class _Scan:
    raw: object
    data: cython.const[cython.uchar][::1]
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    first_offset: cython.longlong
    end_offset: cython.longlong
    min_timestamp: cython.longlong
    max_timestamp: cython.longlong
    max_decompressed_bytes: cython.Py_ssize_t
    # The batch: its section is body[body_start:body_end], read up to `position`.
    owner: object
    body: cython.const[cython.uchar][::1]
    body_start: cython.Py_ssize_t
    body_end: cython.Py_ssize_t
    position: cython.Py_ssize_t
    attributes: cython.int
    count: cython.longlong
    index: cython.longlong
    base_offset: cython.longlong
    last_offset_delta: cython.longlong
    last_delta: cython.longlong
    base_timestamp: cython.longlong
    append_time: cython.longlong
    # The record: its end, and its key and value (a length of -1 means null).
    record_end: cython.Py_ssize_t
    timestamp: cython.longlong
    delta: cython.longlong
    key_at: cython.Py_ssize_t
    key_length: cython.longlong
    value_at: cython.Py_ssize_t
    value_length: cython.longlong
    header_count: cython.longlong
    headers_at: cython.Py_ssize_t
    has_record: cython.bint
    is_bad: cython.bint
    fault: cython.int

    def __init__(self, batches: object, position: int, end: int, max_decompressed: int) -> None:
        self.raw = memoryview(batches).cast("B")
        size = len(self.raw)
        if end < 0:
            end = size
        if not 0 <= position <= end <= size:
            raise ValueError(f"bytes {position} to {end} are not within a buffer of {size} bytes")
        self.data = self.raw
        self.at = position
        self.end = end
        self.max_decompressed_bytes = max_decompressed
        self.body_start = self.body_end = self.position = 0
        self.count = 0
        self.index = 0
        self.has_record = False
        self.is_bad = False
        self.fault = 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def next_batch(self) -> cython.int:
        """Move to the next batch that may contain wanted records. Return 0 if there is none, otherwise 1."""
        at: cython.Py_ssize_t
        size: cython.Py_ssize_t
        while self.at < self.end:
            at = self.at
            size = batch_size(self.data, at, self.end)
            self.at = at + size
            self.base_offset = int64_at(self.data, at)
            self.last_offset_delta = int32_at(self.data, at + 23)
            if self.base_offset < 0 or not (
                0 <= self.last_offset_delta <= _MAX_INT64 - self.base_offset
            ):
                raise CorruptBatchError(f"its last_offset_delta is {self.last_offset_delta}", at)
            self.attributes = self.data[at + 22]
            self.append_time = int64_at(self.data, at + 35)
            if self.base_offset >= self.end_offset:
                self.at = self.end
                return 0
            if (
                self.attributes & _CONTROL
                or self.base_offset + self.last_offset_delta < self.first_offset
                or self.append_time < self.min_timestamp
            ):
                continue
            if self.attributes & _LOG_APPEND_TIME and self.append_time > self.max_timestamp:
                continue
            self.enter(at, at + size)
            return 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter(self, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        self.base_timestamp = int64_at(self.data, at + 27)
        self.count = int32_at(self.data, at + 57)
        if self.count < 0:
            raise CorruptBatchError(f"its record count is {self.count}", at)
        self.index = 0
        self.last_delta = -1
        codec: cython.int = self.attributes & _CODEC
        if codec == 0:
            self.owner = self.raw
            self.body_start = at + _HEADER_SIZE
            self.body_end = end
        else:
            section = self.raw[at + _HEADER_SIZE : end]
            self.owner = memoryview(decompress(codec, section, self.max_decompressed_bytes))
            self.body_start = 0
            self.body_end = len(self.owner)
        self.body = self.owner
        self.position = self.body_start
        return 0

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def varint(self, max_bits: cython.int) -> cython.longlong:
        """Read a zigzag varint of at most `max_bits` bits within the record. Most are one or two bytes long."""
        at: cython.Py_ssize_t = self.position
        left: cython.Py_ssize_t = self.record_end - at
        bits: cython.int
        if left > 0 and self.body[at] < 0x80:
            bits = self.body[at]
            self.position = at + 1
        elif left > 1 and self.body[at + 1] < 0x80:
            bits = (self.body[at] & 0x7F) | self.body[at + 1] << 7
            self.position = at + 2
        else:
            return self.long_varint(max_bits)
        return (bits >> 1) ^ -(bits & 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def long_varint(self, max_bits: cython.int) -> cython.longlong:
        bits: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.int
        at: cython.Py_ssize_t = self.position
        while at < self.record_end:
            byte = self.body[at]
            at += 1
            if shift + 7 > max_bits and (byte >> (max_bits - shift)) != 0:
                break
            bits |= cython.cast(cython.ulonglong, byte & 0x7F) << shift
            if byte < 0x80:
                self.position = at
                return cython.cast(cython.longlong, bits >> 1) ^ -cython.cast(
                    cython.longlong, bits & 1
                )
            shift += 7
        self.is_bad = True
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def sized(self, nullable: cython.bint) -> cython.longlong:
        length: cython.longlong = self.varint(32)
        if length < (-1 if nullable else 0) or length > self.record_end - self.position:
            self.is_bad = True
            return -1
        if length > 0:
            self.position += length
        return length

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def next_record(self) -> cython.bint:
        """Read the next record up to its offset delta. Return False if there is none, or after setting `fault`."""
        size: cython.longlong
        if self.index == self.count:
            if self.position != self.body_end:
                self.fault = _BAD
            return False
        self.record_end = self.body_end
        size = self.varint(32)
        if self.is_bad or size < 1 or size > self.body_end - self.position:
            self.fault = _BAD
            return False
        self.record_end = self.position + size
        self.position += 1
        self.timestamp = self.varint(64)
        self.delta = self.varint(32)
        if self.is_bad:
            self.fault = _BAD
            return False
        if self.delta <= self.last_delta or self.delta > self.last_offset_delta:
            self.fault = _OUT_OF_ORDER
            return False
        self.last_delta = self.delta
        if self.attributes & _LOG_APPEND_TIME:
            self.timestamp = self.append_time
        elif (
            self.base_timestamp > _MAX_INT64 - self.timestamp
            if self.timestamp >= 0
            else self.base_timestamp < -_MAX_INT64 - 1 - self.timestamp
        ):
            self.fault = _FAR_TIME
            return False
        else:
            self.timestamp += self.base_timestamp
        self.index += 1
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def next_wanted(self) -> cython.bint:
        """Move to the batch's next record in the wanted ranges of offsets and timestamps.

        Return False if there is none, or after setting `fault`.
        """
        offset: cython.longlong
        while self.next_record():
            offset = self.base_offset + self.delta
            if offset >= self.end_offset:
                self.at = self.end
                self.count = self.index
                self.position = self.body_end
                return False
            if (
                offset >= self.first_offset
                and self.min_timestamp <= self.timestamp <= self.max_timestamp
            ):
                return self.read_body()
            self.position = self.record_end
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def read_body(self) -> cython.bint:
        """Read the lengths of key, value and headers. Return whether they fill the record exactly."""
        self.key_length = self.sized(True)
        self.key_at = self.position - max(self.key_length, 0)
        self.value_length = self.sized(True)
        self.value_at = self.position - max(self.value_length, 0)
        self.header_count = self.varint(32)
        self.headers_at = self.position
        if self.header_count < 0 or self.header_count > self.record_end - self.position:
            self.is_bad = True
        if not self.is_bad:
            for _ in range(self.header_count):
                self.sized(False)
                self.sized(True)
                if self.is_bad:
                    break
        if self.is_bad or self.position != self.record_end:
            self.fault = _BAD
            return False
        self.has_record = True
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def fail(self) -> cython.int:
        """Raise the error for the fault. If a section is malformed, `kernel.read_records` determines how."""
        if self.fault == _OUT_OF_ORDER:
            raise InvalidRecordError(f"its offset delta {self.delta} is out of order", self.index)
        if self.fault == _FAR_TIME:
            raise InvalidRecordError("its timestamp exceeds 64 bits", self.index)
        read_records(bytes(self.owner[self.body_start : self.body_end]), self.count)
        raise InvalidRecordError("the records do not fit their batch")


@cython.final
@cython.cclass
class ColumnBuilder:
    """Collects the records of batches in the columns that the caller has chosen.

    `max_bytes` (of keys, values and headers; at most 2^31 - 1) and `max_records` limit each RecordColumns, though a
    single record may exceed them. `max_decompressed_bytes` limits a batch. Room for `expected_bytes` of values is
    reserved at the start. `tombstones` adds two columns: whether records are tombstones, and their batches' delete
    horizons.

    The columns are bytearrays, or the buffers that `allocate(size)` returns, which must have an `address` and a method
    `resize(size, shrink)`, like those of pyarrow.allocate_buffer. Interpreted code always uses bytearrays.
    """

    max_bytes: cython.Py_ssize_t
    max_records: cython.Py_ssize_t
    max_decompressed_bytes: cython.Py_ssize_t
    has_keys: cython.bint
    has_values: cython.bint
    has_headers: cython.bint
    has_tombstones: cython.bint
    count: cython.Py_ssize_t
    size: cython.longlong
    has_header_room: cython.bint
    rows: cython.Py_ssize_t
    expected_rows: cython.Py_ssize_t
    offsets: _Growing
    timestamps: _Growing
    timestamp_types: _Growing
    tombstones: _Growing
    horizons: _Growing
    list_offsets: _Growing
    keys: _BinaryBuilder
    values: _BinaryBuilder
    header_keys: _BinaryBuilder
    header_values: _BinaryBuilder

    def __init__(
        self,
        *,
        keys: bool = True,
        values: bool = True,
        headers: bool = False,
        tombstones: bool = False,
        max_bytes: int = MAX_BYTES,
        max_records: int = MAX_RECORDS,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        expected_bytes: int = 0,
        allocate: object = None,
    ) -> None:
        if not 0 < max_bytes <= 0x7FFFFFFF or not 0 < max_records <= 0x7FFFFFFF:
            raise ValueError(
                f"max_bytes {max_bytes} and max_records {max_records} must lie in [1, 2^31)"
            )
        self.has_keys = keys
        self.has_values = values
        self.has_headers = headers
        self.has_tombstones = tombstones
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.max_decompressed_bytes = max_decompressed_bytes
        self.offsets = _Growing(allocate)
        self.timestamps = _Growing(allocate)
        self.timestamp_types = _Growing(allocate)
        self.tombstones = _Growing(allocate)
        self.horizons = _Growing(allocate)
        self.list_offsets = _Growing(allocate)
        self.keys = _BinaryBuilder(allocate)
        self.values = _BinaryBuilder(allocate, min(expected_bytes, max_bytes))
        self.header_keys = _BinaryBuilder(allocate)
        self.header_values = _BinaryBuilder(allocate)
        self.count = 0
        self.size = 0
        self.has_header_room = False
        self.rows = 0
        self.expected_rows = _FIRST_ROWS

    def read(
        self,
        batches: object,
        position: int = 0,
        end: int = -1,
        *,
        first_offset: int = 0,
        end_offset: int = 0x7FFFFFFFFFFFFFFF,
        min_timestamp: int = -0x8000000000000000,
        max_timestamp: int = 0x7FFFFFFFFFFFFFFF,
    ) -> object:
        """Add the wanted records in batches[position:end], and yield RecordColumns whenever they are full.

        Records are wanted if their offset is in [first_offset, end_offset) and their timestamp (ms) is in
        [min_timestamp, max_timestamp]. Control batches are skipped. Batches whose headers rule out wanted records are
        not decompressed. The generator holds the buffer until it ends.

        Raises TruncatedBatchError, CorruptBatchError, InvalidRecordError, UnsupportedCodecError or
        DecompressedTooLargeError if the bytes are not valid batches. The records before the error are kept.
        """
        scan = _Scan(batches, position, end, self.max_decompressed_bytes)
        scan.first_offset = first_offset
        scan.end_offset = end_offset
        scan.min_timestamp = min_timestamp
        scan.max_timestamp = max_timestamp
        return self._chunks(scan)

    def _chunks(self, scan: _Scan) -> object:
        while self.fill(scan):
            yield self.take()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def fill(self, scan: _Scan) -> cython.int:
        """Add records until the next one does not fit (return 1) or none is left (return 0)."""
        reason: cython.int
        while True:
            with cython.nogil:
                reason = self.add_records(scan)
            if reason == _FULL:
                return 1
            if reason == _FAULT:
                scan.fail()
            elif reason == _NO_ROOM:
                self.reserve(scan)
            elif not scan.next_batch():
                return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_records(self, scan: _Scan) -> cython.int:
        """Add records of the current batch, and return the reason for stopping."""
        size: cython.longlong
        while scan.has_record or scan.next_wanted():
            size = self.size_of(scan)
            if self.count > 0 and (
                self.count >= self.max_records or self.size + size > self.max_bytes
            ):
                return _FULL
            if not self.has_room(scan):
                return _NO_ROOM
            self.add(scan)
            self.size += size
            scan.has_record = False
        return _FAULT if scan.fault else _END_OF_BATCH

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def size_of(self, scan: _Scan) -> cython.longlong:
        """Return how many of the record's bytes count towards max_bytes."""
        size: cython.longlong = 0
        if self.has_keys:
            size += max(scan.key_length, 0)
        if self.has_values:
            size += max(scan.value_length, 0)
        if self.has_headers:
            size += scan.record_end - scan.headers_at
        return size

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has_room(self, scan: _Scan) -> cython.bint:
        """Whether the record fits into the reserved room. Room for headers is reserved for one record at a time."""
        return (
            self.count < self.rows
            and (not self.has_keys or self.keys.has_room(scan.key_length))
            and (not self.has_values or self.values.has_room(scan.value_length))
            and (not self.has_headers or scan.header_count == 0 or self.has_header_room)
        )

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reserve(self, scan: _Scan) -> cython.int:
        """Make room for the record, and for more rows if needed."""
        if self.count >= self.rows:
            self.reserve_rows(max(self.rows, min(self.expected_rows, self.max_records)))
        if self.has_keys:
            self.keys.data.reserve(max(scan.key_length, 0))
        if self.has_values:
            self.values.data.reserve(max(scan.value_length, 0))
        if self.has_headers:
            self.header_keys.reserve(scan.header_count, scan.record_end - scan.headers_at)
            self.header_values.reserve(scan.header_count, scan.record_end - scan.headers_at)
            self.has_header_room = True
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reserve_rows(self, rows: cython.Py_ssize_t) -> cython.int:
        self.rows = self.count + rows
        self.offsets.reserve(8 * rows)
        self.timestamps.reserve(8 * rows)
        self.timestamp_types.reserve(4 * rows)
        if self.has_keys:
            self.keys.reserve(rows, 0)
        if self.has_values:
            self.values.reserve(rows, 0)
        if self.has_headers:
            self.list_offsets.reserve(4 * rows)
        if self.has_tombstones:
            self.tombstones.reserve(rows)
            self.horizons.reserve(8 * rows)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add(self, scan: _Scan) -> cython.void:
        self.offsets.put_int64(scan.base_offset + scan.delta)
        self.timestamps.put_int64(scan.timestamp)
        self.timestamp_types.put_int32(1 if scan.attributes & _LOG_APPEND_TIME else 0)
        if self.has_keys:
            self.keys.add(scan.body, scan.key_at, scan.key_length)
        if self.has_values:
            self.values.add(scan.body, scan.value_at, scan.value_length)
        if self.has_headers:
            self.add_headers(scan)
        if self.has_tombstones:
            self.tombstones.put_byte(scan.value_length < 0)
            self.horizons.put_int64(
                scan.base_timestamp if scan.attributes & _DELETE_HORIZON else -1
            )
        self.count += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_headers(self, scan: _Scan) -> cython.void:
        length: cython.longlong
        self.list_offsets.put_int32(cython.cast(cython.int, self.header_keys.count))
        scan.position = scan.headers_at
        for _ in range(scan.header_count):
            length = scan.sized(False)
            self.header_keys.add(scan.body, scan.position - length, length)
            length = scan.sized(True)
            self.header_values.add(scan.body, scan.position - max(length, 0), length)
        self.has_header_room = False

    def take(self) -> object:
        """Remove and return the records collected so far, or None if there are none."""
        if self.count == 0:
            return None
        headers = None
        if self.has_headers:
            self.list_offsets.reserve(4)
            self.list_offsets.put_int32(cython.cast(cython.int, self.header_keys.count))
            lists = memoryview(self.list_offsets.take()).cast("B").cast("i")
            headers = HeaderColumn(lists, self.header_keys.take(), self.header_values.take())
        columns = RecordColumns(
            count=self.count,
            offsets=memoryview(self.offsets.take()).cast("B").cast("q"),
            timestamps=memoryview(self.timestamps.take()).cast("B").cast("q"),
            timestamp_types=memoryview(self.timestamp_types.take()).cast("B").cast("i"),
            keys=self.keys.take() if self.has_keys else None,
            values=self.values.take() if self.has_values else None,
            headers=headers,
            tombstones=memoryview(self.tombstones.take()) if self.has_tombstones else None,
            horizons=memoryview(self.horizons.take()).cast("B").cast("q")
            if self.has_tombstones
            else None,
        )
        self.expected_rows = self.count
        self.count = 0
        self.size = 0
        self.rows = 0
        self.has_header_room = False
        return columns


def scan_keys(
    batches: object, first_offset: int = 0, end_offset: int = 0x7FFFFFFFFFFFFFFF
) -> object:
    """Yield the fields of records that compaction by key needs: offsets, timestamps, keys, tombstones and horizons.

    Values are not copied. Reads the same records and raises the same errors as `ColumnBuilder.read`. The last
    RecordColumns may be partly filled.
    """
    builder = ColumnBuilder(values=False, tombstones=True)
    yield from builder.read(batches, first_offset=first_offset, end_offset=end_offset)
    columns = builder.take()
    if columns is not None:
        yield columns
