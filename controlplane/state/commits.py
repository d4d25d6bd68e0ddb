"""CommitSegment: a verdict for every batch (S1, S4, S10), and the extents of what was accepted."""

from operator import attrgetter

from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.extents import FLAG_LOG_APPEND_TIME
from controlplane.state.partition import (
    REMEMBERED_BATCHES,
    Partition,
    PartitionKey,
    RememberedBatch,
    key_of,
)
from controlplane.state.refusals import MalformedCommand
from controlplane.state.state import State
from controlplane.state.transactional import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.journal_pb2 import JournalRecord, RecordedSlice, SegmentRecorded
from controlplane.v1.log_pb2 import (
    CommitSegment,
    SegmentCommitted,
    SegmentSlice,
    SliceVerdict,
)

FLAG_TRANSACTIONAL = 4
FLAG_ADDS_PARTITION = 8
TRANSACTIONAL_ID_SHIFT = 4

LARGEST_EXTENT_BYTES = 1 << 20
LAST_SEQUENCE = 2**31 - 1

_NONE = int(ErrorCode.NONE)

#: The columns that say what a batch is, in the order of `_decide_batch`.
_columns_of = attrgetter(
    "batch_positions",
    "batch_sizes",
    "record_counts",
    "max_timestamps",
    "producer_ids",
    "producer_epochs",
    "base_sequences",
    "batch_flags",
)

#: What the batches of an extent have in common: producer id, epoch, transaction, LogAppendTime.
Identity = tuple[int, int, int, int]

#: producer id -> (epoch, its remembered batches)
Windows = dict[int, tuple[int, list[RememberedBatch]]]


def commit_segment(state: State, command: CommitSegment, context: Context) -> Decision:
    """Decides one commit; the same segment again gets the answer that it got."""
    segment = command.segment
    lease = state.leases.get(segment.lease_id)
    if lease is None:
        return _answer(SegmentCommitted(error_code=ErrorCode.LEASE_EXPIRED))
    known = lease.recent.get(segment.sequence)
    if known is not None:
        return _answer(known)
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
        verdict = self.record.verdicts.slices.add()
        partition = self.state.partitions.get(key)
        if partition is None:
            known = key[0] in self.state.topics
            verdict.error_code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.UNKNOWN_TOPIC_ID
            )
            return
        if key in self.seen:
            raise MalformedCommand("a segment has one slice a partition; put its batches together")
        self.seen.add(key)
        _SliceDraft(self, partition, given.partition, verdict).decide(given)

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


