# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The loops over the slices of a commit, compiled by Cython or interpreted by Python.

A commit can have thousands of slices, and creating message objects for a slice costs several times as much as deciding
it. So commits, verdicts and journal records hold slices and batches as rows of bytes (`shared.batches`).
"""

from __future__ import annotations

from array import array

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

from lacuna.controlplane.shared.batches import (
    BATCH_ROW,
    BATCH_VERDICT,
    COMMITTED_BATCH,
    COMMITTED_SLICE,
    FLAG_ADDS_PARTITION,
    FLAG_FOLLOWS,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRANSACTIONAL,
    RECORDED_SLICE,
    SLICE_VERDICT,
    TRANSACTIONAL_ID_SHIFT,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import EXTENT_ROW, LARGEST_EXTENT_BYTES
from lacuna.controlplane.shared.history import next_second_ms
from lacuna.controlplane.shared.invariants import InvariantBroken
from lacuna.controlplane.state.partition import BATCH_NUMBERS, REMEMBERED_BATCHES
from lacuna.controlplane.state.settings import MOST_OF_TRANSACTION
from lacuna.controlplane.state.transactional import LAST_EPOCH
from lacuna.controlplane.state.windows import MINUTE_MS
from lacuna.controlplane.v1.control_pb2 import SessionResponse
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

_SLICE_SIZE = cython.declare(cython.Py_ssize_t, COMMITTED_SLICE.size)
_VERDICT_SIZE = cython.declare(cython.Py_ssize_t, SLICE_VERDICT.size)
_BATCH_VERDICT_SIZE = cython.declare(cython.Py_ssize_t, BATCH_VERDICT.size)
_RECORDED_SIZE = cython.declare(cython.Py_ssize_t, RECORDED_SLICE.size)
_ID_SIZE = cython.declare(cython.Py_ssize_t, 16)
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

_FIRST_ROOM = cython.declare(cython.Py_ssize_t, 1 << 10)


@cython.final
@cython.cclass
class _Source:
    body: bytes
    data: cython.p_uchar
    size: cython.Py_ssize_t

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.size = len(body)
        if cython.compiled:
            self.data = body


@cython.final
@cython.cclass
class _Target:
    """Rows being written to a buffer that grows."""

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
    @cython.exceptval(-1)
    def make_room(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for more bytes, in the compiled form only."""
        if self.size + size > self.room:
            room: cython.Py_ssize_t = 2 * (self.size + size) + _FIRST_ROOM
            grown: cython.p_void = PyMem_Realloc(self.data, room)  # noqa: F821
            if grown == cython.NULL:
                raise MemoryError
            self.room = room
            self.data = cython.cast(cython.p_uchar, grown)
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
    """Looks up the partitions that rows name. Adjacent rows usually name the same topic."""

    topics: dict
    source: _Source
    topic_id: bytes
    found: list  # the partitions of that topic, or None if it does not exist
    is_mirror: cython.bint  # whether that topic accepts imported records only

    def __init__(self, topics: dict, source: _Source) -> None:
        self.topics = topics
        self.source = source
        self.topic_id = b""
        self.found = None
        self.is_mirror = False

    @cython.cfunc
    def find(self, at: cython.Py_ssize_t) -> object:
        """Return the partition that the row at `at` names, or None."""
        index: cython.longlong = _signed_at(self.source, at + _ID_SIZE)
        if not self._is_last(at):
            self.topic_id = self.source.body[at : at + _ID_SIZE]
            topic = self.topics.get(self.topic_id)
            self.found = None if topic is None else topic.partitions
            self.is_mirror = topic is not None and topic.mirror_source != ""
        if self.found is None or index < 0 or index >= len(self.found):
            return None
        return self.found[index]

    @cython.cfunc
    def _is_last(self, at: cython.Py_ssize_t) -> cython.bint:
        if self.found is None:
            return False
        if cython.compiled:
            last_id: cython.p_uchar = self.topic_id
            return memcmp(self.source.data + at, last_id, _ID_SIZE) == 0  # noqa: F821
        else:  # noqa: RET505
            return self.source.body[at : at + _ID_SIZE] == self.topic_id


