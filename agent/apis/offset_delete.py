"""OffsetDelete v0: committed offsets of a group, taken away (KIP-496).

Not those of topics that a member is subscribed to (GROUP_SUBSCRIBED_TO_TOPIC), and none of a group that has
members and is not one of consumers (NON_EMPTY_GROUP).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.apis.group_offsets import merged
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.apis.transactions import find_partitions
from controlplane.errors import ErrorCode
from controlplane.v1.consumer_groups_pb2 import DeleteOffsets
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command with all partitions that exist."""
    asked = [
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    ]
    found = await find_partitions(context, asked)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error_codes = [unknown if each is None else ErrorCode.NONE for each in found]
    partitions = [each for each in found if each is not None]
    command = DeleteOffsets(group_id=request.group_id, partitions=partitions)
    deleted = (await context.control.call(Command(delete_offsets=command))).offsets_deleted
    if deleted.error_code:
        return refuse(request, deleted.error_code)
    return _answer(request, merged(error_codes, deleted.error_codes))


def refuse(request: Any, error_code: int) -> Any:
    """The error, and no topics."""
    return build(request, "OffsetDeleteResponse", error_code=error_code, topics=())


def _answer(request: Any, error_codes: Iterator[int]) -> Any:
    topics = tuple(
        build(
            request,
            "OffsetDeleteResponseTopic",
            name=topic.name,
            partitions=tuple(
                build(
                    request,
                    "OffsetDeleteResponsePartition",
                    partition_index=partition.partition_index,
                    error_code=next(error_codes),
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return build(request, "OffsetDeleteResponse", error_code=0, topics=topics)


API = Api(
    key=47,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
    notes="KIP-496",
)
