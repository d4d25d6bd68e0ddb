"""Describes cluster events of interest to operators, in one line each (`--verbose`)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.state.groups.consumer.group import ConsumerGroup
from lacuna.controlplane.state.groups.consumer.member import Subscription
from lacuna.controlplane.state.groups.streams import Metadata, StreamsGroup
from lacuna.controlplane.state.state import NO_NODE, State
from lacuna.controlplane.v1.cluster_pb2 import PartitionCounts
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupStep,
    ConsumerSubscription,
    StreamsGroupStep,
    StreamsMetadata,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.group_records_pb2 import GroupGeneration, GroupMember, GroupRecord
from lacuna.controlplane.v1.journal_pb2 import (
    AgentJoined,
    JournalRecord,
    LeasesEnded,
    ProducerInitialized,
    TopicsAdded,
    TopicsRemoved,
    TransactionEnded,
)

#: The maximum number of names in a line.
_MOST: Final = 10


def describe(state: State, command: Command | None, record: JournalRecord) -> str:
    """Describe the effect of a record before its replay, or return "" for a routine event.

    `command` is the one whose decision wrote the record, or None if the passage of time was the cause.
    """
    event = record.WhichOneof("event")
    tell = _TELLERS.get(event) if event else None
    return "" if tell is None else tell(state, command, getattr(record, event))


def _topics_added(_state: State, _command: Command | None, record: TopicsAdded) -> str:
    return "created " + _some([f"{each.name} ({each.partition_count})" for each in record.topics])


def _topics_removed(state: State, _command: Command | None, record: TopicsRemoved) -> str:
    return "deleted " + _some([_topic(state, topic_id) for topic_id in record.topic_ids])


def _partitions_added(state: State, _command: Command | None, record: PartitionCounts) -> str:
    grown = zip(record.topic_ids, record.partition_counts, strict=True)
    return "grew " + _some([f"{_topic(state, topic_id)} to {count}" for topic_id, count in grown])


def _agent_joined(_state: State, _command: Command | None, record: AgentJoined) -> str:
    return f"agent {record.host}:{record.port} (node {record.node_id}) has joined"


def _leases_ended(state: State, command: Command | None, record: LeasesEnded) -> str:
    why = "its lease expired" if command is None else "it was shut down"
    nodes = {node.node_id: node for node in state.nodes.values()}
    gone = []
    for lease_id in record.lease_ids:
        lease = state.leases.get(lease_id)
        if lease is not None and lease.node_id != NO_NODE:
            node = nodes[lease.node_id]
            gone.append(f"agent {node.host}:{node.port} (node {node.node_id})")
    return f"{_some(gone)} has left: {why}" if gone else ""


def _transaction_ended(state: State, command: Command | None, record: TransactionEnded) -> str:
    if record.committed:
        return ""
    name = state.producers[record.producer_id].transactional_id
    return f"aborted the transaction of {name!r}: {_by_whom(command)}"


def _by_whom(command: Command | None) -> str:
    if command is None:
        return "it exceeded its timeout"
    if command.WhichOneof("verb") == "abort_txn":
        return "an operator requested it"
    return "its producer requested it"


def _producer_initialized(
    state: State, _command: Command | None, record: ProducerInitialized
) -> str:
    found = state.transactional_ids.get(record.transactional_id)
    if not record.has_transactional_id or found is None or not found.is_ongoing:
        return ""
    return (
        f"aborted the transaction of {record.transactional_id!r}: a producer with the same "
        "transactional id has started"
    )


def _group(state: State, _command: Command | None, record: GroupRecord) -> str:
    match record.WhichOneof("record"):
        case "group_generation":
            return _generation(state, record.group_generation)
        case "consumer_group_step":
            step = record.consumer_group_step
            return _epoch(step, state.groups.consumers.get(step.group_id), "subscription")
        case "streams_group_step":
            streams = record.streams_group_step
            return _epoch(streams, state.groups.streams.get(streams.group_id), "metadata")
        case _:
            return ""


def _generation(state: State, record: GroupGeneration) -> str:
    # A generation is journalled a second time when a static member returns under a new id.
    before = state.groups.generations.get(record.group_id)
    if before is not None and before.generation_id == record.generation_id:
        return ""
    members = _members([_client(each) for each in record.members])
    return f"group {record.group_id!r} rebalanced: generation {record.generation_id}, {members}"


def _epoch(
    record: ConsumerGroupStep | StreamsGroupStep,
    before: ConsumerGroup | StreamsGroup | None,
    part: str,
) -> str:
    """Describe a new epoch. `part` names the field of a member's record that describes its client."""
    if before is not None and before.group_epoch == record.group_epoch:
        return ""
    clients = {} if before is None else _clients(before.members.values(), part)
    for member_id in record.removed_member_ids:
        clients.pop(member_id, None)
    # A member without this part was already in the group.
    clients |= _clients((each for each in record.members if each.HasField(part)), part)
    members = _members(sorted(clients.values()))
    return f"group {record.group_id!r} rebalances: epoch {record.group_epoch}, {members}"


def _clients(members: Iterable[Any], part: str) -> dict[str, str]:
    return {each.member_id: _client(getattr(each, part)) for each in members}


def _client(
    member: GroupMember | Subscription | ConsumerSubscription | Metadata | StreamsMetadata,
) -> str:
    # Client hosts begin with a slash, as in Kafka.
    return f"{member.client_id}@{member.client_host.removeprefix('/')}"


def _members(names: list[str]) -> str:
    if not names:
        return "no members"
    return f"{len(names)} member{'s' if len(names) > 1 else ''}: {_some(names)}"


def _topic(state: State, topic_id: bytes) -> str:
    found = state.topics.get(topic_id)
    return show_id(topic_id) if found is None else found.name


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


_TELLERS: Final[Mapping[str, Callable[[State, Command | None, Any], str]]] = {
    "topics_added": _topics_added,
    "topics_removed": _topics_removed,
    "group": _group,
    "partitions_added": _partitions_added,
    "agent_joined": _agent_joined,
    "leases_ended": _leases_ended,
    "producer_initialized": _producer_initialized,
    "transaction_ended": _transaction_ended,
}
