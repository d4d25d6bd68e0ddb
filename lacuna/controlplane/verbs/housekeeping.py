"""DeleteRecords, the collection of garbage, and the pins that delay it."""

from collections.abc import Iterable
from heapq import nsmallest
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.shared.rights import reads_all, works_with_records
from lacuna.controlplane.shared.topic_configs import is_deleted_by_retention
from lacuna.controlplane.state.deadlines import NEVER
from lacuna.controlplane.state.front import account, check_front
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.segments import Pin, References, SegmentKey
from lacuna.controlplane.state.settings import (
    COLLECTED_AT_ONCE,
    COLLECTION_GRACE_MS,
    LONGEST_PIN_MS,
    MAX_PER_TICK,
    MOST_REPLACED,
    RELEASED_PER_TICK,
)
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import Outcome
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import (
    JournalRecord,
    LogStartMove,
    LogStartsMoved,
    PinsEnded,
    PinTaken,
    SegmentsCollected,
    SegmentsReleased,
)
from lacuna.controlplane.v1.log_pb2 import (
    CollectionPlan,
    ConfirmCollection,
    DeleteRecords,
    FilterUncommitted,
    PartitionsRead,
    PartitionState,
    PinReads,
    PlanCollection,
    ReadsPinned,
    SegmentId,
    UncommittedFiltered,
    UnpinReads,
)
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb
from lacuna.logstore.segments.hot import lease_of

# DeleteRecords


def delete_records(turn: Turn, command: DeleteRecords) -> Reply:
    """Move log starts forward to the given offsets; -1 stands for the high watermark.

    An offset above the high watermark fails with OFFSET_OUT_OF_RANGE, and one below the log start changes nothing. If
    cleanup.policy does not include "delete", the answer is POLICY_VIOLATION, as in Kafka.
    """
    moves: dict[PartitionKey, LogStartMove] = {}
    answers = []
    for wanted in command.partitions:
        key = key_of(wanted.partition)
        partition = turn.state.partitions.get(key)
        if partition is None or key in moves:
            code = ErrorCode.INVALID_REQUEST if partition else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers.append(PartitionState(error_code=code))
            continue
        if not is_deleted_by_retention(turn.state.topics[key[0]].configs):
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
    if moves:
        turn.journal(log_starts_moved(moves.values()))
    return Reply(records_deleted=PartitionsRead(partitions=answers))


def partition_state(partition: Partition) -> PartitionState:
    """Return a partition's offsets, size in bytes and version."""
    return PartitionState(
        version=partition.version,
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        size=partition.size_bytes,
        next_epoch=partition.next_epoch,
    )


def log_starts_moved(moves: Iterable[LogStartMove]) -> JournalRecord:
    return JournalRecord(log_starts_moved=LogStartsMoved(moves=moves))


def replay_log_starts_moved(state: State, record: LogStartsMoved, now_ms: int) -> None:
    """Move log starts and remove the extents wholly below them, for DeleteRecords and retention."""
    gone: list[References] = []
    for move in record.moves:
        partition = state.partitions[key_of(move.partition)]
        check_front(partition)
        partition.note_stable(now_ms)
        partition.move_log_start(move.log_start_offset)
        gone.append(_drop_below(partition, move.log_start_offset))
        partition.dead.drop_below(move.log_start_offset)
        account(partition)
        delta = state.changed(partition)
        if delta is not None:
            delta.dropped_below = move.log_start_offset
    state.segments.release(gone, now_ms)


def _drop_below(partition: Partition, offset: int) -> References:
    """Remove the extents that end at or below `offset`, and return their references."""
    extents = partition.extents
    stop = extents.first_ending_after(offset)
    gone = References(extents.lease_ids[:stop], extents.sequences[:stop])
    # Sum the sizes of the smaller part.
    if 2 * stop < len(extents):
        partition.size_bytes -= sum(extents.sizes[:stop])
    else:
        partition.size_bytes = sum(extents.sizes[stop:])
    extents.drop_below(offset)
    return gone


