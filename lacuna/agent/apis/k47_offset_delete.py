"""OffsetDelete v0 (KIP-496): deletes offsets of a group, including those that a transaction has staged.

If a member is subscribed to a topic, its offsets are kept and the answer is GROUP_SUBSCRIBED_TO_TOPIC. A group whose
members are not consumers returns NON_EMPTY_GROUP.
"""

from lacuna.agent.api import Api, Call, Pieces, error_in
from lacuna.agent.commits import merged
from lacuna.agent.guards.groups import offset_delete as guard
from lacuna.agent.partitions import find_partitions
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.consumer_groups_pb2 import DeleteOffsets
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.messages.offset_delete import (
    OFFSET_DELETE_REQUEST,
    OFFSET_DELETE_RESPONSE,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Send one command for all partitions that exist."""
    asked = [
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    ]
    found = await find_partitions(call.context, asked)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error_codes = [unknown if each is None else ErrorCode.NONE for each in found]
    partitions = [each for each in found if each is not None]
    command = DeleteOffsets(group_id=request.group_id, partitions=partitions)
    deleted = (await call.context.control.call(Command(delete_offsets=command))).offsets_deleted
    if deleted.error_code:
        return OffsetDeleteResponse(error_code=deleted.error_code)
    codes = merged(error_codes, deleted.error_codes)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                topic.name,
                [
                    OffsetDeleteResponsePartition(each.partition_index, next(codes))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(
    request=OFFSET_DELETE_REQUEST,
    response=OFFSET_DELETE_RESPONSE,
    max_version=0,
    handle=handle,
    refuse=error_in(OFFSET_DELETE_RESPONSE),
    guard=guard,
    pieces=(Pieces(("topics", "partitions"), ("topics", "partitions")),),
    moved=ErrorCode.NOT_COORDINATOR,
    notes="KIP-496",
)