@cython.cfunc
@cython.exceptval(check=False)
def _signed_at(source: _Source, at: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return cython.cast(cython.int, uint32_of(source.data + at))  # noqa: F821
    else:  # noqa: RET505
        return int.from_bytes(source.body[at : at + 4], "little", signed=True)


@cython.cfunc
@cython.exceptval(check=False)
def _count_at(source: _Source, at: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return uint32_of(source.data + at)  # noqa: F821
    else:  # noqa: RET505
        return int.from_bytes(source.body[at : at + 4], "little")


@cython.final
@cython.cclass
class _Extent:
    """The extent that batches are being added to. Its batches have equal values in all fields after `max_timestamp`."""

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
    """A batch of a commit (lacuna.controlplane.shared.batches.COMMITTED_BATCH), and the decision about it."""

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
    """The effects of the slices decided so far. None is applied before all slices are decided."""

    state: object
    producers: dict
    transactional_ids: tuple
    lease_id: cython.longlong
    sequence: cython.longlong
    object_size: cython.longlong
    seen: set
    started: dict  # producer id -> serial number of the transaction that this segment starts (TV2)
    joined: dict  # producer id -> partitions that join its transaction although their batches are rejected (TV2)
    most_added: (
        cython.Py_ssize_t
    )  # an upper bound on the partitions that join transactions in this segment
    lacks_room: cython.bint  # there may be no room for that many partitions
    added: dict  # producer id -> partitions that join its transaction, recorded only if room may be lacking
    added_count: cython.Py_ssize_t
    # Adjacent batches usually belong to the same producer, so the results for the last producer are kept:
    checked_id: (
        cython.longlong
    )  # this producer may write to any partition, in this epoch and with these flags
    checked_epoch: cython.longlong
    checked_flags: cython.longlong
    owner_id: cython.longlong  # the producer of `owned_transaction`
    owned_transaction: cython.longlong
    recorded: _Target  # SegmentRecorded.slices
    extent_rows: _Target
    batch_rows: _Target
    verdicts: _Target  # SegmentCommitted.slices
    batch_verdicts: _Target
    # Of the slice that is being decided:
    partition: object
    next_offset: cython.longlong
    is_alone: cython.bint  # the slice has a single batch
    windows: dict  # producer id -> its window after the earlier batches
    transactional: set  # producers with transactional batches
    batch: _Batch
    extent: _Extent

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
        self.extent_rows = _Target()
        self.batch_rows = _Target()
        self.verdicts = _Target()
        self.batch_verdicts = _Target()
        self.is_alone = False
        self.next_offset = 0
        self.batch = _Batch()
        self.extent = _Extent()

    @cython.cfunc
    @cython.exceptval(-1)
    def decide_slice(
        self,
        partition: object,
        slices: _Source,
        named_at: cython.Py_ssize_t,
        source: _Source,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> cython.int:
        """Decide the batches of `source` in [first, last), for the partition in the row of `slices` at `named_at`."""
        self.partition = partition
        self.next_offset = partition.high_watermark
        self.is_alone = last - first == _BATCH_SIZE
        if not self.is_alone:
            self.windows = {}
            self.transactional = set()
        self.extent.is_open = False
        extents: cython.Py_ssize_t = self.extent_rows.size
        batches: cython.Py_ssize_t = self.batch_rows.size
        self.put_verdict(0, (last - first) // _BATCH_SIZE, partition.log_start_offset)
        batch = self.batch
        while first < last:
            batch.read(source, first)
            self.put_batch_verdict(self.decide_batch(batch), batch)
            first += _BATCH_SIZE
        if self.extent.is_open:
            self.close_extent()
            self.put_recorded(
                slices,
                named_at,
                (self.extent_rows.size - extents) // _EXTENT_SIZE,
                (self.batch_rows.size - batches) // _REMEMBERED_SIZE,
            )
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_verdict(
        self, code: cython.longlong, batches: cython.longlong, log_start_offset: cython.longlong
    ) -> cython.int:
        rows = self.verdicts
        if cython.compiled:
            rows.make_room(_VERDICT_SIZE)
            to: cython.p_uchar = rows.data + rows.size
            to = put(to, code, 2)  # noqa: F821
            to = put(to, batches, 4)  # noqa: F821
            put(to, log_start_offset, 8)  # noqa: F821
        else:
            rows.buffer += SLICE_VERDICT.pack(code, batches, log_start_offset)
        rows.size += _VERDICT_SIZE
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_batch_verdict(self, code: cython.longlong, batch: _Batch) -> cython.int:
        rows = self.batch_verdicts
        if cython.compiled:
            rows.make_room(_BATCH_VERDICT_SIZE)
            to: cython.p_uchar = rows.data + rows.size
            to = put(to, code, 2)  # noqa: F821
            to = put(to, batch.base_offset, 8)  # noqa: F821
            put(to, batch.append_time, 8)  # noqa: F821
        else:
            rows.buffer += BATCH_VERDICT.pack(code, batch.base_offset, batch.append_time)
        rows.size += _BATCH_VERDICT_SIZE
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_recorded(
        self,
        slices: _Source,
        named_at: cython.Py_ssize_t,
        extents: cython.longlong,
        batches: cython.longlong,
    ) -> cython.int:
        rows = self.recorded
        if cython.compiled:
            rows.make_room(_RECORDED_SIZE)
            to: cython.p_uchar = rows.data + rows.size
            memcpy(to, slices.data + named_at, _ID_SIZE + 4)  # noqa: F821
            to = put(to + _ID_SIZE + 4, extents, 4)  # noqa: F821
            to = put(to, batches, 4)  # noqa: F821
            put(to, self.next_offset, 8)  # noqa: F821
        else:
            topic_id, partition, _ = COMMITTED_SLICE.unpack_from(slices.body, named_at)
            rows.buffer += RECORDED_SLICE.pack(
                topic_id, partition, extents, batches, self.next_offset
            )
        rows.size += _RECORDED_SIZE
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def decide_batch(self, batch: _Batch) -> cython.longlong:
        """Assign an offset and append time to the batch and return 0, or return an error code."""
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
        """Return an error code, or 0 for a new or repeated batch. A repeated batch receives its original verdict."""
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
        """Return an error code if the batch does not follow its producer's earlier batches in this partition (S10)."""
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
        """Return the error for a batch that is not its producer's first, although no earlier one is known.

        If the producer's window may have expired, a batch that must follow a known one receives a separate error, which
        tells the agent that few batches, if any, are missing.
        """
        if batch.flags & _ADDS_PARTITION:
            return _OUT_OF_ORDER
        is_old = self.state.id_ages.is_old(batch.producer_id, self.state.clock_ms)
        return _UNKNOWN_PRODUCER if is_old else _OUT_OF_ORDER

    @cython.cfunc
    @cython.exceptval(-1)
    def check_transaction(self, batch: _Batch) -> cython.longlong:
        """Return an error code if the producer may not write to this partition, otherwise 0 (S4, S8)."""
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
        """Whether the partition is in the producer's transaction or can join it; joining is recorded."""
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
        """Return the error for a producer id that is not, or no longer, the current one of its transactional id.

        As in Kafka, the partition first fences the producer if it knows a later epoch, from the end of the producer's
        last transaction.
        """
        window = self.partition.producers.get(batch.producer_id)
        is_old = window is not None and batch.producer_epoch < window.producer_epoch
        return _FENCED if is_old else _MAPPING

    @cython.cfunc
    @cython.exceptval(-1)
    def names_another(self, transactional_id: str, flags: cython.longlong) -> cython.bint:
        """Whether a batch with these flags was sent under a transactional id other than this one."""
        number: cython.longlong = flags >> _ID_SHIFT
        if not number:
            return False
        if number > len(self.transactional_ids):
            raise MalformedCommand("a batch names a transactional id that the commit does not have")
        return self.transactional_ids[number - 1] != transactional_id

    @cython.cfunc
    @cython.exceptval(-1)
    def transaction_of(self, producer_id: cython.longlong) -> cython.longlong:
        """Return the serial number of the producer's transaction, starting one if none is open."""
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
        """Start a transaction for the producer in this segment, and return its serial number."""
        serial = self.started.get(producer_id)
        if serial is None:
            serial = self.started[producer_id] = self.state.next_transaction + len(self.started)
        return serial

    @cython.cfunc
    @cython.exceptval(-1)
    def join(self, producer_id: cython.longlong) -> cython.int:
        """Add the partition to the transaction. As in Kafka, the batch is checked only afterwards (KIP-890)."""
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
        """Add a batch to the producer's window, against which the slice's next batches are checked."""
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
        """Add the row that stores the batch in the idempotence window."""
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
        """Add the batch to the open extent if they share the required values, are adjacent, and are small enough
        together.
        """
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
        """Add the row of the extent, which ends where the next batch begins."""
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
    """Check a batch against the window (S10): it must follow the newest batch, or repeat one.

    Return an error code. A repeated batch receives its original answer.
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
    batches: bytes,
    lease_id: cython.longlong,
    sequence: cython.longlong,
    object_size: cython.longlong,
    transactional_ids: object,
) -> tuple:
    """Decide the slices of a CommitSegment.

    Return the slices, extents and batches of SegmentRecorded; the slices and batches of SegmentCommitted; the serial
    numbers of the transactions that start, by producer id; and the partitions that join a transaction although their
    batches are refused, as messages by producer id and key. Raises MalformedCommand.
    """
    source = _Source(slices)
    rows = _Source(batches)
    if source.size % _SLICE_SIZE or rows.size % _BATCH_SIZE:
        raise MalformedCommand("the last row of a commit's slices or batches is incomplete")
    partitions = _Partitions(state.topics, source)
    most_added = rows.size // _BATCH_SIZE
    draft = _Draft(state, lease_id, sequence, object_size, tuple(transactional_ids), most_added)
    at: cython.Py_ssize_t = 0
    first: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t
    while at < source.size:
        last = first + _count_at(source, at + _ID_SIZE + 4) * _BATCH_SIZE
        if last > rows.size:
            raise MalformedCommand("the slices of a commit claim more batches than it has rows")
        partition = partitions.find(at)
        if partition is None:
            draft.put_verdict(_UNKNOWN_ID if partitions.found is None else _UNKNOWN, 0, 0)
        elif partitions.is_mirror:
            draft.put_verdict(_POLICY, 0, 0)
        elif partition in draft.seen:
            raise MalformedCommand(
                "A segment may have only one slice per partition; put its batches together"
            )
        else:
            draft.seen.add(partition)
            draft.decide_slice(partition, source, at, rows, first, last)
        first = last
        at += _SLICE_SIZE
    if first < rows.size:
        raise MalformedCommand("a commit has more batches than its slices claim")
    return (
        draft.recorded.written(),
        draft.extent_rows.written(),
        draft.batch_rows.written(),
        draft.verdicts.written(),
        draft.batch_verdicts.written(),
        draft.started,
        draft.joined,
    )


@cython.final
@cython.cclass
class _Replay:
    """Applies recorded slices to the state."""

    state: object
    producers: dict
    watched: dict
    changes: list
    add_delta: object  # all deltas of a commit are in one message, to share its memory
    now_ms: cython.longlong
    next_second_ms: object
    extents: _Source
    batches: _Source
    batch: _Batch

    def __init__(
        self, state: object, extents: _Source, batches: _Source, now_ms: cython.longlong
    ) -> None:
        self.state = state
        self.producers = state.producers
        self.watched = state.watched
        self.changes = state.changes
        self.add_delta = SessionResponse().partitions.add
        self.now_ms = now_ms
        self.next_second_ms = next_second_ms(now_ms)
        self.extents = extents
        self.batches = batches
        self.batch = _Batch()

    @cython.cfunc
    @cython.exceptval(-1)
    def append_extents(
        self, partition: object, first: cython.Py_ssize_t, last: cython.Py_ssize_t
    ) -> cython.int:
        """Append the extents with rows in [first, last) to the partition, whose last stable offset may move."""
        settled_ms: cython.longlong = partition.settled_ms
        if self.now_ms >= settled_ms:
            self.note_stable(partition, settled_ms // 1000)
        table = partition.extents
        size: cython.longlong = 0
        while first < last:
            size += self.append_extent(partition, table, first)
            first += _EXTENT_SIZE
        partition.size_bytes += size
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def end_at(self, partition: object, high_watermark: cython.longlong) -> cython.int:
        """Move the high watermark to the end of the last extent. It never goes back."""
        ends = partition.extents.next_offsets
        before: cython.longlong = partition.high_watermark
        if (
            not len(ends)
            or number_at(ends, len(ends) - 1) != high_watermark
            or high_watermark < before
        ):
            raise InvariantBroken(
                f"the high watermark would go from {before} to {high_watermark}, which is not the end of the extents"
            )
        partition.high_watermark = high_watermark
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def change(
        self, partition: object, first: cython.Py_ssize_t, last: cython.Py_ssize_t
    ) -> cython.int:
        """An inlined State.changed, which also adds the extents in [first, last) to the delta.

        Setting the nonzero fields is faster than passing all of them to a constructor.
        """
        version: cython.longlong = partition.version
        partition.version = version + 1
        key: tuple = partition.key
        if key not in self.watched:
            return 0
        delta = self.add_delta()
        self.changes.append(delta)
        named = delta.partition
        named.topic_id, named.partition = key
        delta.from_version = version
        delta.version = version + 1
        log_start_offset = partition.log_start_offset
        if log_start_offset:
            delta.log_start_offset = log_start_offset
        high_watermark = partition.high_watermark
        delta.high_watermark = high_watermark
        delta.last_stable_offset = (
            partition.last_stable_offset if partition.ongoing else high_watermark
        )
        vacated_to = max(partition.vacated_to, partition.compacted_to)
        if vacated_to:
            delta.vacated_to = vacated_to
        delta.appended = self.extents.body[first:last]
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def note_stable(self, partition: object, second: cython.longlong) -> cython.int:
        """An inlined Partition.note_stable. All partitions share one number object, which stays in the CPU's cache."""
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
        """Append one extent, add its offsets to its transaction's ranges, and return its size."""
        if cython.compiled:
            row: cython.p_uchar = self.extents.data + at
            base_offset: cython.longlong = int64_of(row + 28)  # noqa: F821
            next_offset: cython.longlong = int64_of(row + 36)  # noqa: F821
            size: cython.longlong = cython.cast(cython.int, uint32_of(row + 24))  # noqa: F821
            producer_id: cython.longlong = int64_of(row + 52)  # noqa: F821
            transaction: cython.longlong = int64_of(row + 62)  # noqa: F821
            ends = table.next_offsets
            if size < 1 or base_offset >= next_offset:
                raise InvariantBroken(f"the extent at offset {base_offset} is empty")
            if len(ends) and base_offset < number_at(ends, len(ends) - 1):
                raise InvariantBroken(
                    f"the extent at offset {base_offset} overlaps the end {ends[len(ends) - 1]}"
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
            values = EXTENT_ROW.unpack_from(self.extents.body, at)
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
        """Add the batches with rows in [first, last) to their producers' idempotence windows."""
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
            row: cython.p_uchar = self.batches.data + at
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
            ) = BATCH_ROW.unpack_from(self.batches.body, at)


def replay_slices(
    state: object, slices: bytes, extents: bytes, batches: bytes, now_ms: cython.longlong
) -> int:
    """Append the slices of a SegmentRecorded to their partitions, and remember their batches.

    Return the number of extents. Raises KeyError if a partition does not exist, ValueError if a row is missing, and
    InvariantBroken if a slice cannot follow its partition's log.
    """
    source, rows, remembered = _Source(slices), _Source(extents), _Source(batches)
    partitions = _Partitions(state.topics, source)
    replay = _Replay(state, rows, remembered, now_ms)
    at: cython.Py_ssize_t = 0
    first: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t
    batches_first: cython.Py_ssize_t = 0
    batches_last: cython.Py_ssize_t
    if source.size % _RECORDED_SIZE:
        raise ValueError("the last row of the recorded slices is incomplete")
    while at < source.size:
        last = first + _count_at(source, at + _ID_SIZE + 4) * _EXTENT_SIZE
        batches_last = batches_first + _count_at(source, at + _ID_SIZE + 8) * _REMEMBERED_SIZE
        if last > rows.size or batches_last > remembered.size:
            raise ValueError("a recorded slice claims more extents or batches than there are rows")
        partition = partitions.find(at)
        if partition is None:
            raise KeyError(slices[at : at + _ID_SIZE])
        replay.append_extents(partition, first, last)
        replay.end_at(partition, _watermark_at(source, at))
        replay.change(partition, first, last)
        replay.remember_batches(partition, batches_first, batches_last)
        first, batches_first = last, batches_last
        at += _RECORDED_SIZE
    if first < rows.size or batches_first < remembered.size:
        raise ValueError("there are more rows than the recorded slices claim")
    return rows.size // _EXTENT_SIZE


@cython.cfunc
@cython.exceptval(check=False)
def _watermark_at(source: _Source, at: cython.Py_ssize_t) -> cython.longlong:
    if cython.compiled:
        return int64_of(source.data + at + 28)  # noqa: F821
    else:  # noqa: RET505
        return RECORDED_SLICE.unpack_from(source.body, at)[4]
