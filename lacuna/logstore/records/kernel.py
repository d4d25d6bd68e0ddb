# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The loops over batches and records. Cython compiles this module, or Python interprets it.

In compiled form (`python -m lacuna.logstore.records.build_kernel`), the types below are C types and indexing is not
checked, so every position is compared with the end of its buffer before use. In interpreted form, the types are only
hints. `kernel.pyi` declares the types for callers. The constants repeat those of `layout` as C integers.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython
from crc32c import crc32c

from lacuna.logstore.records import layout
from lacuna.logstore.records.errors import CorruptBatchError, InvalidRecordError

if not cython.compiled:
    from lacuna.logstore.records.integers import (
        int16_at,
        int32_at,
        int64_at,
        overflows,
        put_int,
        uint32_at,
    )
    from lacuna.logstore.records.rewriting import batch_size

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_RECORDS_A_TURN = cython.declare(cython.Py_ssize_t, 4096)
_LOG_OVERHEAD = cython.declare(cython.Py_ssize_t, 12)
# Attribute bits of a compressed batch, of LogAppendTime and of a control batch.
_EXTRAORDINARY = cython.declare(cython.int, 0x07 | 0x08 | 0x20)
_TRANSACTIONAL_BIT = cython.declare(cython.int, 0x10)


@cython.final
@cython.cclass
class _Cursor:
    """A position in a records section. Nothing is read beyond `end`."""

    data: cython.const[cython.uchar][::1]
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    # The record being read, for errors.
    index: cython.Py_ssize_t
    # The fields of `layout.RecordTimes`.
    highest: cython.longlong
    lowest: cython.longlong

    def __init__(self, data: object, position: cython.Py_ssize_t) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.index = -1
        self.highest = self.lowest = -1

    @cython.cfunc
    @cython.exceptval(-0x7FFFFFFFFFFFFF01, check=True)
    def varint(self, max_bits: cython.int) -> cython.longlong:
        bits: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.int
        while self.position < self.end:
            byte = self.data[self.position]
            self.position += 1
            # The last byte may only set the remaining bits of max_bits.
            if shift + 7 > max_bits and (byte >> (max_bits - shift)) != 0:
                break
            bits |= cython.cast(cython.ulonglong, byte & 0x7F) << shift
            if byte < 0x80:
                return cython.cast(cython.longlong, bits >> 1) ^ -cython.cast(
                    cython.longlong, bits & 1
                )
            shift += 7
        else:
            raise InvalidRecordError("the records end inside a varint", self.index)
        raise InvalidRecordError(f"a varint is longer than {max_bits} bits", self.index)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def skip_bytes(self, nullable: cython.bint) -> cython.longlong:
        """Read a length and skip that many bytes. Return the length, or -1 for null."""
        length: cython.longlong = self.varint(32)
        if length < 0:
            # Kafka reads every negative length as null, but writes only -1 for it.
            if length != -1 or not nullable:
                raise InvalidRecordError(f"a field has the invalid length {length}", self.index)
            return length
        if length > self.end - self.position:
            raise InvalidRecordError(
                f"a field of {length} bytes does not fit in the record", self.index
            )
        self.position += length
        return length

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter_record(self, section_end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Skip a record's size and attributes. Set `end` to the record's end and return it."""
        self.index += 1
        self.end = section_end
        size: cython.longlong = self.varint(32)
        if size < 1 or size > section_end - self.position:
            raise InvalidRecordError(
                f"its size of {size} bytes does not fit in the batch", self.index
            )
        self.end = self.position + size
        self.position += 1
        return self.end

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def header_count(self) -> cython.longlong:
        count: cython.longlong = self.varint(32)
        if count < 0 or count > self.end - self.position:
            raise InvalidRecordError(f"{count} headers do not fit in the record", self.index)
        return count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def skip_rest(self) -> cython.int:
        """Skip to the end of the record, whose key has been read."""
        self.skip_bytes(True)
        headers: cython.longlong = self.header_count()
        while headers > 0:
            self.skip_bytes(False)
            self.skip_bytes(True)
            headers -= 1
        return self.end_record()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def end_record(self) -> cython.int:
        if self.position != self.end:
            raise InvalidRecordError(
                f"{self.end - self.position} bytes follow its headers", self.index
            )
        return 0


@cython.cfunc
@cython.exceptval(check=False)
def _let_others_run() -> cython.void:
    """Let other threads run. Called now and then, since a batch may have millions of records."""
    with cython.nogil:
        pass


@cython.cfunc
@cython.exceptval(-1, check=False)
def _read_times(
    cursor: _Cursor,
    count: cython.Py_ssize_t,
    base_timestamp: cython.longlong,
    keys: cython.bint,
) -> cython.int:
    section_end: cython.Py_ssize_t = cursor.end
    i: cython.Py_ssize_t
    timestamp: cython.longlong
    for i in range(count):
        if i % _RECORDS_A_TURN == _RECORDS_A_TURN - 1:
            _let_others_run()
        cursor.enter_record(section_end)
        timestamp = cursor.varint(64)
        if overflows(base_timestamp, timestamp):
            raise InvalidRecordError("its timestamp exceeds 64 bits", i)
        timestamp += base_timestamp
        if cursor.varint(32) != i:
            raise InvalidRecordError("its offset delta is not its index in the batch", i)
        if cursor.skip_bytes(True) < 0 and keys:
            raise InvalidRecordError("a compacted topic needs a key in every record", i)
        cursor.skip_rest()
        if timestamp > cursor.highest:
            cursor.highest = timestamp
        if timestamp != -1 and (cursor.lowest == -1 or timestamp < cursor.lowest):
            cursor.lowest = timestamp
    if cursor.position != section_end:
        raise InvalidRecordError(f"{section_end - cursor.position} bytes follow the last record")
    return 0


@cython.ccall
def validate_records(
    section: object, count: cython.Py_ssize_t, base_timestamp: cython.longlong, require_keys: bool
) -> object:
    """Check the uncompressed records section of a produced batch (S11).

    Offset deltas must be 0 to count - 1, sizes must match exactly, and with `require_keys`, no key may be null. Returns
    layout.RecordTimes; raises InvalidRecordError.
    """
    cursor: _Cursor = _Cursor(section, 0)
    _read_times(cursor, count, base_timestamp, require_keys)
    return layout.RecordTimes(cursor.highest, cursor.lowest)


@cython.ccall
def summarize(
    buffer: object,
    max_bytes: cython.Py_ssize_t,
    require_keys: bool,
    earliest: cython.longlong,
    latest: cython.longlong,
) -> object:
    """Return the layout.BatchSummary of an uncompressed batch that a producer may send, or None.

    If it returns None, call `validate.validate_produced`: the batch is compressed or invalid. Accepts a batch of at
    most `max_bytes` with timestamps (ms) from `earliest` to `latest`.
    """
    raw = memoryview(buffer)
    data: cython.const[cython.uchar][::1] = raw
    size: cython.Py_ssize_t = len(raw)
    if size < _HEADER_SIZE or size > max_bytes or data[16] != 2:
        return None
    count: cython.longlong = int32_at(data, 57)
    attributes: cython.int = data[22]
    if (
        int32_at(data, 8) + _LOG_OVERHEAD != size
        or (attributes & _EXTRAORDINARY) != 0
        or int64_at(data, 0) != 0
        or count <= 0
        or int32_at(data, 23) != count - 1
    ):
        return None
    is_transactional: cython.bint = (attributes & _TRANSACTIONAL_BIT) != 0
    producer_id: cython.longlong = int64_at(data, 43)
    producer_epoch: cython.longlong = int16_at(data, 51)
    base_sequence: cython.longlong = int32_at(data, 53)
    if producer_id == -1:
        if is_transactional:
            return None
    elif producer_id < 0 or producer_epoch < 0 or base_sequence < 0:
        return None
    if crc32c(raw[21:]) != uint32_at(data, 17):
        return None
    cursor: _Cursor = _Cursor(raw, _HEADER_SIZE)
    try:
        _read_times(cursor, count, int64_at(data, 27), require_keys)
    except InvalidRecordError:
        return None
    if cursor.lowest != -1 and (cursor.lowest < earliest or cursor.highest > latest):
        return None
    return layout.BatchSummary(
        count,
        cursor.highest,
        int64_at(data, 35),
        producer_id,
        producer_epoch,
        base_sequence,
        layout.Codec.NONE,
        is_transactional,
    )


@cython.ccall
def find_faults(
    section: object,
    count: cython.Py_ssize_t,
    base_timestamp: cython.longlong,
    require_keys: bool,
    earliest: cython.longlong,
    latest: cython.longlong,
) -> object:
    """Find every bad record in a section, whereas `validate_records` stops at the first.

    Timestamps (ms) must lie between `earliest` and `latest`, or be -1. A record with several faults is listed only for
    the first of them. Returns layout.RecordFaults; raises InvalidRecordError if a record cannot be read.
    """
    cursor: _Cursor = _Cursor(section, 0)
    section_end: cython.Py_ssize_t = cursor.end
    i: cython.Py_ssize_t
    timestamp: cython.longlong
    is_misplaced: cython.bint
    is_keyless: cython.bint
    keys: cython.bint = require_keys
    misplaced = array("i")
    keyless = array("i")
    untimely = array("i")
    timestamps = array("q")
    for i in range(count):
        if i % _RECORDS_A_TURN == _RECORDS_A_TURN - 1:
            _let_others_run()
        cursor.enter_record(section_end)
        timestamp = cursor.varint(64)
        if overflows(base_timestamp, timestamp):
            raise InvalidRecordError("its timestamp exceeds 64 bits", i)
        timestamp += base_timestamp
        is_misplaced = cursor.varint(32) != i
        is_keyless = cursor.skip_bytes(True) < 0 and keys
        cursor.skip_rest()
        if is_misplaced:
            misplaced.append(i)
        elif is_keyless:
            keyless.append(i)
        elif timestamp != -1 and (timestamp < earliest or timestamp > latest):
            untimely.append(i)
            timestamps.append(timestamp)
    if cursor.position != section_end:
        raise InvalidRecordError(f"{section_end - cursor.position} bytes follow the last record")
    return layout.RecordFaults(misplaced, keyless, untimely, timestamps)


@cython.cfunc
def _read_bytes(cursor: _Cursor, section: bytes, nullable: cython.bint) -> object:
    length: cython.longlong = cursor.skip_bytes(nullable)
    if length < 0:
        return None
    return section[cursor.position - length : cursor.position]


@cython.ccall
def read_records(section: bytes, count: cython.Py_ssize_t) -> list:
    """Return the records of an uncompressed section as tuples, in order. Raises InvalidRecordError.

    The tuples are (attributes, timestamp_delta, offset_delta, key, value, headers), where headers is a tuple of (key,
    value) pairs. Offset deltas may leave holes, as after compaction.
    """
    cursor: _Cursor = _Cursor(section, 0)
    section_end: cython.Py_ssize_t = cursor.end
    attributes: cython.int
    timestamp_delta: cython.longlong
    offset_delta: cython.longlong
    records: list = []
    headers: list
    for _i in range(count):
        cursor.enter_record(section_end)
        attributes = cursor.data[cursor.position - 1]
        timestamp_delta = cursor.varint(64)
        offset_delta = cursor.varint(32)
        key = _read_bytes(cursor, section, True)
        value = _read_bytes(cursor, section, True)
        headers = []
        for _ in range(cursor.header_count()):
            header_key = _read_bytes(cursor, section, False)
            headers.append((header_key, _read_bytes(cursor, section, True)))
        cursor.end_record()
        records.append((attributes, timestamp_delta, offset_delta, key, value, tuple(headers)))
    if cursor.position != section_end:
        raise InvalidRecordError(f"{section_end - cursor.position} bytes follow the last record")
    return records


@cython.ccall
def walk_and_patch(buffer: object, base_offset: cython.longlong, verify: bool = True) -> object:
    """Check contiguous batches as sent by producers, and set their offsets in place.

    The first batch gets `base_offset`, and each later batch gets the offset that follows the previous one.
    partition_leader_epoch becomes 0 (S6, S20). Returns layout.WalkedBatches. Raises CorruptBatchError or
    TruncatedBatchError with the position in `buffer`. With `verify=False`, checksums are not verified.
    """
    return _walk(buffer, base_offset, True, verify)


@cython.ccall
def walk_stored(buffer: object, base_offset: cython.longlong, verify: bool = True) -> object:
    """Check contiguous batches that already have their offsets, with or without holes.

    The offsets must start at or after `base_offset` and increase strictly. Only partition_leader_epoch is changed, to
    0. Returns and raises the same as `walk_and_patch`.
    """
    return _walk(buffer, base_offset, False, verify)


@cython.cfunc
def _walk(
    buffer: object, base_offset: cython.longlong, assign: cython.bint, verify: cython.bint
) -> object:
    raw = memoryview(buffer)
    data: cython.uchar[::1] = raw
    size: cython.Py_ssize_t = len(raw)
    at: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    while at < size:
        at += batch_size(data, at, size)
        count += 1
    columns = [array("q", bytes(8 * n)) for n in (count + 1, count, count, count)]
    positions: cython.longlong[::1] = memoryview(columns[0])
    base_offsets: cython.longlong[::1] = memoryview(columns[1])
    last_offsets: cython.longlong[::1] = memoryview(columns[2])
    max_timestamps: cython.longlong[::1] = memoryview(columns[3])
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    next_offset: cython.longlong = base_offset
    delta: cython.longlong
    at = 0
    for i in range(count):
        positions[i] = at
        end: cython.Py_ssize_t = at + batch_size(data, at, size)
        if verify:
            _verify(raw, data, at, end)
        if assign:
            put_int(data, at, next_offset, 8)
        else:
            if int64_at(data, at) < next_offset:
                raise CorruptBatchError(f"it begins before offset {next_offset}", at)
            next_offset = int64_at(data, at)
        delta = int32_at(data, at + 23)
        if delta < 0 or overflows(next_offset, delta + 1):
            raise CorruptBatchError(f"its last_offset_delta is {delta}", at)
        for j in range(at + 12, at + 16):
            data[j] = 0
        base_offsets[i] = next_offset
        last_offsets[i] = next_offset + delta
        max_timestamps[i] = int64_at(data, at + 35)
        next_offset += delta + 1
        at = end
    positions[count] = size
    return layout.WalkedBatches(*columns)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _verify(
    raw: object,
    data: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.int:
    stored: cython.longlong = int32_at(data, at + 17) & 0xFFFFFFFF
    computed: cython.longlong = crc32c(raw[at + 21 : end])
    if computed != stored:
        raise CorruptBatchError(
            f"its CRC-32C is {stored:08x}, but its bytes give {computed:08x}", at
        )
    return 0
