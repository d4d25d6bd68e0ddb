"""CommitSegment: a verdict for every batch (S1, S4, S10), and the extents of the accepted batches."""

from array import array
from collections.abc import Sequence

from lacuna.controlplane.shared.batches import (
    COMMITTED_BATCH,
    FLAG_ADDS_PARTITION,
    FLAG_FOLLOWS,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRANSACTIONAL,
    TRANSACTIONAL_ID_SHIFT,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import EXTENT_ROW
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.state.partition import (
    BATCH_NUMBERS,
    REMEMBERED_BATCHES,
    Partition,
    ProducerWindow,
    last_sequence_of,
)
from lacuna.controlplane.state.rows import BATCH_ROW, batches_of, rows_of
from lacuna.controlplane.state.settings import HOUR_MS
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.transactional import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, RecordedSlice, SegmentRecorded
from lacuna.controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted, SegmentSlice
from lacuna.controlplane.verbs.agents import used_late
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.transactions import start_transaction
from lacuna.controlplane.verbs.turn import Turn

LARGEST_EXTENT_BYTES = 1 << 20
LAST_SEQUENCE = 2**31 - 1

_NONE = int(ErrorCode.NONE)
_BEGINS_AT_ZERO = FLAG_ADDS_PARTITION | FLAG_FOLLOWS
_KEPT_NUMBERS = (REMEMBERED_BATCHES - 1) * BATCH_NUMBERS

#: What the batches of an extent share: producer id, producer epoch, transaction, and whether LogAppendTime was set.
Identity = tuple[int, int, int, int]

#: A producer's idempotence window in a partition: its epoch, and the numbers of its last batches.
Window = tuple[int, Sequence[int]]

#: The answer to a repeated batch: the base offset and append time of the first one.
FirstAnswer = tuple[int, int]


def commit_segment(turn: Turn, command: CommitSegment) -> Reply:
    """Decide one commit. If a segment is committed again, it gets the same answer."""
    segment = command.segment
    state = turn.state
    lease = state.leases.get(segment.lease_id)
    if lease is None:
        used_late(turn, [segment.lease_id])
        return Reply(segment_committed=SegmentCommitted(error_code=ErrorCode.LEASE_EXPIRED))
    known = lease.recent.get(segment.sequence)
    if known is not None:
        return Reply(segment_committed=SegmentCommitted.FromString(known))
    key = (segment.lease_id, segment.sequence)
    if segment.sequence <= lease.forgotten_sequence or key in state.segments:
        return Reply(segment_committed=SegmentCommitted(error_code=ErrorCode.INVALID_REQUEST))

    journalled = JournalRecord()
    draft = _SegmentDraft(state, command, journalled.segment_recorded)
    for given in command.slices:
        draft.decide(given)
    turn.journal(journalled)
    return Reply(segment_committed=journalled.segment_recorded.verdicts)


class _SegmentDraft:
    """The effects of the slices decided so far; none are applied before all slices are decided.

    The journal record is filled in place, because building its parts separately would copy them twice.
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
        # producer id -> serial number of the transaction that this segment starts (TV2)
        self.started: dict[int, int] = {}
        record.segment.CopyFrom(command.segment)
        record.object_size = command.object_size
        record.verdicts.SetInParent()

    def decide(self, given: SegmentSlice) -> None:
        """Add the verdicts of one slice to the record, and the slice with its accepted batches."""
        key = key_of(given.partition)
        partition = self.state.partitions.get(key)
        if partition is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            if key[0] in self.state.topics:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.record.verdicts.slices.add(error_code=code)
            return
        if key in self.seen:
            raise MalformedCommand(
                "a segment may have only one slice per partition; put its batches together"
            )
        self.seen.add(key)
        _SliceDraft(self, partition).decide(_rows(given))

    def names_another(self, transactional_id: str, flags: int) -> bool:
        """Whether a batch with these flags was sent under a transactional id other than `transactional_id`."""
        number = flags >> TRANSACTIONAL_ID_SHIFT
        if not number:
            return False
        if number > len(self.transactional_ids):
            raise MalformedCommand("a batch names a transactional id that the commit does not have")
        return self.transactional_ids[number - 1] != transactional_id

    def transaction_of(self, producer_id: int) -> int:
        """Return the serial number of the producer's transaction, starting one if none is open."""
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
    """Return the numbers of each batch, in the order of `_decide_batch`'s parameters."""
    rows = given.batches
    if len(rows) % COMMITTED_BATCH.size:
        raise MalformedCommand("the last batch row of a slice is cut short")
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
        """Whether a batch can join the extent: same identity, adjacent bytes, and not too large together."""
        return (
            self.identity == identity
            and self.position + self.size == position
            and self.size + size <= LARGEST_EXTENT_BYTES
        )


class _SliceDraft:
    """One slice while its batches are decided: the next offset, and the windows and extents so far."""

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
        self.transactional: set[int] = set()  # producers with transactional batches in this slice
        self.extent: _OpenExtent | None = None
        self.extent_rows = b""
        self.is_alone = False  # the slice has a single batch
        self.batch_rows = b""

    def decide(self, rows: Sequence[tuple[int, ...]]) -> None:
        """Decide every batch in order, and add the verdicts and the accepted batches to the record."""
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
        """Return the verdict on one batch: (error code, base offset, append time)."""
        if (
            record_count < 1
            or size < 1
            or position < 0
            or position + size > self.segment.object_size
        ):
            raise MalformedCommand("a batch is empty or lies outside its object")
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
        """Return (error code, None), or (0, the first answer) for a repeated batch, or (0, None) for a new one."""
        code = self._check_transaction(producer_id, producer_epoch, flags)
        if code:
            return code, None
        window = self._window(producer_id)
        if window is None:
            misplaced = flags & _BEGINS_AT_ZERO and base_sequence != 0
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
        """Return an error code if the producer may not write to this partition (S4, S8), else 0."""
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
        """Return the producer's window after the earlier batches of this slice."""
        drafted = self.windows.get(producer_id)
        if drafted is not None:
            return drafted
        window = self.partition.producers.get(producer_id)
        return None if window is None else (window.producer_epoch, window.batches)

    def _remember(self, producer_id: int, producer_epoch: int, batch: tuple[int, ...]) -> None:
        """Add a batch to the producer's window, for the next batches of this slice."""
        window = self._window(producer_id)
        kept: Sequence[int] = ()
        if window is not None and window[0] == producer_epoch:
            kept = window[1][-_KEPT_NUMBERS:]
        self.windows[producer_id] = (producer_epoch, (*kept, *batch))

    def _close_extent(self, extent: _OpenExtent) -> None:
        """Add the row of the extent, which ends at the offset where the next batch begins."""
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
    """Check a batch against the window (S10): it must follow the newest batch or repeat one in the window.

    Return an error code, and the first answer if the batch is repeated.
    """
    epoch, batches = window
    if producer_epoch < epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH, None
    if producer_epoch > epoch:
        return (_NONE if base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), None
    if base_sequence == (last_sequence_of(batches) + 1) & LAST_SEQUENCE:
        return _NONE, None
    for at in range(len(batches) - BATCH_NUMBERS, -1, -BATCH_NUMBERS):
        if batches[at] == base_sequence and batches[at + 1] == last_sequence:
            return _NONE, (batches[at + 2], batches[at + 3])
    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None


def replay_segment_recorded(state: State, record: SegmentRecorded, now_ms: int) -> None:
    """Append the accepted batches, and remember the answer for retries."""
    for producer_id, transaction in zip(
        record.started_producer_ids, record.started_transactions, strict=True
    ):
        start_transaction(state, state.producers[producer_id], transaction, now_ms)
    extents = 0
    for recorded in record.slices:
        partition = state.partitions[key_of(recorded.partition)]
        extents += _append(state, partition, recorded)
        _remember_batches(state, partition, recorded, now_ms)
    segment = record.segment
    key = (segment.lease_id, segment.sequence)
    state.segments.add(key, record.object_size, extents, now_ms)
    state.leases[segment.lease_id].remember(segment.sequence, record.verdicts.SerializeToString())


def _append(state: State, partition: Partition, recorded: RecordedSlice) -> int:
    """Append the extents of a slice to the partition, and return their number."""
    rows = rows_of(recorded)
    for row in EXTENT_ROW.iter_unpack(rows):
        partition.extents.append_row(row)
        _, _, _, size, base_offset, next_offset, _, producer_id, _, transaction, _ = row
        partition.size_bytes += size
        if transaction:
            _add_range(state, partition, producer_id, base_offset, next_offset)
    partition.high_watermark = recorded.high_watermark
    delta = state.changed(partition)
    if delta is not None:
        delta.appended = rows
    return len(rows) // EXTENT_ROW.size


def _add_range(
    state: State, partition: Partition, producer_id: int, base_offset: int, next_offset: int
) -> None:
    """Add the offsets of a transactional extent to the ranges of its transaction."""
    partitions = state.producers[producer_id].partitions
    ranges = partitions.get(partition.key)
    if not ranges:
        partitions[partition.key] = array("q", (base_offset, next_offset))
        partition.ongoing[producer_id] = base_offset
    elif ranges[-1] == base_offset:
        ranges[-1] = next_offset
    else:
        ranges.extend((base_offset, next_offset))


def _remember_batches(
    state: State, partition: Partition, recorded: RecordedSlice, now_ms: int
) -> None:
    hour = now_ms // HOUR_MS
    for producer_id, epoch, *batch, timestamp in batches_of(recorded):
        window = partition.producers.get(producer_id)
        if window is None:
            window = partition.producers[producer_id] = ProducerWindow(epoch)
        window.remember(epoch, batch)
        window.last_timestamp = timestamp
        if window.last_used_ms // HOUR_MS != hour:
            state.file_window(partition, producer_id, hour)
        window.last_used_ms = now_ms
