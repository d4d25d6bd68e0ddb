"""What keeps metadata and bucket small: DeleteRecords, retention, merging, collection, read pins."""

from typing import Final

from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.extents import COLUMNS, FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS
from controlplane.state.partition import Partition, PartitionKey, key_of
from controlplane.state.refusals import MalformedCommand
from controlplane.state.segments import SegmentKey
from controlplane.state.settings import COLLECTION_GRACE_MS, LONGEST_PIN_MS
from controlplane.state.state import State
from controlplane.state.transactional import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from controlplane.topic_configs import is_deleted_by_retention
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.journal_pb2 import (
    ExtentsReplaced,
    JournalRecord,
    LogStartMove,
    LogStartsMoved,
    PartitionSwap,
    PinsEnded,
    PinTaken,
    SegmentsCollected,
)
from controlplane.v1.log_pb2 import (
    CollectionConfirmed,
    CollectionPlan,
    ConfirmCollection,
    DeleteRecords,
    ExtentsSwapped,
    ExtentSwap,
    FilterUncommitted,
    PartitionState,
    PinReads,
    PlanCollection,
    ReadsPinned,
    ReadsUnpinned,
    RecordsDeleted,
    SegmentId,
    SwapExtents,
    SwapPartition,
    UncommittedFiltered,
    UnpinReads,
)

# DeleteRecords