def tick_releases(turn: Turn) -> None:
    """Release some of the waiting references, such as those left by the deletion of a large topic."""
    segments = turn.state.segments
    count = min(len(segments.releasing), RELEASED_PER_TICK)
    if count and len(segments.replaced) < MOST_REPLACED:
        turn.journal(JournalRecord(segments_released=SegmentsReleased(count=count)))


def replay_segments_released(state: State, record: SegmentsReleased, now_ms: int) -> None:
    state.segments.release_waiting(record.count, now_ms)


# Collection


def plan_collection(turn: Turn, command: PlanCollection) -> Reply:
    """Return segments to delete, and ended leases whose uncommitted objects only a listing of the bucket can find."""
    state = turn.state
    if command.lease_id not in state.leases:
        answer = CollectionPlan(error_code=ErrorCode.LEASE_EXPIRED)
        return Reply(collection_plan=answer)
    if turn.context.is_time_doubtful:
        return Reply(collection_plan=CollectionPlan())
    now_ms = turn.now_ms
    limit = min(max(0, command.max_segments), COLLECTED_AT_ONCE)
    avoided = {(each.lease_id, each.sequence) for each in command.avoided}
    keys = state.segments.collectable(now_ms, COLLECTION_GRACE_MS, limit, avoided)
    left_alone = set(command.avoided_lease_ids)
    swept = [
        lease_id
        for lease_id in state.ended_leases
        if lease_id not in left_alone and _is_due(state, lease_id, now_ms)
    ]
    answer = CollectionPlan(segments=_messages(keys), swept_lease_ids=swept[:MAX_PER_TICK])
    return Reply(collection_plan=answer)


def _is_due(state: State, lease_id: int, now_ms: int) -> bool:
    """Whether an ended lease is due to be swept: nothing has used it for the whole grace period."""
    ended_ms = state.ended_leases.get(lease_id)
    return ended_ms is not None and ended_ms + COLLECTION_GRACE_MS <= now_ms


def _messages(keys: list[SegmentKey]) -> list[SegmentId]:
    return [SegmentId(lease_id=lease_id, sequence=sequence) for lease_id, sequence in keys]


def filter_uncommitted(turn: Turn, command: FilterUncommitted) -> Reply:
    """Return those of the listed segments that have not been committed and never can be."""
    state = turn.state
    strays = [
        segment
        for segment in command.segments
        if (segment.lease_id, segment.sequence) not in state.segments
        and 0 < (lease_id := lease_of(segment.lease_id)) < state.next_lease_id
        and lease_id not in state.leases
    ]
    return Reply(uncommitted_filtered=UncommittedFiltered(segments=strays))


def confirm_collection(turn: Turn, command: ConfirmCollection) -> Reply:
    """Drop replaced segments that have been deleted, and due leases that have been swept.

    A lease that was used after the plan was made becomes due again later.
    """
    state = turn.state
    replaced = state.segments.replaced
    segments = [
        segment for segment in command.segments if (segment.lease_id, segment.sequence) in replaced
    ]
    swept = [
        lease_id for lease_id in command.swept_lease_ids if _is_due(state, lease_id, turn.now_ms)
    ]
    if segments or swept:
        state.rewriting.deleted(
            state.segments.size_of((segment.lease_id, segment.sequence)) for segment in segments
        )
        record = SegmentsCollected(segments=segments, swept_lease_ids=swept)
        turn.journal(JournalRecord(segments_collected=record))
    return Reply(collection_confirmed=Outcome())


def replay_segments_collected(state: State, record: SegmentsCollected, _now_ms: int) -> None:
    for segment in record.segments:
        state.segments.forget((segment.lease_id, segment.sequence))
    for lease_id in record.swept_lease_ids:
        state.ended_leases.pop(lease_id, None)


# Pins


