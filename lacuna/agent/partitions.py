"""Finds the partitions that a request names, and reads their current state from the control plane."""

from collections.abc import Iterable, Sequence

from lacuna.agent.context import AgentContext
from lacuna.agent.internal import topic_by_name
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Topic, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import PartitionState, ReadPartitions


def find_topic(context: AgentContext, name: str, partition: int) -> Topic | None:
    """Return the topic called `name`, which may be internal, if it has that partition; otherwise None."""
    topic = topic_by_name(context.control.cluster, name)
    if topic is None or not 0 <= partition < topic.partition_count:
        return None
    return topic


async def find_partitions(
    context: AgentContext, pairs: Iterable[tuple[str, int]]
) -> list[TopicPartition | None]:
    """Find partitions by (topic name, partition). Returns None for each partition that does not exist.

    If any is missing from the view, the view is first updated from the control plane, since another agent may have just
    created it. A client that receives an unknown-topic error waits, or abandons its commit or transaction. Raises
    ControlPlaneUnavailable.
    """
    wanted = tuple(pairs)
    found = _find_in_view(context, wanted)
    if None in found:
        await current_view(context)
        found = _find_in_view(context, wanted)
    return found


def _find_in_view(
    context: AgentContext, pairs: Iterable[tuple[str, int]]
) -> list[TopicPartition | None]:
    found: list[TopicPartition | None] = []
    for name, partition in pairs:
        topic = find_topic(context, name, partition)
        if topic is None:
            found.append(None)
        else:
            found.append(TopicPartition(topic_id=topic.topic_id, partition=partition))
    return found


async def read_partitions(
    context: AgentContext, found: Sequence[TopicPartition | None]
) -> list[PartitionState]:
    """Read the states of all partitions with one confirming read (S7). Each None gets UNKNOWN_TOPIC_OR_PARTITION.

    Raises ControlPlaneUnavailable.
    """
    wanted = [where for where in found if where is not None]
    states: Iterable[PartitionState] = ()
    if wanted:
        command = Command(read_partitions=ReadPartitions(partitions=wanted))
        states = (await context.control.call(command)).partitions_read.partitions
    read = iter(states)
    unknown = PartitionState(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return [unknown if where is None else next(read) for where in found]
