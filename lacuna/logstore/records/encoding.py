# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Encodes rows of columns in Arrow's layout as batches, in the form that a producer would send.

Cython compiles this module, or Python interprets it; `encoding.pyi` declares the types for callers. Buffers are not
copied. Every index is compared with its buffer's length before use.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

from lacuna.logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, compress
from lacuna.logstore.records.errors import BatchTooLargeError, InvalidRecordError
from lacuna.logstore.records.packing import pack_batch

if not cython.compiled:
    from lacuna.logstore.records.integers import copy, is_far, put_varint, varint_size

MAX_BATCH_BYTES = 512 * 1024
"""The maximum number of uncompressed bytes in a batch, unless a single record has more."""
MAX_MESSAGE_BYTES = 1048588
"""Kafka's default of max.message.bytes."""

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_MAX_INT32 = cython.declare(cython.longlong, 0x7FFFFFFF)
_NO_TIMESTAMP = cython.declare(cython.longlong, -1)
# size (5), attributes (1), timestamp delta (10), offset delta (5), header count (5)
_MAX_RECORD_HEAD = cython.declare(cython.Py_ssize_t, 26)
_MAX_LENGTH = cython.declare(cython.Py_ssize_t, 5)
_FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 1 << 14)
_MURMUR2_SEED = cython.declare(cython.ulonglong, 0x9747B28C)
_MURMUR2_FACTOR = cython.declare(cython.ulonglong, 0x5BD1E995)
_UINT32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)


@cython.final
@cython.cclass
class _Binary:
    """Reads a BinaryColumn. None stands for a column of nulls."""

    is_there: cython.bint
    has_nulls: cython.bint
    validity: cython.const[cython.uchar][::1]
    offsets: cython.const[cython.int][::1]
    data: cython.const[cython.uchar][::1]
    row_count: cython.Py_ssize_t
    size: cython.Py_ssize_t
    # The row that `find` found last: data[at:at + length], null if `length` is -1.
    at: cython.Py_ssize_t
    length: cython.longlong

    def __init__(self, column: object) -> None:
        self.is_there = column is not None
        self.row_count = 0
        self.size = 0
        if column is None:
            return
        data = memoryview(column.data).cast("B")
        offsets = memoryview(column.offsets).cast("B").cast("i")
        self.size = len(data)
        self.data = data
        self.row_count = len(offsets) - 1
        self.offsets = offsets
        self.has_nulls = column.validity is not None
        if self.has_nulls:
            validity = memoryview(column.validity).cast("B")
            self.row_count = min(self.row_count, 8 * len(validity))
            self.validity = validity

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def find(self, row: cython.longlong) -> cython.int:
        """Set `at` and `length` to the position and length of a row. Raises IndexError if there is no such row."""
        self.at = 0
        self.length = -1
        if not self.is_there:
            return 0
        if row < 0 or row >= self.row_count:
            raise IndexError(f"row {row} does not exist; there are {max(self.row_count, 0)} rows")
        if self.has_nulls and not (self.validity[row >> 3] >> (row & 7)) & 1:
            return 0
        self.at = self.offsets[row]
        self.length = self.offsets[row + 1] - self.at
        if self.at < 0 or self.length < 0 or self.at + self.length > self.size:
            raise ValueError(f"row {row} lies outside its column's data")
        return 0


@cython.final
@cython.cclass
class _Headers:
    """Reads a HeaderColumn. None stands for a column of empty lists."""

    is_there: cython.bint
    lists: cython.const[cython.int][::1]
    row_count: cython.Py_ssize_t
    keys: _Binary
    values: _Binary
    # The list that `find` found last.
    first: cython.longlong
    end: cython.longlong

    def __init__(self, column: object) -> None:
        self.is_there = column is not None
        self.row_count = 0
        self.keys = _Binary(None if column is None else column.keys)
        self.values = _Binary(None if column is None else column.values)
        if column is not None:
            lists = memoryview(column.list_offsets).cast("B").cast("i")
            self.row_count = len(lists) - 1
            self.lists = lists

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def find(self, row: cython.longlong) -> cython.longlong:
        """Set `first` and `end` to the range of a row's headers. Return an upper bound on their encoded size."""
        size: cython.longlong = 0
        i: cython.longlong
        self.first = self.end = 0
        if not self.is_there:
            return 0
        if row < 0 or row >= self.row_count:
            raise IndexError(f"row {row} does not exist; there are {max(self.row_count, 0)} rows")
        self.first = self.lists[row]
        self.end = self.lists[row + 1]
        if self.first < 0 or self.end < self.first:
            raise ValueError(f"row {row} has no list of headers")
        for i in range(self.first, self.end):
            self.keys.find(i)
            if self.keys.length < 0:
                raise InvalidRecordError(f"the key of header {i - self.first} is null", row)
            self.values.find(i)
            size += self.keys.length + max(self.values.length, 0) + 2 * _MAX_LENGTH
        return size


