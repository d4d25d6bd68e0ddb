# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The loops over the slices of a commit: one source, compiled by Cython or interpreted by Python.

A commit can have thousands of slices, and creating message objects for them costs several times as much as deciding it.
So slices are read from the bytes of their messages, and verdicts, recorded slices and deltas are written as bytes,
which protobuf then parses all at once. These are the same bytes that protobuf would write.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

from lacuna.controlplane.shared.batches import (
    BATCH_ROW,
    COMMITTED_BATCH,
    FLAG_ADDS_PARTITION,
    FLAG_FOLLOWS,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRANSACTIONAL,
    TRANSACTIONAL_ID_SHIFT,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import EXTENT_ROW, LARGEST_EXTENT_BYTES
from lacuna.controlplane.shared.history import next_second_ms
from lacuna.controlplane.state.partition import BATCH_NUMBERS, REMEMBERED_BATCHES
from lacuna.controlplane.state.settings import MOST_OF_TRANSACTION
from lacuna.controlplane.state.transactional import LAST_EPOCH
from lacuna.controlplane.state.windows import MINUTE_MS
from lacuna.controlplane.verbs.refusals import MalformedCommand

__all__ = ["decide_slices", "replay_slices"]

if not cython.compiled:

    def number_at(numbers, index):
        return numbers[index]

    def set_last(numbers, value):
        numbers[-1] = value

    def append(numbers, value):
        numbers.append(value)


_LARGEST_EXTENT = cython.declare(cython.longlong, LARGEST_EXTENT_BYTES)
_LAST_SEQUENCE = cython.declare(cython.longlong, 2**31 - 1)
_NO_PRODUCER = cython.declare(cython.longlong, -1)
_LAST_EPOCH = cython.declare(cython.longlong, LAST_EPOCH)
_MOST_OF_TRANSACTION = cython.declare(cython.Py_ssize_t, MOST_OF_TRANSACTION)

_LOG_APPEND_TIME = cython.declare(cython.longlong, FLAG_LOG_APPEND_TIME)
_FOLLOWS = cython.declare(cython.longlong, FLAG_FOLLOWS)
_TRANSACTIONAL = cython.declare(cython.longlong, FLAG_TRANSACTIONAL)
_ADDS_PARTITION = cython.declare(cython.longlong, FLAG_ADDS_PARTITION)
_ID_SHIFT = cython.declare(cython.longlong, TRANSACTIONAL_ID_SHIFT)

_BATCH_SIZE = cython.declare(cython.Py_ssize_t, COMMITTED_BATCH.size)
_EXTENT_SIZE = cython.declare(cython.Py_ssize_t, EXTENT_ROW.size)
_REMEMBERED_SIZE = cython.declare(cython.Py_ssize_t, BATCH_ROW.size)
_NUMBERS = cython.declare(cython.Py_ssize_t, BATCH_NUMBERS)
_MOST_NUMBERS = cython.declare(cython.Py_ssize_t, REMEMBERED_BATCHES * BATCH_NUMBERS)
_MINUTE_MS = cython.declare(cython.longlong, MINUTE_MS)

_FENCED = cython.declare(cython.longlong, int(ErrorCode.INVALID_PRODUCER_EPOCH))
_MAPPING = cython.declare(cython.longlong, int(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
_OUT_OF_ORDER = cython.declare(cython.longlong, int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
_UNKNOWN_PRODUCER = cython.declare(cython.longlong, int(ErrorCode.UNKNOWN_PRODUCER_ID))
_POLICY = cython.declare(cython.longlong, int(ErrorCode.POLICY_VIOLATION))
_TXN_STATE = cython.declare(cython.longlong, int(ErrorCode.INVALID_TXN_STATE))
_UNKNOWN_ID = cython.declare(cython.longlong, int(ErrorCode.UNKNOWN_TOPIC_ID))
_UNKNOWN = cython.declare(cython.longlong, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

#: The tag before a field with a length, and before a number, in a serialized message: its number and its kind.
_BYTES = cython.declare(cython.longlong, 2)
_FIRST_ROOM = cython.declare(cython.Py_ssize_t, 1 << 10)


@cython.final
@cython.cclass
class _Source:
    """The fields of a serialized message, in order. After `next`, `field` has the current field's number.

    A number is in `value`; a field with a length lies in [first, last).
    """

    body: bytes
    data: cython.p_uchar
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    field: cython.longlong
    value: cython.longlong
    first: cython.Py_ssize_t
    last: cython.Py_ssize_t

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0
        self.end = len(body)
        self.field = self.value = 0
        self.first = self.last = 0
        if cython.compiled:
            self.data = body

    @cython.cfunc
    def enter(self, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> cython.void:
        """Continue with the fields of a message that lies in [first, last)."""
        self.at = first
        self.end = last

    @cython.cfunc
    def number(self) -> cython.longlong:
        """Read a varint."""
        value: cython.longlong = 0
        shift: cython.int = 0
        byte: cython.longlong = 128
        while byte & 128:
            if self.at >= self.end or shift > 63:
                raise ValueError("a serialized message is cut short")
            byte = self.data[self.at] if cython.compiled else self.body[self.at]
            self.at += 1
            if byte < 128 and not shift:
                return byte
            value |= (byte & 127) << shift
            shift += 7
        if not cython.compiled and value >= 1 << 63:
            value = (value & (1 << 64) - 1) - (1 << 64)
        return value

    @cython.cfunc
    def next(self) -> cython.bint:
        """Read a field. Return False at the end. Raises ValueError if it is cut short."""
        if self.at >= self.end:
            return False
        key: cython.longlong = self.number()
        kind: cython.longlong = key & 7
        self.field = key >> 3
        size: cython.longlong = 0
        if kind == 0:
            self.value = self.number()
        elif kind == 2:
            size = self.number()
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("a serialized message has a field of an unknown kind")
        if size < 0 or size > self.end - self.at:
            raise ValueError("a serialized message is cut short")
        self.first = self.at
        self.at += size
        self.last = self.at
        return True


@cython.final
@cython.cclass
class _Target:
    """Bytes that grow as they are written, and can be emptied to be used again."""

    buffer: bytearray
    data: cython.p_uchar
    size: cython.Py_ssize_t
    room: cython.Py_ssize_t

    def __init__(self) -> None:
        self.size = self.room = 0
        if cython.compiled:
            self.data = cython.NULL
        else:
            self.buffer = bytearray()

    def __dealloc__(self) -> None:
        PyMem_Free(self.data)  # noqa: F821 - slices.pxd

    @cython.cfunc
    def empty(self) -> cython.void:
        self.size = 0
        if not cython.compiled:
            self.buffer.clear()

    @cython.cfunc
    @cython.exceptval(-1)
    def make_room(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for more bytes; only in the compiled form."""
        if self.size + size > self.room:
            room: cython.Py_ssize_t = 2 * (self.size + size) + _FIRST_ROOM
            grown: cython.p_void = PyMem_Realloc(self.data, room)  # noqa: F821
            if grown == cython.NULL:
                raise MemoryError
            self.room = room
            self.data = cython.cast(cython.p_uchar, grown)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_number(self, value: cython.longlong) -> cython.int:
        """Write a varint."""
        if cython.compiled:
            self.make_room(10)
            left: cython.ulonglong = cython.cast(cython.ulonglong, value)
            while left > 127:
                self.data[self.size] = left & 127 | 128
                self.size += 1
                left >>= 7
            self.data[self.size] = left
            self.size += 1
        else:
            size = len(self.buffer)
            left = value & (1 << 64) - 1
            while left > 127:
                self.buffer.append(left & 127 | 128)
                left >>= 7
            self.buffer.append(left)
            self.size += len(self.buffer) - size
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_signed(self, value: cython.longlong) -> cython.int:
        """Write a number of a repeated sint32 or sint64, whose encoding of -1 is short."""
        return self.put_number((value << 1) ^ (value >> 63))

    @cython.cfunc
    @cython.exceptval(-1)
    def put_field(self, field: cython.longlong, value: cython.longlong) -> cython.int:
        """Write a number field unless it is 0, as protobuf does."""
        if value:
            self.put_number(field << 3)
            self.put_number(value)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_target(self, field: cython.longlong, other: _Target) -> cython.int:
        """Write a field with the bytes of `other`, and empty `other`."""
        self.put_number(field << 3 | _BYTES)
        self.put_number(other.size)
        if cython.compiled:
            self.make_room(other.size)
            memcpy(self.data + self.size, other.data, other.size)  # noqa: F821
        else:
            self.buffer += other.buffer
        self.size += other.size
        other.empty()
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_part(
        self,
        field: cython.longlong,
        source: _Source,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a field whose bytes are those of `source` in [first, last)."""
        self.put_number(field << 3 | _BYTES)
        self.put_number(last - first)
        if cython.compiled:
            self.make_room(last - first)
            memcpy(self.data + self.size, source.data + first, last - first)  # noqa: F821
        else:
            self.buffer += source.body[first:last]
        self.size += last - first
        return 0

    @cython.cfunc
    def written(self) -> bytes:
        if cython.compiled:
            return self.data[: self.size]
        else:  # noqa: RET505
            return bytes(self.buffer)


@cython.final
@cython.cclass
class _Partitions:
    """Finds the partitions named in messages. Neighbours mostly belong to one topic."""

    topics: dict
    source: _Source
    topic_id: bytes
    found: list  # the partitions of that topic, or None if it does not exist

    def __init__(self, topics: dict, source: _Source) -> None:
        self.topics = topics
        self.source = _Source(source.body)
        self.topic_id = b""
        self.found = None

    @cython.cfunc
    def find(self, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> object:
        """Return the partition that the TopicPartition in [first, last) names, or None."""
        source = self.source
        index: cython.longlong = 0
        id_first: cython.Py_ssize_t = 0
        id_last: cython.Py_ssize_t = 0
        source.enter(first, last)
        while source.next():
            if source.field == 1:
                id_first, id_last = source.first, source.last
            elif source.field == 2:
                index = source.value
        if not self._is_last(id_first, id_last):
            self.topic_id = source.body[id_first:id_last]
            topic = self.topics.get(self.topic_id)
            self.found = None if topic is None else topic.partitions
        if self.found is None or index < 0 or index >= len(self.found):
            return None
        return self.found[index]

    @cython.cfunc
    def _is_last(self, first: cython.Py_ssize_t, last: cython.Py_ssize_t) -> cython.bint:
        if last - first != len(self.topic_id) or self.found is None:
            return False
        if cython.compiled:
            last_id: cython.p_uchar = self.topic_id
            return memcmp(self.source.data + first, last_id, last - first) == 0  # noqa: F821
        else:  # noqa: RET505
            return self.source.body[first:last] == self.topic_id


@cython.final
@cython.cclass
class _Extent:
    """The extent that batches are being added to. Its batches share everything after `max_timestamp`."""

    is_open: cython.bint
    position: cython.longlong
    size: cython.longlong
    base_offset: cython.longlong
    max_timestamp: cython.longlong
    producer_id: cython.longlong
    producer_epoch: cython.longlong
    transaction: cython.longlong
    log_append_time: cython.longlong


@cython.final
@cython.cclass
class _Batch:
    """One batch of a commit (lacuna.controlplane.shared.batches.COMMITTED_BATCH), and the decision about it."""

    position: cython.longlong
    size: cython.longlong
    record_count: cython.longlong
    max_timestamp: cython.longlong
    producer_id: cython.longlong
    producer_epoch: cython.longlong
    base_sequence: cython.longlong
    flags: cython.longlong
    last_sequence: cython.longlong
    is_repeated: cython.bint
    base_offset: cython.longlong
    append_time: cython.longlong

    @cython.cfunc
    def read(self, source: _Source, at: cython.Py_ssize_t) -> cython.void:
        if cython.compiled:
            self.position = int64_of(source.data + at)  # noqa: F821
            self.size = cython.cast(cython.int, uint32_of(source.data + at + 8))  # noqa: F821
            self.record_count = cython.cast(cython.int, uint32_of(source.data + at + 12))  # noqa: F821
            self.max_timestamp = int64_of(source.data + at + 16)  # noqa: F821
            self.producer_id = int64_of(source.data + at + 24)  # noqa: F821
            self.producer_epoch = cython.cast(cython.int, uint32_of(source.data + at + 32))  # noqa: F821
            self.base_sequence = cython.cast(cython.int, uint32_of(source.data + at + 36))  # noqa: F821
            self.flags = uint32_of(source.data + at + 40)  # noqa: F821
        else:
            (
                self.position,
                self.size,
                self.record_count,
                self.max_timestamp,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.flags,
            ) = COMMITTED_BATCH.unpack_from(source.body, at)
        self.last_sequence = (self.base_sequence + self.record_count - 1) & _LAST_SEQUENCE
        self.is_repeated = False
        self.base_offset = self.append_time = -1


@cython.final
@cython.cclass
class _Draft:
    """The effects of the slices decided so far. None are applied before all slices are decided."""

    state: object
    producers: dict
    transactional_ids: tuple
    lease_id: cython.longlong
    sequence: cython.longlong
    object_size: cython.longlong
    seen: set
    started: dict  # producer id -> serial number of the transaction that this segment starts (TV2)
    joined: dict  # producer id -> partitions that join its transaction although their batches are rejected (TV2)
    most_added: cython.Py_ssize_t  # no more partitions than that join transactions in this segment
    lacks_room: cython.bint  # there may be no room for so many
    added: dict  # producer id -> partitions that join its transaction, noted where there may be no room
    added_count: cython.Py_ssize_t
    # Neighbours mostly belong to one producer, so the results for the last one are kept:
    checked_id: cython.longlong  # it may write to any partition, in this epoch and with these flags
    checked_epoch: cython.longlong
    checked_flags: cython.longlong
    owner_id: cython.longlong  # it has this transaction
    owned_transaction: cython.longlong
    recorded: _Target  # SegmentRecorded.slices
    verdicts: _Target  # SegmentCommitted.slices
    # Of the slice that is being decided:
    partition: object
    next_offset: cython.longlong
    is_alone: cython.bint  # it has a single batch
    windows: dict  # producer id -> its window after the earlier batches
    transactional: set  # producers with transactional batches
    batch: _Batch
    extent: _Extent
    extent_rows: _Target
    batch_rows: _Target
    codes: _Target
    offsets: _Target
    times: _Target
    message: _Target

    def __init__(
        self,
        state: object,
        lease_id: cython.longlong,
        sequence: cython.longlong,
        object_size: cython.longlong,
        transactional_ids: tuple,
        most_added: cython.Py_ssize_t,
    ) -> None:
        self.state = state
        self.producers = state.producers
        self.transactional_ids = transactional_ids
        self.lease_id = lease_id
        self.sequence = sequence
        self.object_size = object_size
        self.seen = set()
        self.started = {}
        self.joined = {}
        self.most_added = most_added
        self.lacks_room = state.may_lack_room_for_partitions(most_added)
        self.added = {}
        self.added_count = 0
        self.checked_id = self.owner_id = _NO_PRODUCER
        self.checked_epoch = self.checked_flags = self.owned_transaction = 0
        self.recorded = _Target()
        self.verdicts = _Target()
        self.is_alone = False
        self.next_offset = 0
        self.batch = _Batch()
        self.extent = _Extent()
        self.extent_rows = _Target()
        self.batch_rows = _Target()
        self.codes = _Target()
        self.offsets = _Target()
        self.times = _Target()
        self.message = _Target()

    @cython.cfunc
    @cython.exceptval(-1)
    def refuse_slice(self, code: cython.longlong) -> cython.int:
        """Write the verdict on a slice whose partition does not exist."""
        self.message.put_field(1, code)
        self.verdicts.put_target(2, self.message)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def decide_slice(
        self,
        partition: object,
        source: _Source,
        named_first: cython.Py_ssize_t,
        named_last: cython.Py_ssize_t,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> cython.int:
        """Decide the batches in [first, last); the name of their partition is in [named_first, named_last)."""
        if (last - first) % _BATCH_SIZE:
            raise MalformedCommand("the last batch row of a slice is cut short")
        self.partition = partition
        self.next_offset = partition.high_watermark
        self.is_alone = last - first == _BATCH_SIZE
        if not self.is_alone:
            self.windows = {}
            self.transactional = set()
        self.extent.is_open = False
        batch = self.batch
        code: cython.longlong
        while first < last:
            batch.read(source, first)
            code = self.decide_batch(batch)
            self.codes.put_signed(code)
            self.offsets.put_signed(batch.base_offset)
            self.times.put_signed(batch.append_time)
            first += _BATCH_SIZE
        if self.codes.size:
            self.message.put_target(2, self.codes)
            self.message.put_target(3, self.offsets)
            self.message.put_target(4, self.times)
        self.message.put_field(5, partition.log_start_offset)
        self.verdicts.put_target(2, self.message)
        if self.extent.is_open:
            self.close_extent()
            self.message.put_part(1, source, named_first, named_last)
            self.message.put_field(2, self.next_offset)
            self.message.put_target(5, self.extent_rows)
            if self.batch_rows.size:
                self.message.put_target(6, self.batch_rows)
            self.recorded.put_target(3, self.message)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def decide_batch(self, batch: _Batch) -> cython.longlong:
        """Assign the batch its offset and append time, and return 0; or return an error code."""
        if (
            batch.record_count < 1
            or batch.size < 1
            or batch.position < 0
            or self.object_size < batch.size
            or batch.position > self.object_size - batch.size
        ):
            raise MalformedCommand("a batch is empty or lies outside its object")
        log_append_time: cython.longlong = batch.flags & _LOG_APPEND_TIME
        transaction: cython.longlong = 0
        code: cython.longlong
        if batch.producer_id >= 0:
            code = self.check_producer(batch)
            if code or batch.is_repeated:
                return code
            if batch.flags & _TRANSACTIONAL:
                transaction = self.transaction_of(batch.producer_id)
        batch.base_offset = self.next_offset
        if log_append_time:
            batch.append_time = batch.max_timestamp
        if batch.producer_id >= 0:
            if not self.is_alone:
                self.remember(batch)
            self.put_batch(batch)
        self.add_to_extent(batch, transaction, log_append_time)
        self.next_offset += batch.record_count
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def check_producer(self, batch: _Batch) -> cython.longlong:
        """Return an error code, or 0 for a new batch or a repeated one. A repeated batch then has its first answer."""
        code: cython.longlong = self.check_transaction(batch)
        if code:
            return code
        code = self.check_window(batch)
        if code and batch.flags & _TRANSACTIONAL and batch.flags & _ADDS_PARTITION:
            self.join(batch.producer_id)
        return code

    @cython.cfunc
    @cython.exceptval(-1)
    def check_window(self, batch: _Batch) -> cython.longlong:
        """Return an error code if the batch does not follow what its producer has written to this partition (S10)."""
        code: cython.longlong = 0
        producer_id = batch.producer_id
        drafted = None if self.is_alone else self.windows.get(producer_id)
        if drafted is not None:
            code = _check_sequence(drafted[0], drafted[1], batch)
        else:
            window = self.partition.producers.get(producer_id)
            if window is not None:
                code = _check_sequence(window.producer_epoch, window.batches, batch)
            elif batch.flags & (_ADDS_PARTITION | _FOLLOWS) and batch.base_sequence != 0:
                code = self.refuse_unknown(batch)
        if code or batch.is_repeated or batch.flags & _TRANSACTIONAL:
            return code
        if producer_id in self.partition.ongoing or (
            not self.is_alone and producer_id in self.transactional
        ):
            return _TXN_STATE
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def refuse_unknown(self, batch: _Batch) -> cython.longlong:
        """Return the error for a batch that is not its producer's first although no earlier one is known.

        If its window may have expired, a batch that must follow a known one gets a separate error, from which the agent
        concludes that hardly anything is missing.
        """
        if batch.flags & _ADDS_PARTITION:
            return _OUT_OF_ORDER
        is_old = self.state.id_ages.is_old(batch.producer_id, self.state.clock_ms)
        return _UNKNOWN_PRODUCER if is_old else _OUT_OF_ORDER

    @cython.cfunc
    @cython.exceptval(-1)
    def check_transaction(self, batch: _Batch) -> cython.longlong:
        """Return an error code if the producer may not write to this partition (S4, S8), otherwise 0."""
        if (
            batch.producer_id == self.checked_id
            and batch.producer_epoch == self.checked_epoch
            and batch.flags == self.checked_flags
        ):
            return 0
        found = self.producers.get(batch.producer_id)
        if not batch.flags & _TRANSACTIONAL:
            if found is not None and batch.producer_epoch < found.producer_epoch:
                return _FENCED
            return 0
        if found is None or self.names_another(found.transactional_id, batch.flags):
            return self.refuse_unmapped(batch)
        if batch.producer_epoch != found.producer_epoch or batch.producer_epoch == _LAST_EPOCH:
            return _FENCED
        if batch.flags & _ADDS_PARTITION:
            if self.lacks_room or len(found.partitions) + self.most_added > _MOST_OF_TRANSACTION:
                return 0 if self.has_room(found, batch.producer_id) else _POLICY
            self.checked_id = batch.producer_id
            self.checked_epoch = batch.producer_epoch
            self.checked_flags = batch.flags
            return 0
        if found.is_ongoing and self.partition.key in found.partitions:
            return 0
        if not self.is_alone and batch.producer_id in self.transactional:
            return 0
        return _TXN_STATE

    @cython.cfunc
    @cython.exceptval(-1)
    def has_room(self, found: object, producer_id: cython.longlong) -> cython.bint:
        """Whether the partition is in the producer's transaction or can join it, which is noted."""
        key = self.partition.key
        added: dict = self.added.setdefault(producer_id, {})
        if key in found.partitions or key in added:
            return True
        more: cython.Py_ssize_t = len(added) + 1
        if not self.state.has_room_for_partitions(found, more, self.added_count + 1 - more):
            return False
        added[key] = None
        self.added_count += 1
        return True

    @cython.cfunc
    @cython.exceptval(-1)
    def refuse_unmapped(self, batch: _Batch) -> cython.longlong:
        """Return the error for a producer id that is not, or no longer, that of its transactional id.

        As in Kafka, the partition fences it first if it knows a later epoch: that of the end of its last transaction.
        """
        window = self.partition.producers.get(batch.producer_id)
        is_old = window is not None and batch.producer_epoch < window.producer_epoch
        return _FENCED if is_old else _MAPPING

    @cython.cfunc
    @cython.exceptval(-1)
    def names_another(self, transactional_id: str, flags: cython.longlong) -> cython.bint:
        """Whether a batch with these flags was sent under a transactional id other than `transactional_id`."""
        number: cython.longlong = flags >> _ID_SHIFT
        if not number:
            return False
        if number > len(self.transactional_ids):
            raise MalformedCommand("a batch names a transactional id that the commit does not have")
        return self.transactional_ids[number - 1] != transactional_id

    @cython.cfunc
    @cython.exceptval(-1)
    def transaction_of(self, producer_id: cython.longlong) -> cython.longlong:
        """Return the serial number of the producer's transaction, and start one if none is open."""
        if not self.is_alone:
            self.transactional.add(producer_id)
        if producer_id == self.owner_id:
            return self.owned_transaction
        found = self.producers[producer_id]
        serial = found.transaction if found.is_ongoing else self.start(producer_id)
        self.owner_id = producer_id
        self.owned_transaction = serial
        return serial

    @cython.cfunc
    def start(self, producer_id: cython.longlong) -> object:
        """Return the serial number of the transaction that the producer starts in this segment."""
        serial = self.started.get(producer_id)
        if serial is None:
            serial = self.started[producer_id] = self.state.next_transaction + len(self.started)
        return serial

    @cython.cfunc
    @cython.exceptval(-1)
    def join(self, producer_id: cython.longlong) -> cython.int:
        """Let the partition join the transaction, as in Kafka, which checks the batch only afterwards (KIP-890)."""
        found = self.producers[producer_id]
        if not found.is_ongoing:
            self.start(producer_id)
        elif self.partition.key in found.partitions:
            return 0
        self.joined.setdefault(producer_id, {})[self.partition.key] = self.partition.message
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def remember(self, batch: _Batch) -> cython.int:
        """Add a batch to the producer's window, for the next batches of this slice."""
        producer_id = batch.producer_id
        kept = self.windows.get(producer_id)
        if kept is None:
            window = self.partition.producers.get(producer_id)
            if window is not None:
                kept = (window.producer_epoch, window.batches)
        batches = array("q")
        if kept is not None and kept[0] == batch.producer_epoch:
            batches.extend(kept[1][_NUMBERS if len(kept[1]) == _MOST_NUMBERS else 0 :])
        _extend_window(batches, batch)
        self.windows[producer_id] = (batch.producer_epoch, batches)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_batch(self, batch: _Batch) -> cython.int:
        """Add the row by which the idempotence window remembers the batch."""
        rows = self.batch_rows
        if cython.compiled:
            rows.make_room(_REMEMBERED_SIZE)
            to: cython.p_uchar = rows.data + rows.size
            to = put(to, batch.producer_id, 8)  # noqa: F821
            to = put(to, batch.producer_epoch, 4)  # noqa: F821
            to = put(to, batch.base_sequence, 4)  # noqa: F821
            to = put(to, batch.last_sequence, 4)  # noqa: F821
            to = put(to, batch.base_offset, 8)  # noqa: F821
            to = put(to, batch.append_time, 8)  # noqa: F821
            put(to, batch.max_timestamp, 8)  # noqa: F821
        else:
            rows.buffer += BATCH_ROW.pack(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.append_time,
                batch.max_timestamp,
            )
        rows.size += _REMEMBERED_SIZE
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def add_to_extent(
        self, batch: _Batch, transaction: cython.longlong, log_append_time: cython.longlong
    ) -> cython.int:
        """Add the batch to the open extent if both share the required values, are adjacent, and stay small together."""
        extent = self.extent
        producer_id: cython.longlong = batch.producer_id if transaction else _NO_PRODUCER
        producer_epoch: cython.longlong = batch.producer_epoch if transaction else _NO_PRODUCER
        if not (
            extent.is_open
            and extent.producer_id == producer_id
            and extent.producer_epoch == producer_epoch
            and extent.transaction == transaction
            and extent.log_append_time == log_append_time
            and extent.position + extent.size == batch.position
            and extent.size + batch.size <= _LARGEST_EXTENT
        ):
            if extent.is_open:
                self.close_extent()
            extent.is_open = True
            extent.position = batch.position
            extent.size = 0
            extent.base_offset = batch.base_offset
            extent.max_timestamp = -1
            extent.producer_id = producer_id
            extent.producer_epoch = producer_epoch
            extent.transaction = transaction
            extent.log_append_time = log_append_time
        extent.size += batch.size
        if batch.max_timestamp > extent.max_timestamp:
            extent.max_timestamp = batch.max_timestamp
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def close_extent(self) -> cython.int:
        """Add the row of the extent, which ends at the offset where the next batch begins."""
        rows, extent = self.extent_rows, self.extent
        if cython.compiled:
            rows.make_room(_EXTENT_SIZE)
            to: cython.p_uchar = rows.data + rows.size
            to = put(to, self.lease_id, 8)  # noqa: F821
            to = put(to, self.sequence, 8)  # noqa: F821
            to = put(to, extent.position, 8)  # noqa: F821
            to = put(to, extent.size, 4)  # noqa: F821
            to = put(to, extent.base_offset, 8)  # noqa: F821
            to = put(to, self.next_offset, 8)  # noqa: F821
            to = put(to, extent.max_timestamp, 8)  # noqa: F821
            to = put(to, extent.producer_id, 8)  # noqa: F821
            to = put(to, extent.producer_epoch, 2)  # noqa: F821
            to = put(to, extent.transaction, 8)  # noqa: F821
            put(to, extent.log_append_time, 1)  # noqa: F821
        else:
            rows.buffer += EXTENT_ROW.pack(
                self.lease_id,
                self.sequence,
                extent.position,
                extent.size,
                extent.base_offset,
                self.next_offset,
                extent.max_timestamp,
                extent.producer_id,
                extent.producer_epoch,
                extent.transaction,
                extent.log_append_time,
            )
        rows.size += _EXTENT_SIZE
        return 0


@cython.cfunc
@cython.exceptval(-1)
def _check_sequence(
    window_epoch: cython.longlong, batches: object, batch: _Batch
) -> cython.longlong:
    """Check a batch against the window (S10): it must follow the newest batch or repeat one in the window.

    Returns an error code. A repeated batch gets its first answer.
    """
    if batch.producer_epoch < window_epoch:
        return _FENCED
    if batch.producer_epoch > window_epoch:
        return 0 if batch.base_sequence == 0 else _OUT_OF_ORDER
    at: cython.Py_ssize_t = len(batches)
    # Without an earlier batch, sequence 0 is next.
    last_sequence: cython.longlong = number_at(batches, at - _NUMBERS + 1) if at else -1
    if batch.base_sequence == (last_sequence + 1) & _LAST_SEQUENCE:
        return 0
    while at:
        at -= _NUMBERS
        if (
            number_at(batches, at) == batch.base_sequence
            and number_at(batches, at + 1) == batch.last_sequence
        ):
            batch.is_repeated = True
            batch.base_offset = number_at(batches, at + 2)
            batch.append_time = number_at(batches, at + 3)
            return 0
    return _OUT_OF_ORDER


@cython.cfunc
@cython.exceptval(-1)
def _extend_window(batches: object, batch: _Batch) -> cython.int:
    append(batches, batch.base_sequence)
    append(batches, batch.last_sequence)
    append(batches, batch.base_offset)
    append(batches, batch.append_time)
    return 0


def decide_slices(
    state: object,
    slices: bytes,
    lease_id: cython.longlong,
    sequence: cython.longlong,
    object_size: cython.longlong,
    transactional_ids: object,
) -> tuple:
    """Decide the slices of a serialized CommitSegment.

    Return SegmentRecorded.slices and SegmentCommitted.slices, both as bytes; the serial numbers of started transactions
    by producer id; and the partitions of rejected batches that join a transaction, as messages by key by producer id.
    Raises MalformedCommand.
    """
    source = _Source(slices)
    inner = _Source(slices)
    partitions = _Partitions(state.topics, source)
    most_added = len(slices) // _BATCH_SIZE
    draft = _Draft(state, lease_id, sequence, object_size, tuple(transactional_ids), most_added)
    named_first: cython.Py_ssize_t
    named_last: cython.Py_ssize_t
    first: cython.Py_ssize_t
    last: cython.Py_ssize_t
    while source.next():
        if source.field != 3:
            continue
        named_first = named_last = first = last = 0
        inner.enter(source.first, source.last)
        while inner.next():
            if inner.field == 1:
                named_first, named_last = inner.first, inner.last
            elif inner.field == 10:
                first, last = inner.first, inner.last
        partition = partitions.find(named_first, named_last)
        if partition is None:
            draft.refuse_slice(_UNKNOWN_ID if partitions.found is None else _UNKNOWN)
            continue
        if partition in draft.seen:
            raise MalformedCommand(
                "A segment may have only one slice per partition; put its batches together"
            )
        draft.seen.add(partition)
        draft.decide_slice(partition, source, named_first, named_last, first, last)
    return draft.recorded.written(), draft.verdicts.written(), draft.started, draft.joined


@cython.final
@cython.cclass
class _Replay:
    """Applies recorded slices to the state."""

    state: object
    producers: dict
    watched: dict
    now_ms: cython.longlong
    next_second_ms: object
    source: _Source
    extents: cython.Py_ssize_t  # how many were appended
    batch: _Batch
    deltas: _Target  # SessionResponse.partitions
    message: _Target

    def __init__(self, state: object, source: _Source, now_ms: cython.longlong) -> None:
        self.state = state
        self.producers = state.producers
        self.watched = state.watched
        self.now_ms = now_ms
        self.next_second_ms = next_second_ms(now_ms)
        self.source = source
        self.extents = 0
        self.batch = _Batch()
        self.deltas = _Target()
        self.message = _Target()

    @cython.cfunc
    @cython.exceptval(-1)
    def append_extents(
        self, partition: object, first: cython.Py_ssize_t, last: cython.Py_ssize_t
    ) -> cython.int:
        """Append the extents whose rows are in [first, last) to the partition, whose last stable offset may move."""
        settled_ms: cython.longlong = partition.settled_ms
        if self.now_ms >= settled_ms:
            self.note_stable(partition, settled_ms // 1000)
        table = partition.extents
        size: cython.longlong = 0
        while first < last:
            size += self.append_extent(partition, table, first)
            self.extents += 1
            first += _EXTENT_SIZE
        partition.size_bytes += size
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def note_stable(self, partition: object, second: cython.longlong) -> cython.int:
        """Do what Partition.note_stable does. All partitions get the same number, which is then in the CPU's cache."""
        history = partition.history
        offsets = history.offsets
        stable: cython.longlong = (
            partition.last_stable_offset if partition.ongoing else partition.high_watermark
        )
        entries: cython.Py_ssize_t = len(offsets)
        if not entries or number_at(offsets, entries - 1) != stable:
            append(history.seconds, second)
            append(offsets, stable)
            if entries + 1 >= cython.cast(cython.Py_ssize_t, history.most):
                history.thin()
        partition.settled_ms = history.settled_ms = self.next_second_ms
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def append_extent(
        self, partition: object, table: object, at: cython.Py_ssize_t
    ) -> cython.longlong:
        """Append one extent and return its size. Add its offsets to the ranges of its transaction."""
        if cython.compiled:
            row: cython.p_uchar = self.source.data + at
            base_offset: cython.longlong = int64_of(row + 28)  # noqa: F821
            next_offset: cython.longlong = int64_of(row + 36)  # noqa: F821
            size: cython.longlong = cython.cast(cython.int, uint32_of(row + 24))  # noqa: F821
            producer_id: cython.longlong = int64_of(row + 52)  # noqa: F821
            transaction: cython.longlong = int64_of(row + 62)  # noqa: F821
            ends = table.next_offsets
            if len(ends) and base_offset < number_at(ends, len(ends) - 1):
                raise ValueError(
                    f"extent at offset {base_offset} overlaps the end {ends[len(ends) - 1]}"
                )
            append(table.lease_ids, int64_of(row))  # noqa: F821
            append(table.sequences, int64_of(row + 8))  # noqa: F821
            append(table.positions, int64_of(row + 16))  # noqa: F821
            append(table.sizes, size)
            append(table.base_offsets, base_offset)
            append(ends, next_offset)
            append(table.max_timestamps, int64_of(row + 44))  # noqa: F821
            append(table.producer_ids, producer_id)
            append(table.producer_epochs, row[60] | row[61] << 8)
            append(table.transactions, transaction)
            append(table.flags, row[70])
        else:
            values = EXTENT_ROW.unpack_from(self.source.body, at)
            table.append_row(values)
            _, _, _, size, base_offset, next_offset, _, producer_id, _, transaction, _ = values
        if transaction:
            self.add_range(partition, producer_id, base_offset, next_offset)
        return size

    @cython.cfunc
    @cython.exceptval(-1)
    def add_range(
        self,
        partition: object,
        producer_id: object,
        base_offset: cython.longlong,
        next_offset: cython.longlong,
    ) -> cython.int:
        found = self.producers[producer_id]
        partitions: dict = found.partitions
        key = partition.key
        ranges = partitions.get(key)
        if not ranges:
            if ranges is None:
                self.state.charge_partitions(found, 1)
            partitions[key] = array("q", (base_offset, next_offset))
            partition.ongoing[producer_id] = base_offset
        elif number_at(ranges, len(ranges) - 1) == base_offset:
            set_last(ranges, next_offset)
        else:
            append(ranges, base_offset)
            append(ranges, next_offset)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def remember_batches(
        self, partition: object, first: cython.Py_ssize_t, last: cython.Py_ssize_t
    ) -> cython.int:
        """Add the batches whose rows are in [first, last) to the idempotence windows of their producers."""
        producers: dict = partition.producers
        batch = self.batch
        while first < last:
            self.read_batch(batch, first)
            producer_id = batch.producer_id
            window = producers.get(producer_id)
            if window is None:
                window = self.state.windows.open(partition, producer_id, batch.producer_epoch)
            batches = window.batches
            if batch.producer_epoch != cython.cast(cython.longlong, window.producer_epoch):
                window.producer_epoch = batch.producer_epoch
                del batches[:]
            _extend_window(batches, batch)
            if len(batches) > _MOST_NUMBERS:
                del batches[:_NUMBERS]
            window.last_timestamp = batch.max_timestamp
            last_used_ms: cython.longlong = window.last_used_ms
            if last_used_ms // _MINUTE_MS != self.now_ms // _MINUTE_MS:
                self.state.windows.use(window, self.now_ms)
            window.last_used_ms = self.now_ms
            first += _REMEMBERED_SIZE
        return 0

    @cython.cfunc
    def read_batch(self, batch: _Batch, at: cython.Py_ssize_t) -> cython.void:
        if cython.compiled:
            row: cython.p_uchar = self.source.data + at
            batch.producer_id = int64_of(row)  # noqa: F821
            batch.producer_epoch = cython.cast(cython.int, uint32_of(row + 8))  # noqa: F821
            batch.base_sequence = cython.cast(cython.int, uint32_of(row + 12))  # noqa: F821
            batch.last_sequence = cython.cast(cython.int, uint32_of(row + 16))  # noqa: F821
            batch.base_offset = int64_of(row + 20)  # noqa: F821
            batch.append_time = int64_of(row + 28)  # noqa: F821
            batch.max_timestamp = int64_of(row + 36)  # noqa: F821
        else:
            (
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.append_time,
                batch.max_timestamp,
            ) = BATCH_ROW.unpack_from(self.source.body, at)

    @cython.cfunc
    @cython.exceptval(-1)
    def change(
        self,
        partition: object,
        named_first: cython.Py_ssize_t,
        named_last: cython.Py_ssize_t,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> cython.int:
        """Give the partition a new version. If it is watched, write the delta with the extents in [first, last)."""
        version: cython.longlong = partition.version
        partition.version = version + 1
        if not self.watched or partition.key not in self.watched:
            return 0
        message = self.message
        message.put_part(1, self.source, named_first, named_last)
        message.put_field(2, version)
        message.put_field(3, version + 1)
        message.put_field(6, partition.log_start_offset)
        message.put_field(7, partition.high_watermark)
        message.put_field(8, partition.last_stable_offset)
        message.put_part(9, self.source, first, last)
        message.put_field(14, max(partition.vacated_to, partition.compacted_to))
        self.deltas.put_target(1, message)
        return 0


def replay_slices(state: object, slices: bytes, now_ms: cython.longlong) -> tuple:
    """Append the slices of a serialized SegmentRecorded to their partitions, and remember their batches.

    Return the number of extents, and SessionResponse.partitions as bytes: the deltas for watchers. Raises KeyError if a
    partition does not exist, and ValueError if an extent overlaps the previous one.
    """
    source = _Source(slices)
    inner = _Source(slices)
    partitions = _Partitions(state.topics, source)
    replay = _Replay(state, source, now_ms)
    named_first: cython.Py_ssize_t
    named_last: cython.Py_ssize_t
    first: cython.Py_ssize_t
    last: cython.Py_ssize_t
    batches_first: cython.Py_ssize_t
    batches_last: cython.Py_ssize_t
    high_watermark: cython.longlong
    while source.next():
        if source.field != 3:
            continue
        named_first = named_last = first = last = batches_first = batches_last = 0
        high_watermark = 0
        inner.enter(source.first, source.last)
        while inner.next():
            if inner.field == 1:
                named_first, named_last = inner.first, inner.last
            elif inner.field == 2:
                high_watermark = inner.value
            elif inner.field == 5:
                first, last = inner.first, inner.last
            elif inner.field == 6:
                batches_first, batches_last = inner.first, inner.last
        if (last - first) % _EXTENT_SIZE or (batches_last - batches_first) % _REMEMBERED_SIZE:
            raise ValueError("a row of a recorded slice is cut short")
        partition = partitions.find(named_first, named_last)
        if partition is None:
            raise KeyError(slices[named_first:named_last])
        replay.append_extents(partition, first, last)
        partition.high_watermark = high_watermark
        replay.change(partition, named_first, named_last, first, last)
        replay.remember_batches(partition, batches_first, batches_last)
    return replay.extents, replay.deltas.written()
