"""CommitSegment: a verdict for every batch (S1, S4, S10), and the extents of what was accepted."""

from collections.abc import Sequence

from controlplane.batches import (
    COMMITTED_BATCH,
    FLAG_ADDS_PARTITION,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRANSACTIONAL,
    TRANSACTIONAL_ID_SHIFT,
)
from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.extents import EXTENT_ROW
from controlplane.state.partition import (
    BATCH_NUMBERS,
    REMEMBERED_BATCHES,
    Partition,
    PartitionKey,
    key_of,
)
from controlplane.state.refusals import MalformedCommand
from controlplane.state.rows import BATCH_ROW
from controlplane.state.state import State
from controlplane.state.transactional import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.journal_pb2 import JournalRecord, SegmentRecorded
from controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted, SegmentSlice

LARGEST_EXTENT_BYTES = 1 << 20
LAST_SEQUENCE = 2**31 - 1

_NONE = int(ErrorCode.NONE)
_KEPT_NUMBERS = (REMEMBERED_BATCHES - 1) * BATCH_NUMBERS

#: What the batches of an extent have in common: producer id, epoch, transaction, LogAppendTime.
Identity = tuple[int, int, int, int]

#: A producer's window in a partition: its epoch, and the numbers of the batches that it remembers.
Window = tuple[int, Sequence[int]]

#: What a repeated batch is answered: its base offset and append time.
FirstAnswer = tuple[int, int]


def commit_segment(state: State, command: CommitSegment, context: Context) -> Decision:
    """Decides one commit; the same segment again gets the answer that it got."""
    segment = command.segment
    lease = state.leases.get(segment.lease_id)
    if lease is None:
        return _answer(SegmentCommitted(error_code=ErrorCode.LEASE_EXPIRED))
    known = lease.recent.get(segment.sequence)
    if known is not None:
        return _answer(SegmentCommitted.FromString(known))
    key = (segment.lease_id, segment.sequence)
    if segment.sequence <= lease.forgotten_sequence or key in state.segments:
        return _answer(SegmentCommitted(error_code=ErrorCode.INVALID_REQUEST))

    journalled = JournalRecord(now_ms=context.now_ms)
    draft = _SegmentDraft(state, command, journalled.segment_recorded)
    for given in command.slices:
        draft.decide(given)
    reply = Reply(segment_committed=journalled.segment_recorded.verdicts)
    return Decision(records=[journalled], reply=reply)


def _answer(verdicts: SegmentCommitted) -> Decision:
    return Decision(reply=Reply(segment_committed=verdicts))


class _SegmentDraft:
    """What the slices decided so far will do, since nothing is applied before all are decided.

    The record is filled where it lies: building parts and putting them together copies them twice.
    """

    __slots__ = (
        "object_size",
        "record",
        "seen",
        "segment",
        "started",
        "state",
        "transactional_ids",
    )

    def __init__(self, state: State, command: CommitSegment, record: SegmentRecorded) -> None:
        self.state = state
        self.segment = command.segment
        self.object_size = command.object_size
        self.transactional_ids = tuple(command.transactional_ids)
        self.record = record
        self.seen: set[PartitionKey] = set()
        self.started: dict[int, int] = {}  # producer id -> transaction, under TV2
        record.segment.CopyFrom(command.segment)
        record.object_size = command.object_size
        record.verdicts.SetInParent()

    def decide(self, given: SegmentSlice) -> None:
        """Adds the verdicts of one slice, and the slice with its accepted batches, to the record."""
        key = key_of(given.partition)
        partition = self.state.partitions.get(key)
        if partition is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            if key[0] in self.state.topics:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.record.verdicts.slices.add(error_code=code)
            return
        if key in self.seen:
            raise MalformedCommand("a segment has one slice a partition; put its batches together")
        self.seen.add(key)
        _SliceDraft(self, partition).decide(_rows(given))

    def names_another(self, transactional_id: str, flags: int) -> bool:
        """Whether a batch with `flags` was sent under another transactional id than this."""
        number = flags >> TRANSACTIONAL_ID_SHIFT
        if not number:
            return False
        if number > len(self.transactional_ids):
            raise MalformedCommand("a batch names a transactional id that the commit does not have")
        return self.transactional_ids[number - 1] != transactional_id

    def transaction_of(self, producer_id: int) -> int:
        """The serial of the producer's transaction, which starts here if none is open."""
        found = self.state.producers[producer_id]
        if found.is_ongoing:
            return found.transaction
        serial = self.started.get(producer_id)
        if serial is None:
            serial = self.state.next_transaction + len(self.started)
            self.started[producer_id] = serial
            self.record.started_producer_ids.append(producer_id)
            self.record.started_transactions.append(serial)
        return serial


