"""What the APIs of groups share: topics to topic ids and back, names that may be null, durations."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agent.apis.transactions import find_topic
from agent.views import current_view
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import Topic, TopicPartition
from controlplane.v1.groups_pb2 import CommittedOffset

if TYPE_CHECKING:
    from agent.context import AgentContext

_MILLISECOND = timedelta(milliseconds=1)
_NO_LEADER_EPOCH = -1


def duration(count: int) -> timedelta:
    """So many milliseconds."""
    return count * _MILLISECOND


def or_none(text: str) -> str | None:
    """The control plane's empty string is Kafka's null."""
    return text or None


def topic_of(context: "AgentContext", entry: Any) -> Topic | None:
    """The topic that a request names, by its id where the version has ids; None: no such topic."""
    cluster = context.control.cluster
    if hasattr(entry, "topic_id"):
        return cluster.topics_by_id.get(id_bytes(entry))
    return cluster.topics_by_name.get(entry.name)


def id_bytes(entry: Any) -> bytes:
    """The topic id of a request's entry; zeros where it was null."""
    return entry.topic_id.bytes if entry.topic_id is not None else bytes(16)


def unknown_topic(entry: Any) -> ErrorCode:
    """What a client hears of a topic that does not exist."""
    if hasattr(entry, "topic_id"):
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def commits_of(
    context: "AgentContext", topics: Sequence[Any]
) -> tuple[list[CommittedOffset], list[int]]:
    """The commits that can be sent, and an error code for every partition of the request (0: sent).

    A topic that is not in the view is looked for at the control plane, as `find_partitions` does: librdkafka gives
    up a commit of one that is unknown. Raises ControlPlaneUnavailable.
    """
    commits, error_codes = _commits_in_view(context, topics)
    if any(error_codes):
        await current_view(context)
        commits, error_codes = _commits_in_view(context, topics)
    return commits, error_codes


def _commits_in_view(
    context: "AgentContext", topics: Iterable[Any]
) -> tuple[list[CommittedOffset], list[int]]:
    commits: list[CommittedOffset] = []
    error_codes: list[int] = []
    for entry in topics:
        topic = topic_of(context, entry)
        for partition in entry.partitions:
            if topic is None:
                error_codes.append(unknown_topic(entry))
            elif find_topic(context, topic.name, partition.partition_index) is None:
                error_codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                error_codes.append(ErrorCode.NONE)
                commits.append(_commit_of(topic.topic_id, partition))
    return commits, error_codes


def _commit_of(topic_id: bytes, partition: Any) -> CommittedOffset:
    return CommittedOffset(
        partition=TopicPartition(topic_id=topic_id, partition=partition.partition_index),
        offset=partition.committed_offset,
        leader_epoch=getattr(partition, "committed_leader_epoch", _NO_LEADER_EPOCH),
        metadata=partition.committed_metadata or "",
    )


def merged(error_codes: Sequence[int], answered: Sequence[int]) -> Iterator[int]:
    """Error codes of all partitions: those found here, and the answers for those that were sent."""
    each_answer = iter(answered)
    return (error_code or next(each_answer) for error_code in error_codes)
