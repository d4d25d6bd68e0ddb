"""Queries to the control plane for commands and pages. Each raises ControlPlaneUnavailable."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from lacuna.controlplane.client import ClusterView, ControlClient, confirm
from lacuna.controlplane.v1.cluster_pb2 import Topic, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import (
    FetchedGroup,
    ListedGroup,
    ListGroups,
    OffsetFetch,
    OffsetFetchGroup,
)
from lacuna.controlplane.v1.log_pb2 import PartitionState, ReadPartitions
from lacuna.controlplane.v1.transactions_pb2 import (
    DescribeProducers,
    ListTransactions,
    PartitionProducers,
    TransactionListing,
)

#: The maximum number of partitions in one command.
_AT_ONCE: Final = 1000


async def current(control: ControlClient) -> ClusterView:
    """Return the topics and agents, including all changes acknowledged to any client before this call."""
    await confirm(control)
    await control.cluster.ready()
    return control.cluster


def partitions_of(topics: Iterable[Topic]) -> list[TopicPartition]:
    """Return the keys of all partitions of these topics."""
    return [
        TopicPartition(topic_id=topic.topic_id, partition=index)
        for topic in topics
        for index in range(topic.partition_count)
    ]


async def read_partitions(
    control: ControlClient, keys: Sequence[TopicPartition]
) -> Sequence[PartitionState]:
    return [state async for part in read_in_parts(control, keys) for state in part]


async def read_in_parts(
    control: ControlClient, keys: Sequence[TopicPartition]
) -> AsyncIterator[Sequence[PartitionState]]:
    """Yield the partitions' bounds and sizes, one command's worth at a time."""
    for first in range(0, len(keys), _AT_ONCE):
        query = ReadPartitions(partitions=keys[first : first + _AT_ONCE])
        reply = await control.call(Command(read_partitions=query))
        yield reply.partitions_read.partitions


async def producers_in(
    control: ControlClient, keys: Sequence[TopicPartition]
) -> Sequence[PartitionProducers]:
    reply = await control.call(Command(describe_producers=DescribeProducers(partitions=keys)))
    return reply.producers_described.partitions


async def transactions(
    control: ControlClient,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
) -> Sequence[TransactionListing]:
    """Return the transactional ids in these states and of these producers whose transactions have been open for long
    enough.

    By default, return all.
    """
    listing = ListTransactions(states=states, producer_ids=producer_ids, duration_ms=longer_than_ms)
    reply = await control.call(Command(list_transactions=listing))
    return reply.transactions_listed.transactions


async def groups(control: ControlClient) -> Sequence[ListedGroup]:
    return (await control.call(Command(list_groups=ListGroups()))).groups_listed.groups


async def offsets_of(
    control: ControlClient, group_ids: Sequence[str], keys: Sequence[TopicPartition] | None = None
) -> Sequence[FetchedGroup]:
    """Return each group's committed offsets in the given partitions, or in all."""
    queries = [
        OffsetFetchGroup(group_id=each, partitions=keys, all_partitions=keys is None)
        for each in group_ids
    ]
    reply = await control.call(Command(offset_fetch=OffsetFetch(groups=queries)))
    return reply.offsets_fetched.groups