def pin_reads(turn: Turn, command: PinReads) -> Reply:
    """Pin everything that is live now, or extend the named pin.

    A pin that has ended cannot be extended (PIN_EXPIRED), since the objects that it protected may be gone.
    """
    if not 0 < command.duration_ms <= LONGEST_PIN_MS:
        raise MalformedCommand(f"a pin must last from 1 to {LONGEST_PIN_MS} ms")
    ends_ms = turn.now_ms + command.duration_ms
    if command.pin_id:
        return _prolong_pin(turn, command.pin_id, ends_ms)
    record = PinTaken(pin_id=turn.state.next_pin_id, ends_ms=ends_ms)
    turn.journal(JournalRecord(pin_taken=record))
    return Reply(reads_pinned=ReadsPinned(pin_id=record.pin_id))


def _prolong_pin(turn: Turn, pin_id: int, ends_ms: int) -> Reply:
    answer = ReadsPinned(pin_id=pin_id)
    pin = turn.state.segments.pins.get(pin_id)
    if pin is None:
        answer.error_code = ErrorCode.PIN_EXPIRED
        return Reply(reads_pinned=answer)
    record = PinTaken(pin_id=pin_id, ends_ms=max(ends_ms, pin.ends_ms))
    turn.journal(JournalRecord(pin_prolonged=record))
    return Reply(reads_pinned=answer)


def unpin_reads(turn: Turn, command: UnpinReads) -> Reply:
    """End a job's pin. If it has already ended, the error is INVALID_REQUEST, since the job's data may be gone."""
    if command.pin_id not in turn.state.segments.pins:
        answer = Outcome(error_code=ErrorCode.INVALID_REQUEST)
        return Reply(reads_unpinned=answer)
    _end_pins(turn, [command.pin_id])
    return Reply(reads_unpinned=Outcome())


def prolong_pins(turn: Turn, by_ms: int) -> None:
    """Extend the MAX_PER_TICK pins that end next by a period in which nothing could be received."""
    pins = turn.state.segments.pins
    for pin_id in nsmallest(MAX_PER_TICK, pins, key=lambda each: pins[each].ends_ms):
        record = PinTaken(pin_id=pin_id, ends_ms=pins[pin_id].ends_ms + by_ms)
        turn.journal(JournalRecord(pin_prolonged=record))


def tick_pins(turn: Turn) -> None:
    pins = turn.state.segments.pins
    due = [pin_id for pin_id, pin in pins.items() if pin.ends_ms <= turn.now_ms][:MAX_PER_TICK]
    if due:
        _end_pins(turn, due)


def _end_pins(turn: Turn, pin_ids: list[int]) -> None:
    turn.journal(JournalRecord(pins_ended=PinsEnded(pin_ids=pin_ids)))


def replay_pin_taken(state: State, record: PinTaken, now_ms: int) -> None:
    state.segments.pins[record.pin_id] = Pin(now_ms, min(record.ends_ms, NEVER))
    state.next_pin_id = max(state.next_pin_id, record.pin_id + 1)


def replay_pin_prolonged(state: State, record: PinTaken, _now_ms: int) -> None:
    pins = state.segments.pins
    pins[record.pin_id] = Pin(pins[record.pin_id].starts_ms, min(record.ends_ms, NEVER))


def replay_pins_ended(state: State, record: PinsEnded, _now_ms: int) -> None:
    for pin_id in record.pin_ids:
        state.segments.pins.pop(pin_id, None)


VERBS: Final = (
    Verb(delete_records),
    Verb(plan_collection),
    Verb(filter_uncommitted, needs=reads_all),
    Verb(confirm_collection),
    Verb(pin_reads, needs=works_with_records),
    Verb(unpin_reads, needs=works_with_records),
)
REPLAYS: Final = (
    replay_log_starts_moved,
    replay_segments_collected,
    replay_segments_released,
    replay_pin_taken,
    replay_pin_prolonged,
    replay_pins_ended,
)
