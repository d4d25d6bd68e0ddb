"""From a command to the function that decides it."""

from collections.abc import Callable
from typing import Any

from controlplane.decision import Context
from controlplane.groups.admin import decide_delete, decide_describe, decide_list
from controlplane.groups.committing import decide_commit, decide_fetch, decide_txn_commit
from controlplane.groups.configuring import decide_alter_configs, decide_describe_configs
from controlplane.groups.consumer.heartbeat import decide_consumer_heartbeat
from controlplane.groups.consumer.operators import decide_describe_consumer
from controlplane.groups.consumer.subscriptions import NoTopics, Topics
from controlplane.groups.deadlines import drop_if_nothing, end_overdue
from controlplane.groups.deleting import decide_delete_offsets
from controlplane.groups.joining import decide_join
from controlplane.groups.membership import decide_heartbeat, decide_leave, decide_sync
from controlplane.groups.store import Groups
from controlplane.groups.turn import GroupDecision, PartitionExists, Turn, any_partition
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.groups_pb2 import TxnOffsetCommit

_DECIDERS: dict[str, Callable[[Turn, Any], Reply | None]] = {
    "join_group": decide_join,
    "sync_group": decide_sync,
    "heartbeat": decide_heartbeat,
    "leave_group": decide_leave,
    "offset_commit": decide_commit,
    "offset_fetch": decide_fetch,
    "describe_groups": decide_describe,
    "list_groups": decide_list,
    "delete_groups": decide_delete,
    "consumer_group_heartbeat": decide_consumer_heartbeat,
    "describe_consumer_groups": decide_describe_consumer,
    "delete_offsets": decide_delete_offsets,
    "alter_group_configs": decide_alter_configs,
    "describe_group_configs": decide_describe_configs,
}

# TxnOffsetCommit is not among them: its transaction is to be checked first.
GROUP_VERBS = frozenset(_DECIDERS)


class NotAGroupCommandError(Exception):
    """A command that is not for groups reached them: our own mistake."""

    def __init__(self, verb: str | None) -> None:
        super().__init__(f"{verb} is not a command of groups")


def decide(
    groups: Groups,
    command: Command,
    context: Context,
    partition_exists: PartitionExists = any_partition,
    topics: Topics | None = None,
) -> GroupDecision:
    """Decide one of GROUP_VERBS. `partition_exists` refuses commits for deleted topics (S6)."""
    verb = command.WhichOneof("verb")
    decider = _DECIDERS.get(verb or "")
    if verb is None or decider is None:
        raise NotAGroupCommandError(verb)
    turn = Turn(
        groups=groups,
        context=context,
        partition_exists=partition_exists,
        topics=topics or NoTopics(),
    )
    request = getattr(command, verb)
    reply = decider(turn, request)
    group = groups.live.groups.get(getattr(request, "group_id", ""))
    if group is not None:
        drop_if_nothing(turn, group)
    return turn.end(reply)


def decide_txn(
    groups: Groups,
    command: TxnOffsetCommit,
    context: Context,
    partition_exists: PartitionExists = any_partition,
) -> GroupDecision:
    """Decide a transactional commit whose transaction the caller found valid."""
    turn = Turn(groups=groups, context=context, partition_exists=partition_exists)
    return turn.end(decide_txn_commit(turn, command))


def decide_tick(groups: Groups, context: Context, topics: Topics | None = None) -> GroupDecision:
    """End what is overdue at `context.now_ms`."""
    turn = Turn(groups=groups, context=context, topics=topics or NoTopics())
    end_overdue(turn)
    return GroupDecision(records=turn.records, reply=None, completions=turn.completions)
