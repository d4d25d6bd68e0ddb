"""CommitSegment: a verdict for every batch (S1, S4, S10), and the extents of what was accepted."""

from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.extents import FLAG_LOG_APPEND_TIME
from controlplane.state.partition import Partition, PartitionKey, RememberedBatch, key_of
from controlplane.state.refusals import MalformedCommand
from controlplane.state.state import State
from controlplane.state.transactional import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.journal_pb2 import JournalRecord, RecordedSlice, SegmentRecorded
from controlplane.v1.log_pb2 import (
    CommitSegment,
    Extents,
    SegmentCommitted,
    SegmentId,
    SegmentSlice,
    SliceVerdict,
)

FLAG_TRANSACTIONAL = 4
FLAG_ADDS_PARTITION = 8

LARGEST_EXTENT_BYTES = 1 << 20
LAST_SEQUENCE = 2**31 - 1

_NONE = int(ErrorCode.NONE)

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

    draft = _SegmentDraft(state, segment, command.object_size)
    verdicts = SegmentCommitted(slices=[draft.decide(each) for each in command.slices])
    record = SegmentRecorded(
        segment=segment,
        object_size=command.object_size,
        slices=draft.recorded,
        verdicts=verdicts,
        started_producer_ids=draft.started.keys(),
        started_transactions=draft.started.values(),
    )
    journalled = JournalRecord(now_ms=context.now_ms, segment_recorded=record)
    return Decision(records=[journalled], reply=Reply(segment_committed=verdicts))


def _answer(verdicts: SegmentCommitted) -> Decision:
    return Decision(reply=Reply(segment_committed=verdicts))


class _SegmentDraft:
    """What the slices decided so far will do, since nothing is applied before all are decided."""

    __slots__ = ("object_size", "recorded", "seen", "segment", "started", "state")

    def __init__(self, state: State, segment: SegmentId, object_size: int) -> None:
        self.state = state
        self.segment = segment
        self.object_size = object_size
        self.recorded: list[RecordedSlice] = []
        self.seen: set[PartitionKey] = set()
        self.started: dict[int, int] = {}  # producer id -> transaction, under TV2

    def decide(self, given: SegmentSlice) -> SliceVerdict:
        """The verdicts of one slice; its accepted batches are added to `recorded`."""
        key = key_of(given.partition)
        partition = self.state.partitions.get(key)
        if partition is None:
            known = key[0] in self.state.topics
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.UNKNOWN_TOPIC_ID
            return SliceVerdict(error_code=code)
        if key in self.seen:
            raise MalformedCommand("a segment has one slice a partition; put its batches together")
        self.seen.add(key)
        slice_draft = _SliceDraft(self, partition)
        verdict = slice_draft.decide(given)
        if slice_draft.base_offsets:
            self.recorded.append(slice_draft.record(given))
        return verdict

    def transaction_of(self, producer_id: int) -> int:
        """The serial of the producer's transaction, which starts here if none is open."""
        found = self.state.producers[producer_id]
        if found.is_ongoing:
            return found.transaction
        serial = self.started.get(producer_id)
        if serial is None:
            serial = self.state.next_transaction + len(self.started)
            self.started[producer_id] = serial
        return serial