@cython.final
@cython.cclass
class _Encoder:
    keys: _Binary
    values: _Binary
    headers: _Headers
    buffer: object
    out: cython.uchar[::1]
    capacity: cython.Py_ssize_t
    size: cython.Py_ssize_t
    max_batch_bytes: cython.longlong
    max_message_bytes: cython.longlong
    codec: cython.int
    level: object
    count: cython.longlong
    first_row: cython.longlong
    base_timestamp: cython.longlong
    max_timestamp: cython.longlong
    done: list

    def __init__(self, keys: object, values: object, headers: object) -> None:
        self.keys = _Binary(keys)
        self.values = _Binary(values)
        self.headers = _Headers(headers)
        self.capacity = _FIRST_CAPACITY
        self.buffer = bytearray(_FIRST_CAPACITY)
        self.out = memoryview(self.buffer)
        self.size = 0
        self.count = 0
        self.done = []

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, row: cython.longlong, timestamp: cython.longlong) -> cython.int:
        needed: cython.longlong = _MAX_RECORD_HEAD + 2 * _MAX_LENGTH + self.headers.find(row)
        self.keys.find(row)
        self.values.find(row)
        needed += max(self.keys.length, 0) + max(self.values.length, 0)
        if needed > _MAX_INT32:
            raise BatchTooLargeError(f"the record of row {row}", needed, self.max_message_bytes)
        if self.count > 0 and (
            _HEADER_SIZE + self.size + needed > self.max_batch_bytes
            or is_far(self.base_timestamp, timestamp)
        ):
            self.end_batch()
        if self.count == 0:
            self.first_row = row
            self.base_timestamp = timestamp
            # -1 if all timestamps are before 1970, which is what Kafka's producers set.
            self.max_timestamp = max(timestamp, _NO_TIMESTAMP)
        if self.size + needed > self.capacity:
            self.grow(self.size + needed)
        self.put_varint(self.record_size(timestamp))
        self.out[self.size] = 0
        self.size += 1
        self.put_varint(timestamp - self.base_timestamp)
        self.put_varint(self.count)
        self.put_bytes(self.keys)
        self.put_bytes(self.values)
        self.put_headers()
        self.count += 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def record_size(self, timestamp: cython.longlong) -> cython.longlong:
        """Return the value of the record's size field: the number of bytes that follow it."""
        size: cython.longlong = 1
        i: cython.longlong
        size += varint_size(timestamp - self.base_timestamp) + varint_size(self.count)
        size += varint_size(self.keys.length) + max(self.keys.length, 0)
        size += varint_size(self.values.length) + max(self.values.length, 0)
        size += varint_size(self.headers.end - self.headers.first)
        for i in range(self.headers.first, self.headers.end):
            self.headers.keys.find(i)
            self.headers.values.find(i)
            size += varint_size(self.headers.keys.length) + self.headers.keys.length
            size += varint_size(self.headers.values.length) + max(self.headers.values.length, 0)
        return size

    @cython.cfunc
    @cython.exceptval(check=False)
    def put_varint(self, value: cython.longlong) -> cython.void:
        self.size = put_varint(self.out, self.size, value)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_bytes(self, column: _Binary) -> cython.int:
        """Append the length and the bytes of the row that `column.find` was last called for."""
        self.put_varint(column.length)
        if column.length > 0:
            self.size = copy(self.out, self.size, column.data, column.at, column.length)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def put_headers(self) -> cython.int:
        i: cython.longlong
        self.put_varint(self.headers.end - self.headers.first)
        for i in range(self.headers.first, self.headers.end):
            self.headers.keys.find(i)
            self.headers.values.find(i)
            self.put_bytes(self.headers.keys)
            self.put_bytes(self.headers.values)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self, needed: cython.Py_ssize_t) -> cython.int:
        self.capacity = max(needed, 2 * self.capacity)
        larger = bytearray(self.capacity)
        larger[: self.size] = memoryview(self.buffer)[: self.size]
        self.buffer = larger
        self.out = memoryview(larger)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def end_batch(self) -> cython.int:
        if self.count == 0:
            return 0
        codec: cython.int = 0
        section = memoryview(self.buffer)[: self.size]
        # Readers would refuse to decompress a larger section.
        if self.codec != 0 and self.size <= DEFAULT_MAX_DECOMPRESSED_BYTES:
            codec = self.codec
            section = compress(codec, section, self.level)
        size = _HEADER_SIZE + len(section)
        if size > self.max_message_bytes:
            what = f"the batch of {self.count} records that starts at row {self.first_row}"
            if self.count == 1:
                what = f"the batch with only the record of row {self.first_row}"
            raise BatchTooLargeError(what, size, self.max_message_bytes)
        self.done.append(
            pack_batch(
                section,
                base_offset=0,
                attributes=codec,
                last_offset_delta=self.count - 1,
                base_timestamp=self.base_timestamp,
                max_timestamp=self.max_timestamp,
                record_count=self.count,
                partition_leader_epoch=-1,
            )
        )
        self.size = 0
        self.count = 0
        return 0