def delete_records(state: State, command: DeleteRecords, context: Context) -> Decision:
    """Moves log starts; -1 is the high watermark.

    Beyond it is OFFSET_OUT_OF_RANGE, below the start nothing. A topic that is only compacted keeps its
    records: POLICY_VIOLATION, as in Kafka.
    """
    moves: dict[PartitionKey, LogStartMove] = {}
    answers = []
    for wanted in command.partitions:
        key = key_of(wanted.partition)
        partition = state.partitions.get(key)
        if partition is None or key in moves:
            code = ErrorCode.INVALID_REQUEST if partition else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers.append(PartitionState(error_code=code))
            continue
        if not is_deleted_by_retention(state.topics[key[0]].configs):
            answers.append(PartitionState(error_code=ErrorCode.POLICY_VIOLATION))
            continue
        before = wanted.before_offset
        offset = partition.high_watermark if before == -1 else before
        if not 0 <= offset <= partition.high_watermark:
            answers.append(PartitionState(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
            continue
        answer = partition_state(partition)
        if offset > partition.log_start_offset:
            moves[key] = LogStartMove(partition=wanted.partition, log_start_offset=offset)
            answer.version += 1
            answer.log_start_offset = offset
            answer.last_stable_offset = max(offset, answer.last_stable_offset)
        answers.append(answer)
    decision = Decision(reply=Reply(records_deleted=RecordsDeleted(partitions=answers)))
    if moves:
        decision.records.append(log_starts_moved(list(moves.values()), context.now_ms))
    return decision


def partition_state(partition: Partition) -> PartitionState:
    """The offsets of a partition under its version."""
    return PartitionState(
        version=partition.version,
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
    )


def log_starts_moved(moves: list[LogStartMove], now_ms: int) -> JournalRecord:
    """The record of deletions from the front."""
    return JournalRecord(now_ms=now_ms, log_starts_moved=LogStartsMoved(moves=moves))


# SwapExtents

#: What merging leaves of producer id, epoch, transaction and flags, whatever it replaces (S19).
_MERGED: Final = tuple(
    (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, 0, FLAG_TRUE_OFFSETS | log_append_time)
    for log_append_time in (0, FLAG_LOG_APPEND_TIME)
)


def swap_extents(state: State, command: SwapExtents, context: Context) -> Decision:
    """Replaces extents where exactly what was planned still lies there: all or nothing per
    partition.
    """
    has_segment = command.HasField("segment")
    segment = command.segment
    if has_segment and segment.lease_id not in state.leases:
        answer = ExtentsSwapped(error_code=ErrorCode.LEASE_EXPIRED)
        return Decision(reply=Reply(extents_swapped=answer))
    is_known = has_segment and (segment.lease_id, segment.sequence) in state.segments
    record = ExtentsReplaced(object_size=command.object_size)
    if has_segment:
        record.segment.CopyFrom(segment)
    codes = []
    seen: set[PartitionKey] = set()
    for wanted in command.partitions:
        _check_swap(command, wanted, seen)
        code = _judge_swap(state, wanted, is_known)
        if code is None:
            record.partitions.append(PartitionSwap(partition=wanted.partition, swap=wanted.swap))
        codes.append(code or ErrorCode.NONE)
    answer = ExtentsSwapped(error_codes=codes)
    decision = Decision(reply=Reply(extents_swapped=answer))
    if record.partitions or (has_segment and not is_known):
        decision.records.append(JournalRecord(now_ms=context.now_ms, extents_replaced=record))
    return decision


def _check_swap(command: SwapExtents, wanted: SwapPartition, seen: set[PartitionKey]) -> None:
    """Raises MalformedCommand for a swap that makes no sense whatever lies there."""
    key = key_of(wanted.partition)
    if key in seen:
        raise MalformedCommand("a swap names each partition once")
    seen.add(key)
    given = wanted.swap.extents
    if len({len(getattr(given, name)) for name in COLUMNS}) != 1:
        raise MalformedCommand("the columns of the new extents differ in length")
    segment = (command.segment.lease_id, command.segment.sequence)
    if any(each != segment for each in zip(given.lease_ids, given.sequences, strict=True)):
        raise MalformedCommand("the new extents lie in the segment that the swap names")
    if given.sizes and not command.HasField("segment"):
        raise MalformedCommand("new extents lie in a segment: the swap names it")
    _check_ranges(wanted.swap)
    places = zip(given.positions, given.sizes, strict=True)
    if any(at < 0 or size < 1 or at + size > command.object_size for at, size in places):
        raise MalformedCommand("an extent lies outside of its object")
    rows = zip(
        given.producer_ids, given.producer_epochs, given.transactions, given.flags, strict=True
    )
    if any(row not in _MERGED for row in rows):
        raise MalformedCommand("a merged extent is of no transaction and has true offsets")


def _check_ranges(swap: ExtentSwap) -> None:
    """The new extents are in order, not empty, and within what they replace."""
    end = swap.first_offset
    for base_offset, next_offset in zip(
        swap.extents.base_offsets, swap.extents.next_offsets, strict=True
    ):
        if not end <= base_offset < next_offset:
            raise MalformedCommand("the new extents are in order, and none of them is empty")
        end = next_offset
    if end > swap.end_offset:
        raise MalformedCommand("the new extents lie within the range that they replace")


def _judge_swap(state: State, wanted: SwapPartition, is_known: bool) -> ErrorCode | None:
    """None: to be done. NONE: it was done before, this is a retry. Else an error."""
    partition = state.partitions.get(key_of(wanted.partition))
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    swap = wanted.swap
    start, stop = partition.extents.range_of(swap.first_offset, swap.end_offset)
    lying = partition.extents.slice(start, stop)
    if is_known:
        return ErrorCode.NONE if lying == swap.extents else ErrorCode.PLAN_STALE
    if lying != wanted.replaced or not lying.sizes:
        return ErrorCode.PLAN_STALE
    edge = start > 0 and partition.extents.next_offsets[start - 1] > swap.first_offset
    is_stable = lying.next_offsets[-1] <= swap.end_offset <= partition.last_stable_offset
    return None if is_stable and not edge else ErrorCode.PLAN_STALE


# Collection


def plan_collection(state: State, command: PlanCollection, context: Context) -> Decision:
    """Objects to delete, and ended leases whose uncommitted objects are to be found by listing."""
    if command.lease_id not in state.leases:
        answer = CollectionPlan(error_code=ErrorCode.LEASE_EXPIRED)
        return Decision(reply=Reply(collection_plan=answer))
    now_ms = context.now_ms
    limit = max(0, command.max_segments)
    keys = state.segments.collectable(now_ms, COLLECTION_GRACE_MS, limit)
    swept = [
        lease_id
        for lease_id, ended_ms in state.ended_leases.items()
        if ended_ms + COLLECTION_GRACE_MS <= now_ms
    ]
    answer = CollectionPlan(segments=_messages(keys), swept_lease_ids=swept)
    return Decision(reply=Reply(collection_plan=answer))


def _messages(keys: list[SegmentKey]) -> list[SegmentId]:
    return [SegmentId(lease_id=lease_id, sequence=sequence) for lease_id, sequence in keys]


def filter_uncommitted(state: State, command: FilterUncommitted, _context: Context) -> Decision:
    """Of objects found by listing: those that can never be committed any more."""
    strays = [
        segment
        for segment in command.segments
        if (segment.lease_id, segment.sequence) not in state.segments
        and 0 < segment.lease_id < state.next_lease_id
        and segment.lease_id not in state.leases
    ]
    return Decision(reply=Reply(uncommitted_filtered=UncommittedFiltered(segments=strays)))


def confirm_collection(state: State, command: ConfirmCollection, context: Context) -> Decision:
    """Forgets what was deleted; only what was replaced or ended can be."""
    replaced = state.segments.replaced
    segments = [
        segment for segment in command.segments if (segment.lease_id, segment.sequence) in replaced
    ]
    swept = [lease_id for lease_id in command.swept_lease_ids if lease_id in state.ended_leases]
    decision = Decision(reply=Reply(collection_confirmed=CollectionConfirmed()))
    if segments or swept:
        record = SegmentsCollected(segments=segments, swept_lease_ids=swept)
        decision.records.append(JournalRecord(now_ms=context.now_ms, segments_collected=record))
    return decision


def pin_reads(state: State, command: PinReads, context: Context) -> Decision:
    """What is alive now is not collected before the pin ends."""
    if not 0 < command.duration_ms <= LONGEST_PIN_MS:
        raise MalformedCommand(f"a pin lasts from 1 to {LONGEST_PIN_MS} ms")
    record = PinTaken(pin_id=state.next_pin_id, ends_ms=context.now_ms + command.duration_ms)
    journalled = JournalRecord(now_ms=context.now_ms, pin_taken=record)
    answer = ReadsPinned(pin_id=record.pin_id)
    return Decision(records=[journalled], reply=Reply(reads_pinned=answer))


def unpin_reads(state: State, command: UnpinReads, context: Context) -> Decision:
    """A reader is done; one whose time was over is told so, since what it read may be gone."""
    if command.pin_id not in state.segments.pins:
        answer = ReadsUnpinned(error_code=ErrorCode.INVALID_REQUEST)
        return Decision(reply=Reply(reads_unpinned=answer))
    record = pins_ended([command.pin_id], context.now_ms)
    return Decision(records=[record], reply=Reply(reads_unpinned=ReadsUnpinned()))


def pins_ended(pin_ids: list[int], now_ms: int) -> JournalRecord:
    """The record that lets go of what pins held."""
    return JournalRecord(now_ms=now_ms, pins_ended=PinsEnded(pin_ids=pin_ids))
