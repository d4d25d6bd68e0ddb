"""DeleteGroups v0-v3: deletes groups without members, and their offsets (KIP-229).

A group with members returns NON_EMPTY_GROUP, and a group that does not exist returns GROUP_ID_NOT_FOUND.

OffsetDelete v0 (KIP-496): deletes offsets of a group, including those that a transaction has staged.

If a member is subscribed to a topic, the topic's offsets are kept and its partitions get GROUP_SUBSCRIBED_TO_TOPIC. A
group whose members are not consumers returns NON_EMPTY_GROUP.
"""

from collections.abc import Sequence

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.commits import merged
from lacuna.agent.guards.groups import offset_delete as guard
from lacuna.agent.guards.guard import on_each
from lacuna.agent.partitions import find_partitions
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.consumer_groups_pb2 import DeleteOffsets
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import DeleteGroups
from lacuna.wire.messages import offsets as wire
from lacuna.wire.messages.groups import (
    DELETE_GROUPS_REQUEST,
    DELETE_GROUPS_RESPONSE,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def delete(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    command = Command(delete_groups=DeleteGroups(group_ids=request.groups_names))
    deleted = (await call.context.control.call(command)).groups_deleted
    return _answer(request, deleted.error_codes)


def _answer(request: DeleteGroupsRequest, error_codes: Sequence[int]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id, error_code)
            for group_id, error_code in zip(request.groups_names, error_codes, strict=True)
        ]
    )


async def delete_offsets(
    call: Call, request: wire.OffsetDeleteRequest
) -> wire.OffsetDeleteResponse:
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
        return wire.OffsetDeleteResponse(error_code=deleted.error_code)
    codes = merged(error_codes, deleted.error_codes)
    return wire.OffsetDeleteResponse(
        topics=[
            wire.OffsetDeleteResponseTopic(
                topic.name,
                [
                    wire.OffsetDeleteResponsePartition(each.partition_index, next(codes))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


APIS = (
    Api(
        request=DELETE_GROUPS_REQUEST,
        response=DELETE_GROUPS_RESPONSE,
        handle=delete,
        refusal=lambda _call, request, code: _answer(request, [code] * len(request.groups_names)),
        guard=on_each("groups_names", "results", Operation.DELETE, ResourceType.GROUP),
        pieces=(Pieces(("groups_names",), ("results",)),),
        moved=ErrorCode.NOT_COORDINATOR,
    ),
    Api(
        request=wire.OFFSET_DELETE_REQUEST,
        response=wire.OFFSET_DELETE_RESPONSE,
        handle=delete_offsets,
        guard=guard,
        pieces=(Pieces(("topics", "partitions"), ("topics", "partitions")),),
        moved=ErrorCode.NOT_COORDINATOR,
        notes="KIP-496",
    ),
)