def _rows(given: SegmentSlice) -> list[tuple[int, ...]]:
    """The numbers of each batch, in the order of `_decide_batch`."""
    rows = given.batches
    if len(rows) % COMMITTED_BATCH.size:
        raise MalformedCommand("the batches of a slice are rows, and one of them is cut short")
    return list(COMMITTED_BATCH.iter_unpack(rows))


class _OpenExtent:
    """The extent that batches are being added to."""

    __slots__ = ("base_offset", "identity", "max_timestamp", "position", "size")

    def __init__(self, identity: Identity, position: int, base_offset: int) -> None:
        self.identity = identity
        self.position = position
        self.size = 0
        self.base_offset = base_offset
        self.max_timestamp = -1

    def takes(self, identity: Identity, position: int, size: int) -> bool:
        """Whether a batch can be part of it: one run of bytes of one transaction, not too large."""
        return (
            self.identity == identity
            and self.position + self.size == position
            and self.size + size <= LARGEST_EXTENT_BYTES
        )


class _SliceDraft:
    """One slice while its batches are decided: offsets, windows and extents as they grow."""

    __slots__ = (
        "batch_rows",
        "extent",
        "extent_rows",
        "is_alone",
        "next_offset",
        "partition",
        "segment",
        "transactional",
        "windows",
    )

    def __init__(self, segment: _SegmentDraft, partition: Partition) -> None:
        self.segment = segment
        self.partition = partition
        self.next_offset = partition.high_watermark
        self.windows: dict[int, Window] = {}
        self.transactional: set[int] = set()  # producers with a transaction here since this slice
        self.extent: _OpenExtent | None = None
        self.extent_rows = b""
        self.is_alone = False  # no other batch follows in this slice
        self.batch_rows = b""

    def decide(self, rows: Sequence[tuple[int, ...]]) -> None:
        """The verdict of every batch, in order."""
        self.is_alone = len(rows) == 1
        codes: list[int] = []
        offsets: list[int] = []
        times: list[int] = []
        for row in rows:
            code, base_offset, append_time = self._decide_batch(*row)
            codes.append(code)
            offsets.append(base_offset)
            times.append(append_time)
        record = self.segment.record
        record.verdicts.slices.add(
            error_codes=codes,
            base_offsets=offsets,
            append_times=times,
            log_start_offset=self.partition.log_start_offset,
        )
        if self.extent is not None:
            self._close_extent(self.extent)
            record.slices.add(
                partition=self.partition.message,
                high_watermark=self.next_offset,
                extent_rows=self.extent_rows,
                batch_rows=self.batch_rows,
            )

    def _decide_batch(
        self,
        position: int,
        size: int,
        record_count: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        flags: int,
    ) -> tuple[int, int, int]:
        """(error code, base offset, append time) of one batch."""
        if (
            record_count < 1
            or size < 1
            or position < 0
            or position + size > self.segment.object_size
        ):
            raise MalformedCommand("a batch is empty or lies outside of its object")
        log_append_time = flags & FLAG_LOG_APPEND_TIME
        append_time = max_timestamp if log_append_time else -1
        base_offset = self.next_offset
        identity = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, 0, log_append_time)
        if producer_id >= 0:
            last_sequence = (base_sequence + record_count - 1) & LAST_SEQUENCE
            code, first = self._check_producer(
                producer_id, producer_epoch, base_sequence, last_sequence, flags
            )
            if first is not None:
                return _NONE, *first
            if code:
                return code, -1, -1
            if flags & FLAG_TRANSACTIONAL:
                transaction = self.segment.transaction_of(producer_id)
                self.transactional.add(producer_id)
                identity = (producer_id, producer_epoch, transaction, log_append_time)
            batch = (base_sequence, last_sequence, base_offset, append_time)
            if not self.is_alone:
                self._remember(producer_id, producer_epoch, batch)
            self.batch_rows += BATCH_ROW.pack(producer_id, producer_epoch, *batch, max_timestamp)
        extent = self.extent
        if extent is None or not extent.takes(identity, position, size):
            if extent is not None:
                self._close_extent(extent)
            extent = self.extent = _OpenExtent(identity, position, base_offset)
        self.next_offset = base_offset + record_count
        extent.size += size
        if max_timestamp > extent.max_timestamp:
            extent.max_timestamp = max_timestamp
        return _NONE, base_offset, append_time

    def _check_producer(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        last_sequence: int,
        flags: int,
    ) -> tuple[int, FirstAnswer | None]:
        """An error code, or the answer to the batch that this one repeats, or neither."""
        code = self._check_transaction(producer_id, producer_epoch, flags)
        if code:
            return code, None
        window = self._window(producer_id)
        if window is None:
            misplaced = flags & FLAG_ADDS_PARTITION and base_sequence != 0
            code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if misplaced else _NONE
        else:
            code, first = _check_sequence(window, producer_epoch, base_sequence, last_sequence)
            if first is not None:
                return code, first
        if code or flags & FLAG_TRANSACTIONAL:
            return code, None
        if producer_id in self.partition.ongoing or producer_id in self.transactional:
            return ErrorCode.INVALID_TXN_STATE, None
        return _NONE, None

    def _check_transaction(self, producer_id: int, producer_epoch: int, flags: int) -> int:
        """Whether the coordinator lets the producer write here: S4, S8."""
        found = self.segment.state.producers.get(producer_id)
        if not flags & FLAG_TRANSACTIONAL:
            fenced = found is not None and producer_epoch < found.producer_epoch
            return ErrorCode.INVALID_PRODUCER_EPOCH if fenced else _NONE
        if found is None or self.segment.names_another(found.transactional_id, flags):
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer_epoch != found.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if flags & FLAG_ADDS_PARTITION:
            return _NONE
        is_added = found.is_ongoing and self.partition.key in found.partitions
        return (
            _NONE if is_added or producer_id in self.transactional else ErrorCode.INVALID_TXN_STATE
        )

    def _window(self, producer_id: int) -> Window | None:
        """The producer's window as the batches before this one leave it."""
        drafted = self.windows.get(producer_id)
        if drafted is not None:
            return drafted
        window = self.partition.producers.get(producer_id)
        return None if window is None else (window.producer_epoch, window.batches)

    def _remember(self, producer_id: int, producer_epoch: int, batch: tuple[int, ...]) -> None:
        """The window as the next batch of this slice finds it."""
        window = self._window(producer_id)
        kept: Sequence[int] = ()
        if window is not None and window[0] == producer_epoch:
            kept = window[1][-_KEPT_NUMBERS:]
        self.windows[producer_id] = (producer_epoch, (*kept, *batch))

    def _close_extent(self, extent: _OpenExtent) -> None:
        """The row of the extent, which ends where the next batch begins."""
        segment = self.segment.segment
        producer_id, producer_epoch, transaction, log_append_time = extent.identity
        self.extent_rows += EXTENT_ROW.pack(
            segment.lease_id,
            segment.sequence,
            extent.position,
            extent.size,
            extent.base_offset,
            self.next_offset,
            extent.max_timestamp,
            producer_id,
            producer_epoch,
            transaction,
            log_append_time,
        )


def _check_sequence(
    window: Window, producer_epoch: int, base_sequence: int, last_sequence: int
) -> tuple[int, FirstAnswer | None]:
    """S10: what follows the newest batch, or repeats one of the last."""
    epoch, batches = window
    if producer_epoch < epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH, None
    if producer_epoch > epoch:
        return (_NONE if base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), None
    if base_sequence == (batches[1 - BATCH_NUMBERS] + 1) & LAST_SEQUENCE:
        return _NONE, None
    for at in range(len(batches) - BATCH_NUMBERS, -1, -BATCH_NUMBERS):
        if batches[at] == base_sequence and batches[at + 1] == last_sequence:
            return _NONE, (batches[at + 2], batches[at + 3])
    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None
