# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Converts messages of magic 0 and 1 to records, and records to such messages.

Cython compiles this module, or Python interprets it; `kernel.pyi` declares the types for callers. In compiled form, the
loops run without the interpreter lock. Errors say only that something is wrong; `by_objects`, which is tens of times
slower, then determines the cause.
"""

from __future__ import annotations

from zlib import crc32

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

from lacuna.logstore.records.errors import InvalidRecordError

if not cython.compiled:
    from lacuna.logstore.records.integers import (
        copy,
        int32_at,
        int64_at,
        is_far,
        overflows,
        put_int,
        put_varint,
        varint_size,
    )

# The kinds of entries that `look` finds.
_PLAIN = cython.declare(cython.int, 0)
_WRAPPER = cython.declare(cython.int, 1)
_CUT_OFF = cython.declare(cython.int, 2)
_BAD = cython.declare(cython.int, 3)
_ENTRY_SIZE = cython.declare(cython.Py_ssize_t, 12)
# Positions in an entry, whose offset and size precede the message.
_CRC_AT = cython.declare(cython.Py_ssize_t, 12)
_CRC_END = cython.declare(cython.Py_ssize_t, 16)
_ATTRIBUTES_AT = cython.declare(cython.Py_ssize_t, 17)
_TIMESTAMP_AT = cython.declare(cython.Py_ssize_t, 18)
# An entry without key and value: 14 bytes of message, and in magic 1 a timestamp.
_MIN_ENTRY = cython.declare(cython.Py_ssize_t, 26)
_TIMESTAMP_SIZE = cython.declare(cython.Py_ssize_t, 8)
_LENGTH_SIZE = cython.declare(cython.Py_ssize_t, 4)
_CODEC = cython.declare(cython.int, 0x07)
_LOG_APPEND_TIME = cython.declare(cython.int, 0x08)
_MAX_INT64 = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_UINT32 = cython.declare(cython.longlong, 0xFFFFFFFF)

if cython.compiled:
    lacuna_crc32_prepare()  # noqa: F821 - declared in kernel.pxd


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _crc32(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.longlong:
    if cython.compiled:
        return lacuna_crc32(cython.address(data[at]), end - at)  # noqa: F821 - declared in kernel.pxd
    else:  # noqa: RET505 - only one of the two is compiled
        return crc32(data[at:end])


@cython.final
@cython.cclass
class SectionWriter:
    """Writes messages as the records section of one batch of magic 2 (Produce v0 to v2, S24).

    Offset deltas count from 0, whatever the messages' offsets are. `base_timestamp` is the first message's timestamp,
    and `max_timestamp` is the largest (ms, -1 in magic 0).
    """

    count = cython.declare(cython.longlong, visibility="readonly")
    base_timestamp = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")
    buffer: object
    out: cython.uchar[::1]
    capacity: cython.Py_ssize_t
    size: cython.Py_ssize_t
    # The magic of all messages, or -1 before the first.
    magic: cython.int

    def __init__(self) -> None:
        self.magic = -1
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.capacity = 0
        self.buffer = bytearray()
        self.out = memoryview(self.buffer)
        self.size = 0

    def add(self, message_set: object, position: int, is_inner: bool = False) -> tuple:
        """Add the messages that start at byte `position`. Return where reading stopped, and whether that is at a
        wrapper.

        At a wrapper, the caller must add the inner set, which must not contain wrappers (`is_inner`), and then continue
        after the wrapper. Otherwise, the set has ended, and a truncated last message has been dropped. Raises
        InvalidRecordError for any fault, after which the writer cannot be used.
        """
        data: cython.const[cython.uchar][::1] = message_set
        length: cython.Py_ssize_t = len(message_set)
        at: cython.Py_ssize_t = position
        inside: cython.bint = is_inner
        found: cython.int = 0
        if at < 0:
            raise ValueError(f"position {position} is not in the set")
        self.reserve(length - at)
        with cython.nogil:
            while True:
                found = self.look(data, at, length, inside)
                if found != _PLAIN:
                    break
                if not self.take(data, at):
                    found = _BAD
                    break
                at += _ENTRY_SIZE + int32_at(data, at + 8)
        if found == _BAD:
            raise InvalidRecordError("a message is malformed")
        return at, found == _WRAPPER

    def section(self) -> memoryview:
        """Return a view of the records written so far. Nothing can be added as long as the view exists."""
        return memoryview(self.buffer)[: self.size]

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def reserve(self, needed: cython.Py_ssize_t) -> cython.int:
        """Make room for the records of messages that take up `needed` bytes.

        Records are never larger. Not counting key and value, a message of magic 0 takes up 26 bytes and its record at
        most 23, because all timestamps are equal; in magic 1, they take up 34 and at most 32 bytes.
        """
        if self.size + needed > self.capacity:
            self.capacity = max(self.size + needed, 2 * self.capacity)
            larger = bytearray(self.capacity)
            larger[: self.size] = memoryview(self.buffer)[: self.size]
            self.buffer = larger
            self.out = memoryview(larger)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def look(
        self,
        data: cython.const[cython.uchar][::1],
        at: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        inside: cython.bint,
    ) -> cython.int:
        """Check the entry at `at` and return its kind. `inside` means that it is in a wrapper."""
        size: cython.longlong
        magic: cython.int
        attributes: cython.int
        if length - at < _ENTRY_SIZE:
            return _CUT_OFF
        size = _ENTRY_SIZE + int32_at(data, at + 8)
        if size < _MIN_ENTRY:
            return _BAD
        if size > length - at:
            return _CUT_OFF
        magic = data[at + _CRC_END]
        if magic > 1 or size < _MIN_ENTRY + magic * _TIMESTAMP_SIZE:
            return _BAD
        if _crc32(data, at + _CRC_END, at + size) != (int32_at(data, at + _CRC_AT) & _UINT32):
            return _BAD
        if magic != self.magic and (inside or self.magic >= 0):
            return _BAD
        self.magic = magic
        attributes = data[at + _ATTRIBUTES_AT]
        if inside:
            return _BAD if attributes & _CODEC else _PLAIN
        if magic != 0 and attributes & _LOG_APPEND_TIME:
            return _BAD
        return _WRAPPER if attributes & _CODEC else _PLAIN

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def take(self, data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.bint:
        """Write the message in the complete entry at `at` as a record. Return False if it is malformed."""
        end: cython.Py_ssize_t = at + _ENTRY_SIZE + int32_at(data, at + 8)
        timestamp: cython.longlong = -1
        key_at: cython.Py_ssize_t = at + _TIMESTAMP_AT + _LENGTH_SIZE
        value_at: cython.Py_ssize_t
        key_length: cython.longlong
        value_length: cython.longlong
        if data[at + _CRC_END] != 0:
            timestamp = int64_at(data, at + _TIMESTAMP_AT)
            key_at += _TIMESTAMP_SIZE
        key_length = int32_at(data, key_at - _LENGTH_SIZE)
        if key_length < -1 or key_length > end - key_at - _LENGTH_SIZE:
            return False
        value_at = key_at + max(key_length, 0) + _LENGTH_SIZE
        value_length = int32_at(data, value_at - _LENGTH_SIZE)
        if value_length < -1 or max(value_length, 0) != end - value_at:
            return False
        if self.count == 0:
            self.base_timestamp = timestamp
            self.max_timestamp = timestamp
        if is_far(self.base_timestamp, timestamp):
            return False
        self.put(data, timestamp, key_at, key_length, value_at, value_length)
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put(
        self,
        data: cython.const[cython.uchar][::1],
        timestamp: cython.longlong,
        key_at: cython.Py_ssize_t,
        key_length: cython.longlong,
        value_at: cython.Py_ssize_t,
        value_length: cython.longlong,
    ) -> cython.void:
        delta: cython.longlong = timestamp - self.base_timestamp
        size: cython.longlong = 2 + varint_size(delta) + varint_size(self.count)
        at: cython.Py_ssize_t
        size += varint_size(key_length) + max(key_length, 0)
        size += varint_size(value_length) + max(value_length, 0)
        at = put_varint(self.out, self.size, size)
        self.out[at] = 0
        at = put_varint(self.out, at + 1, delta)
        at = put_varint(self.out, at, self.count)
        at = put_varint(self.out, at, key_length)
        at = copy(self.out, at, data, key_at, key_length)
        at = put_varint(self.out, at, value_length)
        at = copy(self.out, at, data, value_at, value_length)
        self.out[at] = 0
        self.size = at + 1
        self.count += 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp


@cython.final
@cython.cclass
class RecordReader:
    """Checks the records of one batch, and writes them as messages of a set (Fetch v0 to v3, S24).

    `section` must not be compressed. The other arguments come from the batch's header; `append_time` (ms) is None if
    the records have their own timestamps. `left` is the number of records not yet written, and `is_cut` is set if
    `plain` stopped for lack of room. Raises InvalidRecordError if the records contradict the header.
    """

    left = cython.declare(cython.longlong, visibility="readonly")
    is_cut = cython.declare(cython.bint, visibility="readonly")
    data: cython.const[cython.uchar][::1]
    position: cython.Py_ssize_t
    section_end: cython.Py_ssize_t
    base_offset: cython.longlong
    base_timestamp: cython.longlong
    append_time: cython.longlong
    is_append_time: cython.bint
    # The last record read: its end, its fields, and whether they could be read.
    end: cython.Py_ssize_t
    is_bad: cython.bint
    offset_delta: cython.longlong
    timestamp: cython.longlong
    key_at: cython.Py_ssize_t
    key_length: cython.longlong
    value_at: cython.Py_ssize_t
    value_length: cython.longlong
    # The largest timestamp that `write` wrote.
    max_timestamp: cython.longlong

    def __init__(
        self,
        section: bytes,
        *,
        record_count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        self.data = section
        self.position = 0
        self.section_end = len(section)
        self.left = max(record_count, 0)
        self.is_cut = False
        self.base_offset = base_offset
        self.base_timestamp = base_timestamp
        self.is_append_time = append_time is not None
        self.append_time = -1 if append_time is None else append_time
        if not self.is_sound(last_offset_delta):
            raise InvalidRecordError("the records contradict the batch's header")

    def plain(
        self, magic: int, attributes: int, first_offset: int, room: int, may_exceed: bool
    ) -> memoryview:
        """Write the remaining records, except those below `first_offset`, as entries of at most `room` bytes.

        With `may_exceed`, the first entry is written regardless of its size.
        """
        start: cython.Py_ssize_t = self.position
        count: cython.longlong = self.left
        first: cython.longlong = first_offset
        overhead: cython.Py_ssize_t = _MIN_ENTRY + (_TIMESTAMP_SIZE if magic else 0)
        limit: cython.longlong = room
        size: cython.longlong = 0
        entry: cython.longlong
        is_free: cython.bint = may_exceed
        self.is_cut = False
        with cython.nogil:
            while self.left > 0:
                self.read()
                if self.base_offset + self.offset_delta >= first:
                    entry = overhead + max(self.key_length, 0) + max(self.value_length, 0)
                    if size + entry > limit and not is_free:
                        self.is_cut = True
                        break
                    is_free = False
                    size += entry
                self.position = self.end
                self.left -= 1
        count -= self.left
        self.position = start
        return self.write(size, count, magic, attributes, first, 0)

    def inner(self, most: int, magic: int, attributes: int) -> tuple:
        """Write up to `most` of the remaining records as a wrapper's inner set. Return it with the wrapper's offset and
        timestamp.

        The wrapper has the last record's offset and the largest timestamp. In magic 1, inner offsets are relative to
        the first record's.
        """
        start: cython.Py_ssize_t = self.position
        count: cython.longlong = min(self.left, most)
        overhead: cython.Py_ssize_t = _MIN_ENTRY + (_TIMESTAMP_SIZE if magic else 0)
        size: cython.longlong = 0
        base: cython.longlong = 0
        i: cython.longlong
        if count <= 0:
            raise ValueError("no record is left")
        with cython.nogil:
            for i in range(count):
                self.read()
                if i == 0:
                    base = self.base_offset + self.offset_delta
                size += overhead + max(self.key_length, 0) + max(self.value_length, 0)
                self.position = self.end
        self.position = start
        self.left -= count
        entries = self.write(size, count, magic, attributes, 0, base if magic else 0)
        return entries, self.base_offset + self.offset_delta, self.max_timestamp

    @cython.cfunc
    def write(
        self,
        size: cython.Py_ssize_t,
        count: cython.longlong,
        magic: cython.int,
        attributes: cython.int,
        first_offset: cython.longlong,
        base: cython.longlong,
    ) -> object:
        """Write the next `count` records, except those below `first_offset`, into `size` bytes, with offsets relative
        to `base`.
        """
        buffer = bytearray(size)
        out: cython.uchar[::1] = buffer
        at: cython.Py_ssize_t = 0
        offset: cython.longlong
        self.max_timestamp = -_MAX_INT64 - 1
        with cython.nogil:
            for _ in range(count):
                self.read()
                offset = self.base_offset + self.offset_delta
                if offset >= first_offset:
                    at = self.put(out, at, offset - base, magic, attributes)
                self.max_timestamp = max(self.max_timestamp, self.timestamp)
                self.position = self.end
        return memoryview(buffer)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put(
        self,
        out: cython.uchar[::1],
        start: cython.Py_ssize_t,
        offset: cython.longlong,
        magic: cython.int,
        attributes: cython.int,
    ) -> cython.Py_ssize_t:
        """Write the current record as an entry at `start`. Return the position after it."""
        at: cython.Py_ssize_t = start + _TIMESTAMP_AT
        put_int(out, start, offset, 8)
        out[start + _CRC_END] = magic
        out[start + _ATTRIBUTES_AT] = attributes
        if magic != 0:
            put_int(out, at, self.timestamp, 8)
            at += _TIMESTAMP_SIZE
        put_int(out, at, self.key_length, 4)
        at = copy(out, at + _LENGTH_SIZE, self.data, self.key_at, self.key_length)
        put_int(out, at, self.value_length, 4)
        at = copy(out, at + _LENGTH_SIZE, self.data, self.value_at, self.value_length)
        put_int(out, start + 8, at - start - _ENTRY_SIZE, 4)
        put_int(out, start + _CRC_AT, _crc32(out, start + _CRC_END, at), 4)
        return at

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def is_sound(self, last_offset_delta: cython.longlong) -> cython.bint:
        """Whether all records can be read, their offsets ascend, and nothing follows them."""
        last: cython.longlong = -1
        for _ in range(self.left):
            self.read()
            self.pass_headers()
            if self.is_bad or self.position != self.end:
                return False
            if self.offset_delta <= last or self.offset_delta > last_offset_delta:
                return False
            if self.base_offset > _MAX_INT64 - self.offset_delta:
                return False
            if self.base_offset + self.offset_delta < 0:
                return False
            last = self.offset_delta
        if self.position != self.section_end:
            return False
        self.position = 0
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def read(self) -> cython.void:
        """Read the current record up to its headers."""
        size: cython.longlong
        delta: cython.longlong
        self.is_bad = False
        self.end = self.section_end
        size = self.varint(32)
        if size < 1 or size > self.section_end - self.position:
            self.fail()
            return
        self.end = self.position + size
        self.position += 1
        delta = self.varint(64)
        self.offset_delta = self.varint(32)
        self.key_length = self.length(True)
        self.key_at = self.position - max(self.key_length, 0)
        self.value_length = self.length(True)
        self.value_at = self.position - max(self.value_length, 0)
        if self.is_append_time:
            self.timestamp = self.append_time
        elif overflows(self.base_timestamp, delta):
            self.fail()
        else:
            self.timestamp = self.base_timestamp + delta

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def pass_headers(self) -> cython.void:
        count: cython.longlong = self.varint(32)
        if count < 0 or count > self.end - self.position:
            self.fail()
        while count > 0 and not self.is_bad:
            self.length(False)
            self.length(True)
            count -= 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def length(self, nullable: cython.bint) -> cython.longlong:
        """Read a length and skip that many bytes. Return the length, or -1 for null."""
        length: cython.longlong = self.varint(32)
        if length < -1 or (length < 0 and not nullable) or length > self.end - self.position:
            self.fail()
            return -1
        self.position += max(length, 0)
        return length

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
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
        self.fail()
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def fail(self) -> cython.void:
        self.is_bad = True
        self.position = self.end
