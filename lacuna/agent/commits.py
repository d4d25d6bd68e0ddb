"""Converts the offset commits in a request into the control plane's form, and unknown partitions into errors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from lacuna.agent.context import AgentContext
from lacuna.agent.internal import topic_by_id, topic_by_name
from lacuna.agent.partitions import find_topic
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset
from lacuna.wire.messages.offsets import (
    OffsetCommitRequestPartition,
    TxnOffsetCommitRequestPartition,
)

PartitionCommit: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
#: A topic's id or name, as in the request, and the commits of its partitions.
TopicCommits: TypeAlias = tuple[bytes | str, Sequence[PartitionCommit]]


async def commits_of(
    context: AgentContext, topics: Sequence[TopicCommits]
) -> tuple[list[CommittedOffset], list[int]]:
    """Return the commits of existing partitions, and an error code for every partition, in the order of the request.

    Code 0 means that the commit is among those returned. A topic missing from the view is looked up in the control
    plane, as in `find_partitions`, because librdkafka abandons a commit if the topic is unknown. Raises
    ControlPlaneUnavailable.
    """
    commits, error_codes = _commits_in_view(context, topics)
    if any(error_codes):
        await current_view(context)
        commits, error_codes = _commits_in_view(context, topics)
    return commits, error_codes


def _commits_in_view(
    context: AgentContext, topics: Iterable[TopicCommits]
) -> tuple[list[CommittedOffset], list[int]]:
    cluster = context.control.cluster
    commits: list[CommittedOffset] = []
    error_codes: list[int] = []
    for key, partitions in topics:
        if isinstance(key, bytes):
            topic, unknown = topic_by_id(cluster, key), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic, unknown = topic_by_name(cluster, key), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions:
            if topic is None:
                error_codes.append(unknown)
            elif find_topic(context, topic.name, partition.partition_index) is None:
                error_codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                error_codes.append(ErrorCode.NONE)
                commits.append(_commit_of(topic.topic_id, partition))
    return commits, error_codes


def _commit_of(topic_id: bytes, partition: PartitionCommit) -> CommittedOffset:
    return CommittedOffset(
        partition=TopicPartition(topic_id=topic_id, partition=partition.partition_index),
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
    )


def merged(error_codes: Sequence[int], answered: Sequence[int]) -> Iterator[int]:
    """Yield each partition's own error code or, if that is 0, the control plane's next code in `answered`."""
    each_answer = iter(answered)
    return (error_code or next(each_answer) for error_code in error_codes)