class _SliceDraft:
    """One slice while its batches are decided: offsets, windows and extents as they grow."""

    __slots__ = (
        "base_offsets",
        "extents",
        "max_timestamps",
        "next_offset",
        "next_offsets",
        "partition",
        "positions",
        "producer_rows",
        "segment",
        "sizes",
        "transactional",
        "windows",
    )

    def __init__(self, segment: _SegmentDraft, partition: Partition) -> None:
        self.segment = segment
        self.partition = partition
        self.next_offset = partition.high_watermark
        self.windows: Windows = {}
        self.transactional: set[int] = set()  # producers with a transaction here since this slice
        #: producer id, epoch, batch, max timestamp of each accepted batch with a producer id
        self.producer_rows: list[tuple[int, int, RememberedBatch, int]] = []
        # Columns of the extents; `extents` has the identity: producer id, epoch, transaction,
        # flags.
        self.positions: list[int] = []
        self.sizes: list[int] = []
        self.base_offsets: list[int] = []
        self.next_offsets: list[int] = []
        self.max_timestamps: list[int] = []
        self.extents: list[tuple[int, int, int, int]] = []

    def decide(self, given: SegmentSlice) -> SliceVerdict:
        """The verdict of every batch, in order."""
        columns = (
            given.batch_positions,
            given.batch_sizes,
            given.record_counts,
            given.max_timestamps,
            given.producer_ids,
            given.producer_epochs,
            given.base_sequences,
            given.batch_flags,
        )
        try:
            answers = [self._decide_batch(*row) for row in zip(*columns, strict=True)]
        except ValueError as error:
            raise MalformedCommand("the columns of a slice differ in length") from error
        codes, base_offsets, append_times = zip(*answers, strict=True) if answers else ((), (), ())
        return SliceVerdict(
            error_codes=codes,
            base_offsets=base_offsets,
            append_times=append_times,
            log_start_offset=self.partition.log_start_offset,
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
            batch = RememberedBatch(base_sequence, last_sequence, self.next_offset, append_time)
            self._remember(producer_id, producer_epoch, batch, max_timestamp)
        identity = (
            producer_id if transaction else NO_PRODUCER_ID,
            producer_epoch if transaction else NO_PRODUCER_EPOCH,
            transaction,
            flags & FLAG_LOG_APPEND_TIME,
        )
        base_offset = self.next_offset
        self.next_offset = base_offset + record_count
        self._extend(position, size, base_offset, max_timestamp, identity)
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
        if found is None:
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

    def _remember(
        self, producer_id: int, producer_epoch: int, batch: RememberedBatch, max_timestamp: int
    ) -> None:
        self.producer_rows.append((producer_id, producer_epoch, batch, max_timestamp))
        drafted = self.windows.get(producer_id)
        if drafted is None:
            window = self.partition.producers.get(producer_id)
            drafted = (-1, []) if window is None else (window.producer_epoch, window.batches)
        epoch, batches = drafted
        kept = batches[-4:] if epoch == producer_epoch else []
        self.windows[producer_id] = (producer_epoch, [*kept, batch])

    def _extend(
        self,
        position: int,
        size: int,
        base_offset: int,
        max_timestamp: int,
        identity: tuple[int, int, int, int],
    ) -> None:
        """Adds an accepted batch to the last extent, or begins one."""
        if (
            self.extents
            and self.extents[-1] == identity
            and self.positions[-1] + self.sizes[-1] == position
            and self.sizes[-1] + size <= LARGEST_EXTENT_BYTES
        ):
            self.sizes[-1] += size
            self.next_offsets[-1] = self.next_offset
            if max_timestamp > self.max_timestamps[-1]:
                self.max_timestamps[-1] = max_timestamp
            return
        self.extents.append(identity)
        self.positions.append(position)
        self.sizes.append(size)
        self.base_offsets.append(base_offset)
        self.next_offsets.append(self.next_offset)
        self.max_timestamps.append(max_timestamp)

    def record(self, given: SegmentSlice) -> RecordedSlice:
        """What replay needs of this slice."""
        count = len(self.extents)
        producer_ids, epochs, transactions, flags = zip(*self.extents, strict=True)
        extents = Extents(
            lease_ids=[self.segment.segment.lease_id] * count,
            sequences=[self.segment.segment.sequence] * count,
            positions=self.positions,
            sizes=self.sizes,
            base_offsets=self.base_offsets,
            next_offsets=self.next_offsets,
            max_timestamps=self.max_timestamps,
            producer_ids=producer_ids,
            producer_epochs=epochs,
            transactions=transactions,
            flags=flags,
        )
        recorded = RecordedSlice(
            partition=given.partition, high_watermark=self.next_offset, extents=extents
        )
        if self.producer_rows:
            ids, producer_epochs, batches, timestamps = zip(*self.producer_rows, strict=True)
            bases, lasts, offsets, append_times = zip(*batches, strict=True)
            recorded.producer_ids.extend(ids)
            recorded.producer_epochs.extend(producer_epochs)
            recorded.base_sequences.extend(bases)
            recorded.last_sequences.extend(lasts)
            recorded.base_offsets.extend(offsets)
            recorded.append_times.extend(append_times)
            recorded.max_timestamps.extend(timestamps)
        return recorded
