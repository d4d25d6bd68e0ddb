"""The pure state machine: commands are decided into records, and records alone change durable state.

    handle(state, command, context) -> Decision    # decides; changes nothing durable
    replay(state, record)                          # applies one record, whole
    tick(state, context) -> Decision               # decides what is overdue
    found(state, cluster_id, context) -> Decision  # the first record of a new journal
    snapshot(state) -> bytes, restore(bytes) -> State

The caller replays a decision's records at once, in order, before it decides anything else. No time,
randomness or I/O is reached for from here: they come in the Context.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from controlplane import groups
from controlplane.decision import Context, Decision
from controlplane.state import (
    agents,
    commits,
    compaction,
    housekeeping,
    log_replay,
    merging,
    presence,
    reading,
    swapping,
    ticks,
    topics,
    transaction_replay,
    transactions,
)
from controlplane.state.group_topics import TopicsOfGroups
from controlplane.state.refusals import MalformedCommand
from controlplane.state.snapshot import restore, snapshot
from controlplane.state.state import State
from controlplane.v1.cluster_pb2 import ClusterDelta, TopicPartition
from controlplane.v1.control_pb2 import Command, Failure, Reply
from controlplane.v1.group_records_pb2 import GroupRecord
from controlplane.v1.journal_pb2 import ClusterFounded, JournalRecord
from controlplane.v1.log_pb2 import PartitionDelta

__all__ = [
    "State",
    "cluster_snapshot",
    "end_session",
    "forget_tokens",
    "found",
    "handle",
    "new_state",
    "now_ms",
    "replay",
    "restore",
    "snapshot",
    "take_changes",
    "tick",
    "unwatch",
    "watch",
]

# The message of a verb or event is found by its name, so the two tables below are typed by hand:
# each function takes the message that stands under its key in Command or JournalRecord.
_Decide = Callable[[State, Any, Context], Decision]
_Replay = Callable[[State, Any, int], None]

#: verb -> who decides it.
VERBS: Final[Mapping[str, _Decide]] = {
    "register_agent": agents.register_agent,
    "renew_lease": agents.renew_lease,
    "release_lease": agents.release_lease,
    "open_lease": agents.open_lease,
    "create_topics": topics.create_topics,
    "delete_topics": topics.delete_topics,
    "create_partitions": topics.create_partitions,
    "alter_topic_configs": topics.alter_topic_configs,
    "commit_segment": commits.commit_segment,
    "read_partitions": reading.read_partitions,
    "delete_records": housekeeping.delete_records,
    "plan_merge": merging.plan_merge,
    "swap_extents": swapping.swap_extents,
    "plan_compaction": compaction.plan_compaction,
    "plan_collection": housekeeping.plan_collection,
    "filter_uncommitted": housekeeping.filter_uncommitted,
    "confirm_collection": housekeeping.confirm_collection,
    "pin_reads": housekeeping.pin_reads,
    "unpin_reads": housekeeping.unpin_reads,
    "init_producer_id": transactions.init_producer_id,
    "add_partitions_to_txn": transactions.add_partitions_to_txn,
    "add_offsets_to_txn": transactions.add_offsets_to_txn,
    "end_txn": transactions.end_txn,
    "abort_txn": transactions.abort_txn,
    "txn_offset_commit": transactions.txn_offset_commit,
    "describe_producers": reading.describe_producers,
    "describe_transactions": reading.describe_transactions,
    "list_transactions": reading.list_transactions,
}


def handle(state: State, command: Command, context: Context) -> Decision:
    """Decides one command. A malformed one is answered with a Failure."""
    verb = command.WhichOneof("verb")
    decide = VERBS.get(verb) if verb else None
    try:
        if decide is not None:
            decision = decide(state, getattr(command, verb), context)
        elif verb in groups.GROUP_VERBS:
            decision = _handle_group(state, command, context)
        else:
            raise MalformedCommand(f"{verb or 'a command without a verb'} is not known here")
    except MalformedCommand as malformed:
        failure = Failure(error_code=malformed.code, message=malformed.message)
        decision = Decision(reply=Reply(failure=failure))
    if decision.reply is not None:
        decision.reply.command_id = command.command_id
    return decision


def _handle_group(state: State, command: Command, context: Context) -> Decision:
    return groups.handle(
        state.groups,
        command,
        context,
        partition_exists=lambda topic_id, index: (topic_id, index) in state.partitions,
        topics=TopicsOfGroups(state),
    )


def new_state() -> State:
    """The state before the first record."""
    return State()


def found(_state: State, cluster_id: str, context: Context) -> Decision:
    """What a new journal begins with."""
    if not cluster_id:
        raise ValueError("a cluster has an id; make one from 16 random bytes")
    founded = ClusterFounded(cluster_id=cluster_id)
    return Decision(records=[JournalRecord(now_ms=context.now_ms, cluster_founded=founded)])


def tick(state: State, context: Context) -> Decision:
    """Decides what is overdue. The runtime calls it about once a second."""
    records = [
        *agents.tick_leases(state, context),
        *ticks.tick_transactions(state, context),
        *ticks.tick_transactional_ids(state, context),
        *ticks.tick_producers(state, context),
        *ticks.tick_retention(state, context),
        *ticks.tick_pins(state, context),
    ]
    presence.tick_presence(state, context)
    decision = groups.tick(state.groups, context, TopicsOfGroups(state))
    return Decision(records=records + decision.records, completions=decision.completions)


def _replay_founded(state: State, record: ClusterFounded, _now_ms: int) -> None:
    if state.cluster_id:
        raise ValueError(f"the journal of cluster {state.cluster_id} is founded a second time")
    state.cluster_id = record.cluster_id


def _replay_group(state: State, record: GroupRecord, _now_ms: int) -> None:
    groups.replay(state.groups, record)


#: event -> who replays it.
EVENTS: Final[Mapping[str, _Replay]] = {
    "cluster_founded": _replay_founded,
    "agent_joined": agents.replay_agent_joined,
    "job_lease_opened": agents.replay_job_lease_opened,
    "leases_ended": agents.replay_leases_ended,
    "topics_added": topics.replay_topics_added,
    "topics_removed": topics.replay_topics_removed,
    "partitions_added": topics.replay_partitions_added,
    "configs_changed": topics.replay_configs_changed,
    "segment_recorded": log_replay.replay_segment,
    "log_starts_moved": log_replay.replay_log_starts,
    "extents_replaced": log_replay.replay_swap,
    "segments_collected": log_replay.replay_collected,
    "pin_taken": log_replay.replay_pin,
    "pin_prolonged": log_replay.replay_pin_prolonged,
    "pins_ended": log_replay.replay_pins_ended,
    "producer_initialized": transaction_replay.replay_producer,
    "transaction_joined": transaction_replay.replay_joined,
    "transaction_ended": transaction_replay.replay_ended,
    "transactional_ids_expired": transaction_replay.replay_transactional_ids_expired,
    "producers_expired": log_replay.replay_producers_expired,
    "group": _replay_group,
}


def replay(state: State, record: JournalRecord) -> None:
    """Applies one record.

    Raises KeyError or ValueError where it cannot follow the state: a foreign journal.
    """
    event = record.WhichOneof("event")
    if event is None:
        raise ValueError("a journal record of a kind that this version does not know")
    if record.now_ms > state.clock_ms:
        state.clock_ms = record.now_ms
    EVENTS[event](state, getattr(record, event), record.now_ms)


# What the runtime asks besides; see controlplane.pure.Machine, which this module is.


def now_ms(state: State) -> int:
    """The time of the last record."""
    return state.clock_ms


def cluster_snapshot(state: State) -> ClusterDelta:
    """All topics and the agents that clients are sent to."""
    return state.cluster_snapshot()


def watch(state: State, topic_id: bytes, partition: int) -> PartitionDelta:
    """One watcher more; the whole partition, or that it is deleted."""
    return state.watch(TopicPartition(topic_id=topic_id, partition=partition))


def unwatch(state: State, topic_id: bytes, partition: int) -> None:
    """One watcher less. Raises KeyError if there was none."""
    state.unwatch(TopicPartition(topic_id=topic_id, partition=partition))


def take_changes(state: State) -> list[PartitionDelta | ClusterDelta]:
    """What changed since the last call, in order."""
    return state.take_changes()


def end_session(state: State, session: int, context: Context) -> None:
    """A session is over: agents that it was the only one of are hidden soon."""
    presence.end_session(state, session, context.now_ms)


def forget_tokens(state: State, tokens: Iterable[int]) -> None:
    """Nobody waits under these tokens any more."""
    for token in tokens:
        state.groups.forget_token(token)
