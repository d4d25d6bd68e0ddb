"""The pure state machine: commands are decided into journal records, and only records change durable state.

    handle(state, command, context) -> Decision    # decides a command; changes nothing durable
    needs_proof(command, decision) -> bool         # whether an answer waits for a proof that this one leads
    replay(state, record)                          # applies one record completely
    tick(state, context) -> Decision               # decides what is overdue
    found(state, cluster_id, context) -> Decision  # the first record of a new journal
    set_time(now_ms) -> Decision                   # an operator knows better what time it is
    snapshot_parts(state) -> Iterator[bytes], restore(parts) -> State

The caller replays a decision's records at once, in order, before it decides anything else. The machine does no I/O,
and takes time and randomness only from the Context.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lacuna.controlplane.decision import Context, Decision
from lacuna.controlplane.state.formats import RECORD_FORMAT, LaterFormatError
from lacuna.controlplane.state.snapshot import restore, restore_part, snapshot, snapshot_parts
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.telling import describe
from lacuna.controlplane.v1.control_pb2 import Command, Failure, Reply
from lacuna.controlplane.v1.journal_pb2 import ClusterFounded, JournalRecord
from lacuna.controlplane.verbs import (
    agents,
    commits,
    compaction,
    describing,
    housekeeping,
    internal,
    losses,
    merging,
    outcomes,
    presence,
    producers,
    reading,
    retention,
    securing,
    sharing,
    swapping,
    times,
    topics,
    transactions,
    windows,
)
from lacuna.controlplane.verbs.groups import (
    admin,
    committing,
    configuring,
    deadlines,
    deleting,
    generations,
    joining,
    membership,
)
from lacuna.controlplane.verbs.groups.consumer import advance, heartbeat, operators
from lacuna.controlplane.verbs.losses import accept_loss
from lacuna.controlplane.verbs.parts import check_length
from lacuna.controlplane.verbs.presence import end_session
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.times import set_time
from lacuna.controlplane.verbs.turn import Turn

__all__ = [
    "LaterFormatError",
    "State",
    "accept_loss",
    "describe",
    "end_session",
    "found",
    "handle",
    "needs_proof",
    "replay",
    "restore",
    "restore_part",
    "set_time",
    "snapshot",
    "snapshot_parts",
    "tick",
]


# Messages are looked up by field name, which mypy cannot follow, so the two tables below use Any:
# each function takes the message in the field of Command, JournalRecord or GroupRecord that its key names.
_Decide = Callable[[Turn, Any], Reply | None]
_Replay = Callable[[State, Any, int], None]

#: verb -> the function that decides it. If that returns None, the command is parked: a later decision answers it.
VERBS: Final[Mapping[str, _Decide]] = {
    "register_agent": agents.register_agent,
    "renew_lease": agents.renew_lease,
    "release_lease": agents.release_lease,
    "open_lease": agents.open_lease,
    "describe_leases": losses.describe_leases,
    "describe_cluster": describing.describe_cluster,
    "create_topics": topics.create_topics,
    "delete_topics": topics.delete_topics,
    "create_partitions": topics.create_partitions,
    "alter_topic_configs": topics.alter_topic_configs,
    "alter_security": securing.alter_security,
    "share_quotas": sharing.share_quotas,
    "commit_segment": commits.commit_segment,
    "read_partitions": reading.read_partitions,
    "read_as_of": reading.read_as_of,
    "read_histories": reading.read_histories,
    "read_internal": internal.read_internal,
    "delete_records": housekeeping.delete_records,
    "plan_merge": merging.plan_merge,
    "swap_extents": swapping.swap_extents,
    "plan_compaction": compaction.plan_compaction,
    "describe_merges": describing.describe_merges,
    "plan_collection": housekeeping.plan_collection,
    "filter_uncommitted": housekeeping.filter_uncommitted,
    "confirm_collection": housekeeping.confirm_collection,
    "pin_reads": housekeeping.pin_reads,
    "unpin_reads": housekeeping.unpin_reads,
    "init_producer_id": producers.init_producer_id,
    "add_partitions_to_txn": transactions.add_partitions_to_txn,
    "add_offsets_to_txn": transactions.add_offsets_to_txn,
    "txn_offset_commit": transactions.txn_offset_commit,
    "end_txn": outcomes.end_txn,
    "abort_txn": outcomes.abort_txn,
    "describe_producers": reading.describe_producers,
    "describe_transactions": reading.describe_transactions,
    "list_transactions": reading.list_transactions,
    "join_group": joining.join_group,
    "sync_group": membership.sync_group,
    "heartbeat": membership.heartbeat,
    "leave_group": membership.leave_group,
    "offset_commit": committing.offset_commit,
    "offset_fetch": committing.offset_fetch,
    "describe_groups": admin.describe_groups,
    "list_groups": admin.list_groups,
    "delete_groups": admin.delete_groups,
    "delete_offsets": deleting.delete_offsets,
    "alter_group_configs": configuring.alter_group_configs,
    "describe_group_configs": configuring.describe_group_configs,
    "consumer_group_heartbeat": heartbeat.consumer_group_heartbeat,
    "describe_consumer_groups": operators.describe_consumer_groups,
}


#: Verbs that only look. Their answers may be a lease old if two control planes lead at a time, against all rules.
LOOKS: Final = frozenset(
    {
        "renew_lease",
        "share_quotas",
        "describe_leases",
        "describe_cluster",
        "read_partitions",
        "read_as_of",
        "read_histories",
        "read_internal",
        "plan_merge",
        "plan_compaction",
        "describe_merges",
        "describe_producers",
        "describe_transactions",
        "list_transactions",
        "heartbeat",
        "describe_groups",
        "list_groups",
        "describe_group_configs",
        "consumer_group_heartbeat",
        "describe_consumer_groups",
    }
)


def _replay_founded(state: State, record: ClusterFounded, _now_ms: int) -> None:
    if state.cluster_id:
        raise ValueError(f"the journal of cluster {state.cluster_id} has a second founding record")
    state.cluster_id = record.cluster_id


#: kind of journal record (or of the GroupRecord in it) -> the function that replays it, in the module that writes it.
REPLAYS: Final[Mapping[str, _Replay]] = {
    "cluster_founded": _replay_founded,
    "agent_joined": agents.replay_agent_joined,
    "job_lease_opened": agents.replay_job_lease_opened,
    "time_set": times.replay_time_set,
    "loss_accepted": losses.replay_loss_accepted,
    "leases_ended": agents.replay_leases_ended,
    "leases_used_late": agents.replay_leases_used_late,
    "topics_added": topics.replay_topics_added,
    "topics_removed": topics.replay_topics_removed,
    "partitions_added": topics.replay_partitions_added,
    "configs_changed": topics.replay_configs_changed,
    "security_changed": securing.replay_security_changed,
    "segment_recorded": commits.replay_segment_recorded,
    "log_starts_moved": housekeeping.replay_log_starts_moved,
    "extents_replaced": swapping.replay_extents_replaced,
    "segments_collected": housekeeping.replay_segments_collected,
    "segments_released": housekeeping.replay_segments_released,
    "pin_taken": housekeeping.replay_pin_taken,
    "pin_prolonged": housekeeping.replay_pin_prolonged,
    "pins_ended": housekeeping.replay_pins_ended,
    "producer_initialized": producers.replay_producer_initialized,
    "transaction_joined": transactions.replay_transaction_joined,
    "transaction_ended": outcomes.replay_transaction_ended,
    "transactional_ids_expired": producers.replay_transactional_ids_expired,
    "producers_expired": windows.replay_producers_expired,
    "group_generation": generations.replay_group_generation,
    "group_deleted": admin.replay_group_deleted,
    "offsets_written": committing.replay_offsets_written,
    "txn_offsets_pended": committing.replay_txn_offsets_pended,
    "offsets_expired": deleting.replay_offsets_expired,
    "consumer_group_step": advance.replay_consumer_group_step,
    "group_configs_changed": configuring.replay_group_configs_changed,
}


def handle(state: State, command: Command, context: Context) -> Decision:
    """Decide one command. The reply to a malformed command is a Failure."""
    verb = command.WhichOneof("verb")
    decide = VERBS.get(verb) if verb else None
    turn = Turn(state, context, command.principal)
    try:
        if decide is None:
            raise MalformedCommand(
                f"this version does not know {verb or 'a command without a verb'}"
            )
        message = getattr(command, verb)
        check_length(verb, message)
        decision = turn.end(decide(turn, message))
    except MalformedCommand as malformed:
        failure = Failure(error_code=malformed.code, message=malformed.message)
        decision = Decision(reply=Reply(failure=failure))
    if decision.reply is not None:
        decision.reply.command_id = command.command_id
    return decision


def needs_proof(command: Command, decision: Decision) -> bool:
    """Return whether a reply may leave only once the journal has shown that this control plane still led.

    A reply with records waits for the journal anyway, and a look may be a lease old. Without the proof, an earlier
    leader could say that a transaction has been committed already, and know only of the one before.
    """
    is_look = command.WhichOneof("verb") in LOOKS
    return decision.reply is not None and not decision.records and not is_look


def tick(state: State, context: Context) -> Decision:
    """Decide what is overdue. The runtime calls this every `tick_interval_ms` (250 ms)."""
    turn = Turn(state, context)
    state.rewriting.begin(turn.now_ms)
    agents.tick_leases(turn)
    outcomes.tick_transactions(turn)
    if not context.is_time_doubtful:
        producers.tick_transactional_ids(turn)
        housekeeping.tick_pins(turn)
        securing.tick_tokens(turn)
    windows.tick_producers(turn)
    retention.tick_retention(turn)
    housekeeping.tick_releases(turn)
    presence.tick_presence(turn)
    deadlines.tick_groups(turn)
    internal.tick_internal(turn)
    return turn.end(None)


def replay(state: State, record: JournalRecord) -> None:
    """Apply one record to the state.

    Raises LaterFormatError, and KeyError or ValueError if the record cannot follow the state.
    """
    event = record.WhichOneof("event")
    message: Any = record
    if event == "group":
        message = record.group
        event = message.WhichOneof("record")
        if message.principal:
            state.groups.owners.own(getattr(message, event).group_id, message.principal)
    if event is None:
        raise LaterFormatError("a record of a kind that this version does not know")
    if record.format_version > RECORD_FORMAT:
        raise LaterFormatError(
            f"a record of format {record.format_version}, and this version reads up to {RECORD_FORMAT}"
        )
    if record.now_ms > state.clock_ms:
        state.clock_ms = record.now_ms
    if record.begins_internal_topics:
        internal.replay_beginning(state)
    REPLAYS[event](state, getattr(message, event), record.now_ms)


def found(state: State, cluster_id: str, context: Context) -> Decision:
    """Decide the first record of a new journal, which gives the cluster its id."""
    if not cluster_id:
        raise ValueError("a cluster needs an id; make one from 16 random bytes")
    turn = Turn(state, context)
    founded = ClusterFounded(cluster_id=cluster_id)
    turn.journal(JournalRecord(cluster_founded=founded, begins_internal_topics=True))
    return turn.end(None)
