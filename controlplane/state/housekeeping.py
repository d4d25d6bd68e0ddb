"""What keeps metadata and bucket small: DeleteRecords, collection, read pins."""

from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.state.partition import Partition, PartitionKey, key_of
from controlplane.state.refusals import MalformedCommand
from controlplane.state.segments import SegmentKey
from controlplane.state.settings import COLLECTION_GRACE_MS, LONGEST_PIN_MS
from controlplane.state.state import State
from controlplane.topic_configs import is_deleted_by_retention
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.journal_pb2 import (
    JournalRecord,
    LogStartMove,
    LogStartsMoved,
    PinProlonged,
    PinsEnded,
    PinTaken,
    SegmentsCollected,
)
from controlplane.v1.log_pb2 import (
    CollectionConfirmed,
    CollectionPlan,
    ConfirmCollection,
    DeleteRecords,
    FilterUncommitted,
    PartitionState,
    PinReads,
    PlanCollection,
    ReadsPinned,
    ReadsUnpinned,
    RecordsDeleted,
    SegmentId,
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
    """The offsets and the size of a partition under its version."""
    return PartitionState(
        version=partition.version,
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        size=partition.size_bytes,
    )


def log_starts_moved(moves: list[LogStartMove], now_ms: int) -> JournalRecord:
    """The record of deletions from the front."""
    return JournalRecord(now_ms=now_ms, log_starts_moved=LogStartsMoved(moves=moves))


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
    """What is alive now is not collected before the pin ends; one that is named goes on.

    One that has ended does not come back: what it held may be collected by now.
    """
    if not 0 < command.duration_ms <= LONGEST_PIN_MS:
        raise MalformedCommand(f"a pin lasts from 1 to {LONGEST_PIN_MS} ms")
    ends_ms = context.now_ms + command.duration_ms
    if command.pin_id:
        return _prolong_pin(state, command.pin_id, ends_ms, context.now_ms)
    record = PinTaken(pin_id=state.next_pin_id, ends_ms=ends_ms)
    journalled = JournalRecord(now_ms=context.now_ms, pin_taken=record)
    answer = ReadsPinned(pin_id=record.pin_id)
    return Decision(records=[journalled], reply=Reply(reads_pinned=answer))


def _prolong_pin(state: State, pin_id: int, ends_ms: int, now_ms: int) -> Decision:
    answer = ReadsPinned(pin_id=pin_id)
    pin = state.segments.pins.get(pin_id)
    if pin is None or pin.ends_ms <= now_ms:  # collection may be ahead of the tick that ends it
        answer.error_code = ErrorCode.PIN_EXPIRED
        return Decision(reply=Reply(reads_pinned=answer))
    record = PinProlonged(pin_id=pin_id, ends_ms=max(ends_ms, pin.ends_ms))
    journalled = JournalRecord(now_ms=now_ms, pin_prolonged=record)
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
