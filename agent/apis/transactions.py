"""What the APIs of transactions share: names of errors by version, topics by name."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent.views import current_view
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import Topic, TopicPartition

if TYPE_CHECKING:
    from agent.context import AgentContext

_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


def fenced(error_code: int, knows_producer_fenced: bool) -> int:
    """A fenced producer hears PRODUCER_FENCED where its version knows that (KIP-588), else the older error."""
    if error_code not in _FENCED:
        return error_code
    return int(_FENCED[0] if knows_producer_fenced else _FENCED[1])


def find_topic(context: "AgentContext", name: str, partition: int) -> Topic | None:
    """The topic, if it has that partition."""
    topic = context.control.cluster.topics_by_name.get(name)
    if topic is None or not 0 <= partition < topic.partition_count:
        return None
    return topic


async def find_partitions(
    context: "AgentContext", pairs: Iterable[tuple[str, int]]
) -> list[TopicPartition | None]:
    """By (name, partition): where it is, or None for what does not exist.

    Where one is not in the view, as the control plane has it now: another agent may have just made it, and a client
    that hears of an unknown topic waits, or gives its commit or its transaction up. Raises ControlPlaneUnavailable.
    """
    wanted = tuple(pairs)
    found = _find_in_view(context, wanted)
    if None in found:
        await current_view(context)
        found = _find_in_view(context, wanted)
    return found


def _find_in_view(
    context: "AgentContext", pairs: Iterable[tuple[str, int]]
) -> list[TopicPartition | None]:
    found: list[TopicPartition | None] = []
    for name, partition in pairs:
        topic = find_topic(context, name, partition)
        if topic is None:
            found.append(None)
        else:
            found.append(TopicPartition(topic_id=topic.topic_id, partition=partition))
    return found