class _OpenExtent:
    """The extent that batches are being added to."""

    __slots__ = (
        "base_offset",
        "identity",
        "max_timestamp",
        "next_offset",
        "position",
        "size",
    )

    def __init__(self, identity: Identity, position: int, base_offset: int) -> None:
        self.identity = identity
        self.position = position
        self.size = 0
        self.base_offset = base_offset
        self.next_offset = base_offset
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
        "message",
        "next_offset",
        "open",
        "partition",
        "recorded",
        "segment",
        "transactional",
        "verdict",
        "windows",
    )

    def __init__(
        self,
        segment: _SegmentDraft,
        partition: Partition,
        message: TopicPartition,
        verdict: SliceVerdict,
    ) -> None:
        self.segment = segment
        self.partition = partition
        self.message = message
        self.verdict = verdict
        self.next_offset = partition.high_watermark
        self.windows: Windows = {}
        self.transactional: set[int] = set()  # producers with a transaction here since this slice
        self.open: _OpenExtent | None = None
        self.recorded: RecordedSlice | None = None

    def decide(self, given: SegmentSlice) -> None:
        """The verdict of every batch, in order."""
        verdict = self.verdict
        verdict.log_start_offset = self.partition.log_start_offset
        columns = _columns_of(given)
        codes, offsets, times = verdict.error_codes, verdict.base_offsets, verdict.append_times
        try:
            for row in zip(*columns, strict=True):
                code, base_offset, append_time = self._decide_batch(*row)
                codes.append(code)
                offsets.append(base_offset)
                times.append(append_time)
        except ValueError as error:
            raise MalformedCommand("the columns of a slice differ in length") from error
        if self.recorded is not None:
            self._close_extent(self.recorded)
            self.recorded.high_watermark = self.next_offset

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
        end = position + size
        if record_count < 1 or size < 1 or position < 0 or end > self.segment.object_size:
            raise MalformedCommand("a batch is empty or lies outside of its object")
        append_time = max_timestamp if flags & FLAG_LOG_APPEND_TIME else -1
        transaction = 0
        if producer_id >= 0:
            last_sequence = (base_sequence + record_count - 1) & LAST_SEQUENCE
            code, first = self._check_producer(
                producer_id, producer_epoch, base_sequence, last_sequence, flags
            )
            if first is not None:
                return _NONE, first.base_offset, first.append_time
            if code:
                return code, -1, -1
            if flags & FLAG_TRANSACTIONAL:
                transaction = self.segment.transaction_of(producer_id)
                self.transactional.add(producer_id)
        if self.recorded is None:
            self.recorded = self.segment.record.slices.add(partition=self.message)
        base_offset = self.next_offset
        if producer_id >= 0:
            batch = RememberedBatch(base_sequence, last_sequence, base_offset, append_time)
            self._remember(producer_id, producer_epoch, batch)
            row = (producer_id, producer_epoch, *batch, max_timestamp)
            self.recorded.producer_batches.extend(row)
        log_append_time = flags & FLAG_LOG_APPEND_TIME
        identity = (
            (producer_id, producer_epoch, transaction, log_append_time)
            if transaction
            else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, 0, log_append_time)
        )
        extent = self._open_extent(self.recorded, identity, position, size)
        self.next_offset = base_offset + record_count
        extent.size += size
        extent.next_offset = self.next_offset
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
    ) -> tuple[int, RememberedBatch | None]:
        """An error code, or the batch that this one repeats, or neither."""
        code = self._check_transaction(producer_id, producer_epoch, flags)
        if code:
            return code, None
        code, first = self._check_sequence(
            producer_id, producer_epoch, base_sequence, last_sequence, flags
        )
        if code or first is not None or flags & FLAG_TRANSACTIONAL:
            return code, first
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

    def _check_sequence(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        last_sequence: int,
        flags: int,
    ) -> tuple[int, RememberedBatch | None]:
        """S10: the window of the last batches."""
        drafted = self.windows.get(producer_id)
        if drafted is None:
            window = self.partition.producers.get(producer_id)
            if window is None:
                misplaced = flags & FLAG_ADDS_PARTITION and base_sequence != 0
                return (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER if misplaced else _NONE), None
            epoch, batches = window.producer_epoch, window.batches
        else:
            epoch, batches = drafted
        if producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, None
        if producer_epoch > epoch:
            return (_NONE if base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), None
        for batch in reversed(batches):
            if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
                return _NONE, batch
        expected = (batches[-1].last_sequence + 1) & LAST_SEQUENCE
        return (
            _NONE if base_sequence == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        ), None

    def _remember(self, producer_id: int, producer_epoch: int, batch: RememberedBatch) -> None:
        """The window as the next batch of this slice finds it."""
        drafted = self.windows.get(producer_id)
        if drafted is None:
            window = self.partition.producers.get(producer_id)
            drafted = (-1, []) if window is None else (window.producer_epoch, window.batches)
        epoch, batches = drafted
        kept = batches[1 - REMEMBERED_BATCHES :] if epoch == producer_epoch else []
        self.windows[producer_id] = (producer_epoch, [*kept, batch])

    def _open_extent(
        self, recorded: RecordedSlice, identity: Identity, position: int, size: int
    ) -> _OpenExtent:
        """The extent that takes the batch: the open one, or a new one after closing it."""
        if self.open is not None and self.open.takes(identity, position, size):
            return self.open
        self._close_extent(recorded)
        self.open = _OpenExtent(identity, position, self.next_offset)
        return self.open

    def _close_extent(self, recorded: RecordedSlice) -> None:
        extent = self.open
        if extent is None:
            return
        producer_id, producer_epoch, transaction, log_append_time = extent.identity
        columns = recorded.extents
        columns.lease_ids.append(self.segment.segment.lease_id)
        columns.sequences.append(self.segment.segment.sequence)
        columns.positions.append(extent.position)
        columns.sizes.append(extent.size)
        columns.base_offsets.append(extent.base_offset)
        columns.next_offsets.append(extent.next_offset)
        columns.max_timestamps.append(extent.max_timestamp)
        columns.producer_ids.append(producer_id)
        columns.producer_epochs.append(producer_epoch)
        columns.transactions.append(transaction)
        columns.flags.append(log_append_time)
