"""The rights that a job needs for a command if ACLs apply: rules for the rows of verbs (`verb`).

A job is a session that is not part of the cluster (`controlplane.rights`). A rule of a single verb is beside its row.
"""

from collections.abc import Callable, Iterable, Iterator
from shlex import quote
from typing import Any, NamedTuple

from google.protobuf.message import Message

from lacuna.controlplane.shared.acls import CLUSTER_NAME, WILDCARD, Operation, ResourceType
from lacuna.controlplane.state.state import NO_NODE, State
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition


class Need(NamedTuple):
    """One of the operations on a resource. Without a name, it applies to any resource of the type; "" is a
    hidden name.
    """

    operations: tuple[Operation, ...]
    resource_type: ResourceType
    name: str | None

    def words(self) -> str:
        """Describe the denied operation."""
        what = " or ".join(each.name for each in self.operations)
        kind = self.resource_type.name.lower().replace("_", " ")
        if self.name is None:
            return f"{what} any {kind}"
        if not self.name:
            return f"{what} a {kind} that it may not describe"
        if self.resource_type is ResourceType.CLUSTER:
            return f"{what} the cluster"
        return f"{what} {kind} {self.name}"

    def remedy(self, principal: str) -> str:
        """Return the command that allows the operation."""
        option = f"--{self.resource_type.name.lower().replace('_', '-')}"
        is_cluster = self.resource_type is ResourceType.CLUSTER
        named = "" if is_cluster else f" {quote(self.name or 'NAME')}"
        operation = "".join(word.capitalize() for word in self.operations[0].name.split("_"))
        return f"lacuna acls add --allow-principal {quote(principal)} --operation {operation} {option}{named}"


#: Returns the rights that a command needs. Messages differ, and each rule knows those of its verbs.
Rule = Callable[[Any, State], Iterator[Need]]


def on_topics(
    operation: Operation, partitions: Iterable[TopicPartition], state: State
) -> Iterator[Need]:
    """Yield needs on the topics of partitions."""
    return on_topic_ids(operation, (each.topic_id for each in partitions), state)


def on_topic_ids(operation: Operation, topic_ids: Iterable[bytes], state: State) -> Iterator[Need]:
    """Yield needs on topics. A topic that does not exist needs nothing; the reply says so."""
    for topic_id in dict.fromkeys(topic_ids):
        if name := state.topic_name(topic_id):
            yield Need((operation,), ResourceType.TOPIC, name)


def of_partitions(operation: Operation) -> Rule:
    """Return a rule for commands that name partitions."""
    return lambda command, state: on_topics(operation, command.partitions, state)


def of_groups(operation: Operation) -> Rule:
    """Return a rule for commands that name groups."""

    def needs(command: Any, _state: State) -> Iterator[Need]:
        for group_id in command.group_ids:
            yield Need((operation,), ResourceType.GROUP, group_id)

    return needs


def of_transaction(command: Any, _state: State) -> Iterator[Need]:
    """Yield the needs of a command on one transaction."""
    yield Need((Operation.WRITE,), ResourceType.TRANSACTIONAL_ID, command.transactional_id)


def works_with_records(_command: Message, _state: State) -> Iterator[Need]:
    """Yield the needs of every job that reads or writes records, regardless of its topics."""
    yield Need((Operation.READ, Operation.WRITE, Operation.ALTER), ResourceType.TOPIC, None)


def own_leases(lease_ids: Iterable[int], state: State) -> Iterator[Need]:
    """Yield a need for each lease of an agent, because only the cluster itself may use it."""
    for lease_id in set(lease_ids):
        lease = state.leases.get(lease_id)
        if lease is not None and lease.node_id != NO_NODE:
            yield Need((Operation.CLUSTER_ACTION,), ResourceType.CLUSTER, CLUSTER_NAME)


def of_lease(command: Any, state: State) -> Iterator[Need]:
    """Yield the needs of a command on one lease."""
    yield from works_with_records(command, state)
    yield from own_leases([command.lease_id], state)


def reads_all(_command: Message, _state: State) -> Iterator[Need]:
    """Yield READ on all topics, because an audit of the bucket would report objects of unknown topics as lost."""
    yield Need((Operation.READ,), ResourceType.TOPIC, WILDCARD)


def describes_cluster(_command: Message, _state: State) -> Iterator[Need]:
    """Yield DESCRIBE on the cluster."""
    yield Need((Operation.DESCRIBE,), ResourceType.CLUSTER, CLUSTER_NAME)


def nothing(_command: Message, _state: State) -> Iterator[Need]:
    """Yield nothing, for lists, which omit what a job may not describe."""
    return iter(())
