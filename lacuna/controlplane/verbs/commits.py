"""CommitSegment: decides on every batch (S1, S4, S10), and assigns accepted batches to extents.

lacuna.controlplane.verbs.slices processes each slice.
"""

from collections.abc import Iterator
from typing import Final

from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.batches import topic_ids_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.rights import Need, on_topic_ids
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, SegmentRecorded
from lacuna.controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted, SegmentId
from lacuna.controlplane.verbs.agents import used_late
from lacuna.controlplane.verbs.needs import own_leases
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.slices import decide_slices, replay_slices
from lacuna.controlplane.verbs.transactions import join_partitions, start_transaction
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb
from lacuna.controlplane.verbs.windows import make_room
from lacuna.logstore.segments.hot import MOST_HOT_BYTES, is_hot, lease_of


def commit_segment(turn: Turn, command: CommitSegment) -> Reply:
    """Decide a commit. A segment that is committed again receives the original answer."""
    known = answered(turn, command.segment, lease_of(command.segment.lease_id))
    return _decide(turn, command) if known is None else Reply(segment_committed=known)


def answered(turn: Turn, segment: SegmentId, lease_id: int) -> SegmentCommitted | None:
    """Return the answer if this lease has committed the segment, or can no longer do so; otherwise None."""
    state = turn.state
    lease = state.leases.get(lease_id)
    if lease is None:
        used_late(turn, [lease_id])
        return SegmentCommitted(error_code=ErrorCode.LEASE_EXPIRED)
    known = lease.recent.get(segment.sequence)
    if known is not None:
        return SegmentCommitted.FromString(known)
    key = (segment.lease_id, segment.sequence)
    if segment.sequence <= lease.forgotten_sequence or key in state.segments:
        return SegmentCommitted(error_code=ErrorCode.INVALID_REQUEST)
    return None


def _decide(turn: Turn, command: CommitSegment) -> Reply:
    segment, state = command.segment, turn.state
    if not _is_in_turn(state, command):
        return Reply(segment_committed=SegmentCommitted(error_code=ErrorCode.OUT_OF_TURN))
    if is_hot(segment.lease_id):
        if not 0 < len(command.hot) <= MOST_HOT_BYTES:
            raise MalformedCommand(
                f"a hot segment must be from 1 to {MOST_HOT_BYTES} bytes long, not {len(command.hot)}"
            )
        if not state.hot_intake.admits(len(command.hot), turn.now_ms):
            return Reply(segment_committed=SegmentCommitted(error_code=ErrorCode.HOT_REFUSED))
    make_room(turn)
    slices, extents, batches, slice_verdicts, batch_verdicts, started, joined = decide_slices(
        turn.state,
        command.slices,
        command.batches,
        segment.lease_id,
        segment.sequence,
        command.object_size,
        command.transactional_ids,
    )
    for producer_id, partitions in joined.items():
        serial = started.pop(producer_id, 0) or turn.state.producers[producer_id].transaction
        join_partitions(turn, producer_id, serial, partitions.values())
    journalled = JournalRecord()
    record = journalled.segment_recorded
    record.segment.lease_id, record.segment.sequence = segment.lease_id, segment.sequence
    record.object_size = command.object_size
    record.slices, record.extents, record.batches = slices, extents, batches
    record.verdicts.slices, record.verdicts.batches = slice_verdicts, batch_verdicts
    if started:
        record.started_producer_ids.extend(started)
        record.started_transactions.extend(started.values())
    turn.journal(journalled)
    return Reply(segment_committed=record.verdicts)


def _is_in_turn(state: State, command: CommitSegment) -> bool:
    """Whether the commit that this one must follow has been decided.

    It has not been decided if it was refused as a hot segment, or lost in a takeover. The order matters because a
    producer may have batches in both commits.
    """
    lease = state.leases[lease_of(command.segment.lease_id)]
    return not command.follows or command.follows in lease.recent


def replay_segment_recorded(state: State, record: SegmentRecorded, now_ms: int) -> None:
    """Append the accepted batches, and remember the answer for retries."""
    for producer_id, transaction in zip(
        record.started_producer_ids, record.started_transactions, strict=True
    ):
        start_transaction(state, state.producers[producer_id], transaction, now_ms)
    extents = replay_slices(state, record.slices, record.extents, record.batches, now_ms)
    segment = record.segment
    key = (segment.lease_id, segment.sequence)
    state.segments.add(key, record.object_size, extents, now_ms)
    state.leases[lease_of(segment.lease_id)].remember(
        segment.sequence, record.verdicts.SerializeToString()
    )


def _needs(command: CommitSegment, state: State) -> Iterator[Need]:
    yield from own_leases([lease_of(command.segment.lease_id)], state)
    for transactional_id in command.transactional_ids:
        yield Need((Operation.WRITE,), ResourceType.TRANSACTIONAL_ID, transactional_id)
    yield from on_topic_ids(Operation.WRITE, topic_ids_of(command), state)


VERBS: Final = (Verb(commit_segment, needs=_needs),)
REPLAYS: Final = (replay_segment_recorded,)
