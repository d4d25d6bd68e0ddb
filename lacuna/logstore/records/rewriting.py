# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""Makes batches from other batches with the same records: coalesces them, recompresses them, or drops records.

`KeyTable` finds the records to drop from topics that are compacted by key.

Cython compiles this module, or Python interprets it; `rewriting.pyi` declares the types for callers. Checksums are not
verified here, since the input was checked when it was read.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

from lacuna.logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, compress, decompress
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    InvalidRecordError,
    TruncatedBatchError,
)
from lacuna.logstore.records.packing import pack_batch

if not cython.compiled:
    from lacuna.logstore.records.integers import (
        copy,
        int32_at,
        int64_at,
        is_far,
        overflows,
        put_varint,
    )

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_LOG_OVERHEAD = cython.declare(cython.Py_ssize_t, 12)
_CODEC = cython.declare(cython.int, 0x07)
_LOG_APPEND_TIME = cython.declare(cython.int, 0x08)
_CONTROL = cython.declare(cython.int, 0x20)
_DELETE_HORIZON = cython.declare(cython.int, 0x40)
_MAX_INT32 = cython.declare(cython.longlong, 0x7FFFFFFF)
_NO_TIMESTAMP = cython.declare(cython.longlong, -1)
# size (5), attributes (1), timestamp delta (10), offset delta (5)
_MAX_RECORD_HEAD = cython.declare(cython.Py_ssize_t, 21)
# Clearing unused memory would cost more than growing.
_FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 1 << 14)
# For bodies shorter than this, a loop copies faster than a call does.
_SHORT = cython.declare(cython.Py_ssize_t, 16)
_NOTHING = array("q")
# The words of a KeyTable's slot: both halves of the key's hash, and the offset plus one (0 if the slot is free).
_SLOT = cython.declare(cython.Py_ssize_t, 3)
_SLOT_BYTES = 24
_FIRST_SLOTS = 1 << 12
_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.ccall
@cython.exceptval(-1, check=False)
def batch_size(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return the size in bytes of the batch at `at`, which must have magic 2 and end at or before `end`."""
    size: cython.longlong
    if end - at < _LOG_OVERHEAD:
        raise TruncatedBatchError(at, _HEADER_SIZE)
    size = int32_at(data, at + 8) + _LOG_OVERHEAD
    if size < _HEADER_SIZE:
        raise CorruptBatchError(
            f"its batch_length makes it {size} bytes long, shorter than a batch header", at
        )
    if end - at > 16 and data[at + 16] != 2:
        raise CorruptBatchError(f"its magic is {data[at + 16]}, not 2", at)
    if size > end - at:
        raise TruncatedBatchError(at, size)
    return size


@cython.final
@cython.cclass
class _Section:
    data: cython.const[cython.uchar][::1]
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    section_end: cython.Py_ssize_t
    index: cython.longlong
    timestamp_delta: cython.longlong
    offset_delta: cython.longlong
    attributes: cython.int
    key_at: cython.Py_ssize_t
    key_length: cython.longlong

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter(
        self,
        batches: object,
        data: cython.const[cython.uchar][::1],
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        max_decompressed_bytes: cython.Py_ssize_t,
    ) -> cython.int:
        """Move to the records of the batch data[at:end], where `data` is a view of `batches`."""
        codec: cython.int = data[at + 22] & _CODEC
        self.index = -1
        if codec == 0:
            self.data = data
            self.position = at + _HEADER_SIZE
            self.section_end = end
            return 0
        section = memoryview(batches)[at + _HEADER_SIZE : end]
        section = decompress(codec, section, max_decompressed_bytes)
        self.data = section
        self.position = 0
        self.section_end = len(section)
        return 0

    @cython.cfunc
    @cython.exceptval(-0x7FFFFFFFFFFFFF01, check=True)
    def varint(self, max_bits: cython.int) -> cython.longlong:
        bits: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.int
        while self.position < self.end:
            byte = self.data[self.position]
            self.position += 1
            if shift + 7 > max_bits and (byte >> (max_bits - shift)) != 0:
                raise InvalidRecordError(f"a varint is longer than {max_bits} bits", self.index)
            bits |= cython.cast(cython.ulonglong, byte & 0x7F) << shift
            if byte < 0x80:
                return cython.cast(cython.longlong, bits >> 1) ^ -cython.cast(
                    cython.longlong, bits & 1
                )
            shift += 7
        raise InvalidRecordError("the records end inside a varint", self.index)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def next_record(self) -> cython.int:
        """Read a record up to its key, and set `end` to its end."""
        size: cython.longlong
        self.index += 1
        self.end = self.section_end
        size = self.varint(32)
        if size < 1 or size > self.section_end - self.position:
            raise InvalidRecordError(
                f"its size of {size} bytes does not fit in the batch", self.index
            )
        self.end = self.position + size
        self.attributes = self.data[self.position]
        self.position += 1
        self.timestamp_delta = self.varint(64)
        self.offset_delta = self.varint(32)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def is_tombstone(self) -> cython.int:
        """Return 1 if the current record has a null value, otherwise 0. Call this after `next_record`."""
        start: cython.Py_ssize_t = self.position
        length: cython.longlong = self.varint(32)
        if length > self.end - self.position:
            raise InvalidRecordError(
                f"a field of {length} bytes does not fit in the record", self.index
            )
        if length > 0:
            self.position += length
        length = self.varint(32)
        self.position = start
        return length < 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_key(self) -> cython.int:
        """Read the key of the current record, after `next_record`. Return 1 if the value is null, otherwise 0."""
        self.key_length = self.varint(32)
        self.key_at = self.position
        if self.key_length > self.end - self.position:
            raise InvalidRecordError(
                f"a key of {self.key_length} bytes does not fit in the record", self.index
            )
        if self.key_length > 0:
            self.position += self.key_length
        return self.varint(32) < 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def finish(self) -> cython.int:
        if self.position != self.section_end:
            raise InvalidRecordError(
                f"{self.section_end - self.position} bytes follow the last record"
            )
        return 0


@cython.final
@cython.cclass
class Rewriter:
    """Writes the records of stored batches into as few batches as possible (S19).

    Batches must be added in offset order, with true offsets and verified checksums. Holes stay holes: a batch begins at
    its first record and ends at its last. Keys, values, headers and timestamps do not change; producer ids and the
    transactional bit are dropped. A new batch begins if the timestamp type (or the append time) changes, if a delta
    would not fit, and before `max_bytes` (uncompressed, including the header) is exceeded, though a single record may
    exceed it. With `codec` -1, each batch gets the codec of the batch from which its first record comes. A batch larger
    than `max_decompressed_bytes` is not compressed, since readers would refuse to decompress it.

    `keeps_horizons` is for compaction by key (KIP-534): tombstones (records with a null value) keep their batch's
    delete horizon, or get `delete_horizon` (ms, -1 for none) if it has none. The horizon is stored as the batch's
    base_timestamp, so tombstones with different horizons need different batches; other records may be in any batch.
    Without `keeps_horizons`, no batch gets a horizon.
    """

    buffer: object
    out: cython.uchar[::1]
    capacity: cython.Py_ssize_t
    size: cython.Py_ssize_t
    max_bytes: cython.Py_ssize_t
    max_decompressed_bytes: cython.Py_ssize_t
    level: object
    section: _Section
    # -1 means the codec of the batch that the first record comes from.
    codec: cython.int
    batch_codec: cython.int
    takes_first_codec: cython.bint
    keeps_horizons: cython.bint
    delete_horizon: cython.longlong
    # The common properties of the incoming records.
    source_codec: cython.int
    source_horizon: cython.longlong
    timestamp_bit: cython.int
    append_time: cython.longlong
    # The batch being written.
    count: cython.longlong
    base_offset: cython.longlong
    last_offset: cython.longlong
    base_timestamp: cython.longlong
    max_timestamp: cython.longlong
    horizon: cython.longlong
    done: list

    def __init__(
        self,
        *,
        codec: int = -1,
        compression_level: int | None = None,
        max_bytes: int = 1 << 30,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        keeps_horizons: bool = False,
        delete_horizon: int = -1,
    ) -> None:
        self.section = _Section()
        self.codec = codec
        self.batch_codec = 0
        self.takes_first_codec = False
        self.level = compression_level
        self.max_bytes = max_bytes
        self.max_decompressed_bytes = max_decompressed_bytes
        self.keeps_horizons = keeps_horizons
        self.delete_horizon = delete_horizon
        self.capacity = _FIRST_CAPACITY
        self.buffer = bytearray(_FIRST_CAPACITY)
        self.out = memoryview(self.buffer)
        self.size = 0
        self.timestamp_bit = 0
        self.append_time = -1
        self.count = 0
        self.last_offset = -1
        self.horizon = -1
        self.done = []

    def add(self, batches: object, dropped: object = None) -> None:
        """Add the records of complete batches, except those at the offsets in `dropped` (ascending).

        Raises CorruptBatchError, TruncatedBatchError, InvalidRecordError or DecompressedTooLargeError if the bytes are
        not valid batches, and ValueError for a control batch, which cannot be mixed with records.
        """
        data: cython.const[cython.uchar][::1] = batches
        gone: cython.const[cython.longlong][::1] = _NOTHING if dropped is None else dropped
        gone_count: cython.Py_ssize_t = 0 if dropped is None else len(dropped)
        size: cython.Py_ssize_t = len(batches)
        at: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        while at < size:
            end = at + batch_size(data, at, size)
            if data[at + 22] & _CONTROL:
                raise ValueError("a control batch cannot be coalesced; leave it out")
            self.next_source(data, at)
            self.section.enter(batches, data, at, end, self.max_decompressed_bytes)
            self.add_records(
                int32_at(data, at + 57),
                int64_at(data, at),
                int64_at(data, at + 27),
                gone,
                gone_count,
            )
            at = end

    def take(self) -> list:
        """Return the finished batches as bytes. Each batch is returned only once."""
        done = self.done
        self.done = []
        return done

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def next_source(
        self, data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t
    ) -> cython.int:
        """Move to the next source batch, and end the batch being written if their timestamp types or append times
        differ (S19).
        """
        attributes: cython.int = data[at + 22]
        timestamp_bit: cython.int = attributes & _LOG_APPEND_TIME
        append_time: cython.longlong = int64_at(data, at + 35)
        self.source_codec = attributes & _CODEC
        if self.codec < 0 and self.takes_first_codec:
            self.codec = self.source_codec
        self.source_horizon = self.delete_horizon
        if attributes & _DELETE_HORIZON:
            self.source_horizon = int64_at(data, at + 27)
        if timestamp_bit != self.timestamp_bit or (
            timestamp_bit != 0 and append_time != self.append_time
        ):
            self.end_batch()
            self.timestamp_bit = timestamp_bit
            self.append_time = append_time
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_records(
        self,
        count: cython.longlong,
        base_offset: cython.longlong,
        base_timestamp: cython.longlong,
        gone: cython.const[cython.longlong][::1],
        gone_count: cython.Py_ssize_t,
    ) -> cython.int:
        section: _Section = self.section
        i: cython.Py_ssize_t = _first_at(gone, gone_count, base_offset)
        offset: cython.longlong
        for _ in range(count):
            section.next_record()
            if overflows(base_timestamp, section.timestamp_delta) or overflows(
                base_offset, section.offset_delta
            ):
                raise InvalidRecordError("its timestamp or offset exceeds 64 bits", section.index)
            offset = base_offset + section.offset_delta
            while i < gone_count and gone[i] < offset:
                i += 1
            if i == gone_count or gone[i] != offset:
                self.add_record(section, offset, base_timestamp + section.timestamp_delta)
            section.position = section.end
        section.finish()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_record(
        self, section: _Section, offset: cython.longlong, timestamp: cython.longlong
    ) -> cython.int:
        """Append the current record, whose key, value and headers begin at the section's position."""
        length: cython.Py_ssize_t = section.end - section.position
        at: cython.Py_ssize_t
        head: cython.Py_ssize_t
        i: cython.Py_ssize_t
        if offset <= self.last_offset:
            raise CorruptBatchError(f"offset {offset} follows offset {self.last_offset}")
        if self.count > 0 and (
            _HEADER_SIZE + self.size + _MAX_RECORD_HEAD + length > self.max_bytes
            or offset - self.base_offset > _MAX_INT32
            or is_far(self.base_timestamp, timestamp)
        ):
            self.end_batch()
        if self.keeps_horizons and section.is_tombstone():
            self.meet_tombstone(timestamp)
        if self.count == 0:
            self.begin_batch(offset, timestamp)
        if self.size + _MAX_RECORD_HEAD + length > self.capacity:
            self.grow(self.size + _MAX_RECORD_HEAD + length)
        # Leave room for the longest possible size, and write the head after it. Then write the size, whose length is
        # known only now, and move the head up to it.
        at = self.size + 5
        self.out[at] = section.attributes
        head = put_varint(self.out, at + 1, timestamp - self.base_timestamp)
        head = put_varint(self.out, head, offset - self.base_offset)
        self.size = put_varint(self.out, self.size, head - at + length)
        for i in range(head - at):
            self.out[self.size + i] = self.out[at + i]
        self.size += head - at
        self.copy(section, length)
        self.count += 1
        self.last_offset = offset
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def copy(self, section: _Section, length: cython.Py_ssize_t) -> cython.int:
        i: cython.Py_ssize_t
        at: cython.Py_ssize_t = section.position
        if length < _SHORT:
            for i in range(length):
                self.out[self.size + i] = section.data[at + i]
        else:
            copy(self.out, self.size, section.data, at, length)
        self.size += length
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def meet_tombstone(self, timestamp: cython.longlong) -> cython.int:
        """Make sure that the batch being written has the next tombstone's delete horizon."""
        horizon: cython.longlong = self.source_horizon
        if horizon >= 0 and is_far(horizon, timestamp):
            horizon = -1
        if horizon != self.horizon:
            self.end_batch()
            self.horizon = horizon
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def begin_batch(self, offset: cython.longlong, timestamp: cython.longlong) -> cython.int:
        # Keep the horizon of the previous batch, since tombstones often follow each other.
        if self.horizon >= 0 and is_far(self.horizon, timestamp):
            self.horizon = -1
        self.base_offset = offset
        self.base_timestamp = timestamp if self.horizon < 0 else self.horizon
        # -1 if all timestamps are before 1970, which is what producers set.
        self.max_timestamp = max(timestamp, _NO_TIMESTAMP)
        self.batch_codec = self.source_codec if self.codec < 0 else self.codec
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

    @cython.ccall
    def end_batch(self) -> None:
        """End the batch being written, if it has records, so that `take` returns it."""
        attributes: cython.int = self.timestamp_bit
        if self.count == 0:
            return
        if self.horizon >= 0:
            attributes |= _DELETE_HORIZON
        section = memoryview(self.buffer)[: self.size]
        if self.batch_codec != 0 and self.size <= self.max_decompressed_bytes:
            attributes |= self.batch_codec
            section = compress(self.batch_codec, section, self.level)
        self.done.append(
            pack_batch(
                section,
                base_offset=self.base_offset,
                attributes=attributes,
                last_offset_delta=self.last_offset - self.base_offset,
                base_timestamp=self.base_timestamp,
                max_timestamp=self.append_time if self.timestamp_bit else self.max_timestamp,
                record_count=self.count,
            )
        )
        self.size = 0
        self.count = 0


@cython.cfunc
@cython.exceptval(check=False)
def _first_at(
    offsets: cython.const[cython.longlong][::1], count: cython.Py_ssize_t, offset: cython.longlong
) -> cython.Py_ssize_t:
    low: cython.Py_ssize_t = 0
    middle: cython.Py_ssize_t
    while low < count:
        middle = (low + count) // 2
        if offsets[middle] < offset:
            low = middle + 1
        else:
            count = middle
    return low


def coalesce(
    chunks: object,
    codec: int = -1,
    max_bytes: int = 1 << 30,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list:
    """Merge batches, regardless of their producers, into as few as possible (S19). Return a list of batches as bytes.

    `chunks` are buffers of one or more complete batches. See Rewriter for what is kept and where batches end. The
    delete horizon bit is dropped. `codec` -1 means the first batch's codec. Raises the same errors as `Rewriter.add`.
    """
    rewriter: Rewriter = Rewriter(
        codec=codec, max_bytes=max_bytes, max_decompressed_bytes=max_decompressed_bytes
    )
    rewriter.takes_first_codec = True
    for chunk in chunks:
        rewriter.add(chunk)
    rewriter.end_batch()
    return rewriter.take()


def has_tombstones(batch: object) -> bool:
    """Whether any record in a complete batch has a null value. Raises the same errors as `Rewriter.add`."""
    data: cython.const[cython.uchar][::1] = batch
    size: cython.Py_ssize_t = batch_size(data, 0, len(batch))
    section: _Section = _Section()
    section.enter(batch, data, 0, size, DEFAULT_MAX_DECOMPRESSED_BYTES)
    for _ in range(int32_at(data, 57)):
        section.next_record()
        if section.is_tombstone():
            return True
        section.position = section.end
    section.finish()
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _turned(word: cython.ulonglong, bits: cython.int) -> cython.ulonglong:
    return ((word << bits) & _MASK) | (word >> (64 - bits))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _slot_of(
    slots: cython.ulonglong[::1],
    count: cython.Py_ssize_t,
    high: cython.ulonglong,
    low: cython.ulonglong,
) -> cython.Py_ssize_t:
    """Return the index of a hash's slot, or of the free slot where it belongs. At least one slot must be free."""
    at: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, high % count) * _SLOT
    while slots[at + 2] != 0 and (slots[at] != high or slots[at + 1] != low):
        at += _SLOT
        if at == count * _SLOT:
            at = 0
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _move_slots(
    slots: cython.ulonglong[::1],
    count: cython.Py_ssize_t,
    larger: cython.ulonglong[::1],
    larger_count: cython.Py_ssize_t,
) -> cython.int:
    index: cython.Py_ssize_t
    at: cython.Py_ssize_t
    to: cython.Py_ssize_t
    for index in range(count):
        at = index * _SLOT
        if slots[at + 2] != 0:
            to = _slot_of(larger, larger_count, slots[at], slots[at + 1])
            larger[to] = slots[at]
            larger[to + 1] = slots[at + 1]
            larger[to + 2] = slots[at + 2]
    return 0


@cython.final
@cython.cclass
class KeyTable:
    """The newest offset of each key, for compaction by key. Stores hashes instead of keys, in bounded memory.

    Call `note` for batches in offset order, and then `sweep` to get the records to drop. The hash is SipHash-2-4 with
    128 bits. It is keyed with `secret`, 16 random bytes, so that clients cannot choose colliding keys. An accidental
    collision, which would lose a record, has a probability of 1e-24 among ten million keys.

    The table grows up to `max_bytes`, at least two thirds of which hold slots of 24 bytes. At most three quarters of
    the slots are used. Growing briefly needs a second table; both tables together stay within `max_bytes`.
    """

    # The number of different keys.
    keys = cython.declare(cython.Py_ssize_t, visibility="readonly")
    # The number of superseded records that `sweep` has returned, and of tombstones past their delete horizon.
    superseded = cython.declare(cython.longlong, visibility="readonly")
    tombstones = cython.declare(cython.longlong, visibility="readonly")
    # The latest delete horizon (ms) of the tombstones that `sweep` has left, or 0 if none has one.
    last_horizon = cython.declare(cython.longlong, visibility="readonly")
    slots: cython.ulonglong[::1]
    slot_count: cython.Py_ssize_t
    max_bytes: cython.Py_ssize_t
    secret_low: cython.ulonglong
    secret_high: cython.ulonglong
    high: cython.ulonglong
    low: cython.ulonglong
    section: _Section
    found_new: cython.bint

    def __init__(self, max_bytes: int, secret: bytes) -> None:
        if len(secret) != 16:
            raise ValueError(f"the secret has {len(secret)} bytes instead of 16")
        self.max_bytes = max_bytes
        self.secret_low = int.from_bytes(secret[:8], "little")
        self.secret_high = int.from_bytes(secret[8:], "little")
        self.slot_count = _FIRST_SLOTS
        self.slots = _empty_slots(_FIRST_SLOTS)
        self.keys = 0
        self.section = _Section()
        self.superseded = 0
        self.tombstones = 0
        self.last_horizon = 0
        self.found_new = False

    @property
    def size_bytes(self) -> int:
        """The number of bytes that the table currently takes up."""
        return self.slot_count * _SLOT_BYTES

    def note(
        self, batch: object, first_offset: cython.longlong, end_offset: cython.longlong
    ) -> cython.longlong:
        """Note the keys of one batch's records with offsets in [first_offset, end_offset), if any.

        Return -1 if all are noted, or the offset of the first record that was not noted because the table is full. The
        offsets must be higher than all noted before. Raises the same errors as `Rewriter.add`.
        """
        data: cython.const[cython.uchar][::1] = batch
        section: _Section = self.section
        base_offset: cython.longlong = self.enter(batch, data)
        offset: cython.longlong
        at: cython.Py_ssize_t
        for _ in range(int32_at(data, 57)):
            section.next_record()
            offset = self.offset_of(base_offset)
            if offset >= end_offset:
                return -1
            section.read_key()
            if offset >= first_offset and section.key_length >= 0:
                self.hash_key()
                at = _slot_of(self.slots, self.slot_count, self.high, self.low)
                if self.slots[at + 2] == 0:
                    if 4 * (self.keys + 1) > 3 * self.slot_count:
                        if not self.grow():
                            return offset
                        at = _slot_of(self.slots, self.slot_count, self.high, self.low)
                    self.slots[at] = self.high
                    self.slots[at + 1] = self.low
                    self.keys += 1
                self.slots[at + 2] = offset + 1
            section.position = section.end
        section.finish()
        return -1

    def sweep(
        self, batch: object, now_ms: cython.longlong, drops_tombstones: cython.bint
    ) -> object:
        """Return the offsets of the records to drop from one batch, in ascending order, as an array("q").

        A record is dropped if a later record with its key has been noted. With `drops_tombstones`, a tombstone is also
        dropped if its delete horizon is at or before `now_ms`; set this only if no older record with its key remains.
        Raises the same errors as `Rewriter.add`.
        """
        data: cython.const[cython.uchar][::1] = batch
        section: _Section = self.section
        base_offset: cython.longlong = self.enter(batch, data)
        horizon: cython.longlong = -1
        offset: cython.longlong
        is_tombstone: cython.bint
        at: cython.Py_ssize_t
        dropped = array("q")
        if data[22] & _DELETE_HORIZON:
            horizon = int64_at(data, 27)
        for _ in range(int32_at(data, 57)):
            section.next_record()
            offset = self.offset_of(base_offset)
            is_tombstone = section.read_key()
            if section.key_length >= 0:
                self.hash_key()
                at = _slot_of(self.slots, self.slot_count, self.high, self.low)
                if self.slots[at + 2] > cython.cast(cython.ulonglong, offset) + 1:
                    self.superseded += 1
                    dropped.append(offset)
                elif is_tombstone and drops_tombstones and 0 <= horizon <= now_ms:
                    self.tombstones += 1
                    dropped.append(offset)
                elif is_tombstone and horizon >= 0:
                    self.last_horizon = max(self.last_horizon, horizon)
                elif is_tombstone:
                    self.found_new = True
            section.position = section.end
        section.finish()
        return dropped

    def take_new(self) -> bool:
        """Return whether `sweep` has left a tombstone without a delete horizon since the last call of this method."""
        found: bool = self.found_new
        self.found_new = False
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def enter(self, batch: object, data: cython.const[cython.uchar][::1]) -> cython.longlong:
        """Move to the records of one batch. Return the batch's base offset."""
        size: cython.Py_ssize_t = batch_size(data, 0, len(batch))
        if data[22] & _CONTROL:
            raise ValueError("a control batch has no keys; leave it out")
        self.section.enter(batch, data, 0, size, DEFAULT_MAX_DECOMPRESSED_BYTES)
        return int64_at(data, 0)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def offset_of(self, base_offset: cython.longlong) -> cython.longlong:
        section: _Section = self.section
        if section.offset_delta < 0 or overflows(base_offset, section.offset_delta):
            raise InvalidRecordError(
                f"its offset delta {section.offset_delta} is negative or too large", section.index
            )
        return base_offset + section.offset_delta

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def grow(self) -> cython.int:
        """Grow the table. Return 0 if it must not grow further, otherwise 1."""
        count: cython.Py_ssize_t = 2 * self.slot_count
        most: cython.Py_ssize_t = self.max_bytes // _SLOT_BYTES
        if 3 * count > most:
            count = most - self.slot_count
        if count <= self.slot_count:
            return 0
        larger = _empty_slots(count)
        new: cython.ulonglong[::1] = larger
        old: cython.ulonglong[::1] = self.slots
        old_count: cython.Py_ssize_t = self.slot_count
        with cython.nogil:
            _move_slots(old, old_count, new, count)
        self.slots = larger
        self.slot_count = count
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def hash_key(self) -> cython.int:
        """Set `high` and `low` to the hash of the section's current key (SipHash-2-4 with 128 bits of output)."""
        data: cython.const[cython.uchar][::1] = self.section.data
        at: cython.Py_ssize_t = self.section.key_at
        length: cython.Py_ssize_t = self.section.key_length
        end: cython.Py_ssize_t = at + length
        word: cython.ulonglong
        v0: cython.ulonglong = self.secret_low ^ 0x736F6D6570736575
        v1: cython.ulonglong = self.secret_high ^ 0x646F72616E646F6D ^ 0xEE
        v2: cython.ulonglong = self.secret_low ^ 0x6C7967656E657261
        v3: cython.ulonglong = self.secret_high ^ 0x7465646279746573
        step: cython.int
        i: cython.Py_ssize_t
        rounds: cython.int
        is_last: cython.bint = False
        # Whole words, then the rest with the length (2 rounds each), then the two halves of the result (4 rounds each).
        self.high = 0
        step = 0
        while step < 3:
            word = 0
            rounds = 4
            if step == 0:
                rounds = 2
                is_last = end - at < 8
                for i in range(end - at if is_last else 8):
                    word |= cython.cast(cython.ulonglong, data[at + i]) << (8 * i)
                at += 8
                if is_last:
                    word |= cython.cast(cython.ulonglong, length & 0xFF) << 56
                    step = 1
                v3 ^= word
            elif step == 1:
                v2 ^= 0xEE
                step = 2
            else:
                v1 ^= 0xDD
                step = 3
            for _ in range(rounds):
                v0 = (v0 + v1) & _MASK
                v2 = (v2 + v3) & _MASK
                v1 = _turned(v1, 13) ^ v0
                v3 = _turned(v3, 16) ^ v2
                v0 = _turned(v0, 32)
                v2 = (v2 + v1) & _MASK
                v0 = (v0 + v3) & _MASK
                v1 = _turned(v1, 17) ^ v2
                v3 = _turned(v3, 21) ^ v0
                v2 = _turned(v2, 32)
            if rounds == 2:
                v0 ^= word
            elif step == 2:
                self.low = v0 ^ v1 ^ v2 ^ v3
            else:
                self.high = v0 ^ v1 ^ v2 ^ v3
        return 0


def _empty_slots(count: int) -> memoryview:
    """Return memory for `count` free slots. Pages become resident only when written to."""
    return memoryview(bytearray(count * _SLOT_BYTES)).cast("Q")