def encode_batches(
    keys: object,
    values: object,
    headers: object,
    timestamps: object,
    rows: object,
    codec: int,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    compression_level: int | None = None,
) -> list:
    """Encode the rows of one partition, in the order of `rows`, as batches that Produce accepts (S11).

    `keys` and `values` are BinaryColumns, or None if all are null. `headers` is a HeaderColumn, or None if no record
    has headers. `timestamps` is an int64 buffer in ms. `rows` is an array("q") of indexes into all of these columns
    (for a slice of an Arrow array, add the slice's offset). Each batch has base offset 0 and no producer id. Before
    compression, it is at most `max_batch_bytes` long, unless it consists of one larger record.

    Raises BatchTooLargeError for a record whose compressed batch exceeds `max_message_bytes`, InvalidRecordError for a
    header without a key, IndexError for a row that does not exist, and ValueError for a column with offsets outside its
    data.
    """
    encoder: _Encoder = _Encoder(keys, values, headers)
    times: cython.const[cython.longlong][::1] = memoryview(timestamps).cast("B").cast("q")
    wanted: cython.const[cython.longlong][::1] = rows
    time_count: cython.Py_ssize_t = memoryview(timestamps).nbytes // 8
    i: cython.Py_ssize_t
    row: cython.longlong
    encoder.codec = codec
    encoder.level = compression_level
    encoder.max_message_bytes = max_message_bytes
    # Incompressible data grows by its framing.
    encoder.max_batch_bytes = min(
        max_batch_bytes, max_message_bytes - (max_message_bytes >> 8) - 64
    )
    for i in range(len(rows)):
        row = wanted[i]
        if row < 0 or row >= time_count:
            raise IndexError(f"row {row} does not exist; there are {time_count} rows")
        encoder.add(row, times[row])
    encoder.end_batch()
    return encoder.done


@cython.cfunc
@cython.exceptval(check=False)
def _murmur2(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, length: cython.Py_ssize_t
) -> cython.ulonglong:
    """Return the 32-bit MurmurHash2 of data[at:at + length], with the seed that Kafka's clients use."""
    result: cython.ulonglong = _MURMUR2_SEED ^ length
    word: cython.ulonglong
    end: cython.Py_ssize_t = at + length
    i: cython.Py_ssize_t
    while at + 4 <= end:
        word = 0
        for i in range(4):
            word |= cython.cast(cython.ulonglong, data[at + i]) << (8 * i)
        word = word * _MURMUR2_FACTOR & _UINT32
        word ^= word >> 24
        word = word * _MURMUR2_FACTOR & _UINT32
        result = (result * _MURMUR2_FACTOR & _UINT32) ^ word
        at += 4
    if at < end:
        for i in range(end - at):
            result ^= cython.cast(cython.ulonglong, data[at + i]) << (8 * i)
        result = result * _MURMUR2_FACTOR & _UINT32
    result ^= result >> 13
    result = result * _MURMUR2_FACTOR & _UINT32
    return result ^ (result >> 15)


def murmur2_partitions(keys: object, row_count: int, partition_count: int) -> object:
    """Return the partition that the Java client would choose for each of `row_count` keys, as an array("i").

    The partition is (murmur2(key) & 0x7FFFFFFF) % partition_count, or -1 if the key is null, which leaves the choice to
    the caller. If `keys` is None, all are null. Raises the same errors as `encode_batches` for a bad column.
    """
    column: _Binary = _Binary(keys)
    partitions = array("i", bytes(4 * row_count))
    out: cython.int[::1] = memoryview(partitions)
    count: cython.ulonglong = partition_count
    row: cython.Py_ssize_t
    rows: cython.Py_ssize_t = row_count
    if partition_count < 1:
        raise ValueError(f"a topic cannot have {partition_count} partitions")
    for row in range(rows):
        column.find(row)
        if column.length < 0:
            out[row] = -1
        else:
            out[row] = (_murmur2(column.data, column.at, column.length) & 0x7FFFFFFF) % count
    return partitions
