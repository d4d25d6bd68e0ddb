"""Groups, classic and of KIP-848, and committed offsets: pure and deterministic (S26).

    handle(groups, command, context, partition_exists=...) -> Decision      # one of GROUP_VERBS
    decide_txn_offset_commit(groups, command, context, partition_exists=...) -> Decision
    tick(groups, context) -> Decision
    replay(groups, record)
    groups.end_transaction(producer_id, committed)   # from the replay of a transaction's outcome
    groups.forget_topic(topic_id)                    # from the replay of a topic's deletion
    groups.forget_token(token)                       # who waited under it is gone
    groups.to_snapshot() / Groups.from_snapshot(snapshot, settings)

Behaviour is that of Kafka 4.1. `consumer` holds the consumer groups of KIP-848; the rest is about
classic groups and what both have in common. Durable are offsets and generations; a generation is
journalled when the leader's assignment arrives, when a static member is replaced in a stable
group, and when a group becomes empty. Who is joining, who waits for an answer and all deadlines are
volatile (`live`).
"""

from controlplane.decision import Context, Decision
from controlplane.groups.consumer.subscriptions import NoTopics, Topics
from controlplane.groups.dispatch import (
    GROUP_VERBS,
    NotAGroupCommandError,
    decide,
    decide_tick,
    decide_txn,
)
from controlplane.groups.settings import GroupSettings
from controlplane.groups.states import TRANSITIONS, GroupState, IllegalTransitionError
from controlplane.groups.store import Groups, UnknownGroupRecordError, replay
from controlplane.groups.turn import GroupDecision, PartitionExists, any_partition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import TxnOffsetCommit
from controlplane.v1.journal_pb2 import JournalRecord

__all__ = [
    "GROUP_VERBS",
    "TRANSITIONS",
    "GroupSettings",
    "GroupState",
    "Groups",
    "IllegalTransitionError",
    "NoTopics",
    "NotAGroupCommandError",
    "PartitionExists",
    "Topics",
    "UnknownGroupRecordError",
    "decide_txn_offset_commit",
    "handle",
    "replay",
    "tick",
]


def handle(
    groups: Groups,
    command: Command,
    context: Context,
    *,
    partition_exists: PartitionExists = any_partition,
    topics: Topics | None = None,
) -> Decision:
    """Decide one of GROUP_VERBS; the caller replays the records at once.

    `partition_exists` (topic id, partition) refuses commits for what is deleted (S6). `topics` are
    those of the cluster, which consumer groups assign; None: there are none.
    """
    return _journalled(decide(groups, command, context, partition_exists, topics), context.now_ms)


def decide_txn_offset_commit(
    groups: Groups,
    command: TxnOffsetCommit,
    context: Context,
    *,
    partition_exists: PartitionExists = any_partition,
) -> Decision:
    """Decide a transactional commit whose transaction the caller found valid (S4, KIP-447)."""
    return _journalled(decide_txn(groups, command, context, partition_exists), context.now_ms)


def tick(groups: Groups, context: Context, topics: Topics | None = None) -> Decision:
    """End sessions, joins, syncs and offsets that are overdue at `context.now_ms`."""
    return _journalled(decide_tick(groups, context, topics), context.now_ms)


def _journalled(decided: GroupDecision, now_ms: int) -> Decision:
    return Decision(
        records=[JournalRecord(now_ms=now_ms, group=record) for record in decided.records],
        reply=decided.reply,
        completions=decided.completions,
    )
