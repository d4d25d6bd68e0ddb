"""DeleteGroups v0-v3: deletes groups without members, and their offsets (KIP-229).

A group with members returns NON_EMPTY_GROUP, and one that does not exist GROUP_ID_NOT_FOUND.
"""

from collections.abc import Sequence

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.guard import on_each
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import DeleteGroups
from lacuna.wire.messages.delete_groups import (
    DELETE_GROUPS_REQUEST,
    DELETE_GROUPS_RESPONSE,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Send one command for all groups."""
    command = Command(delete_groups=DeleteGroups(group_ids=request.groups_names))
    deleted = (await call.context.control.call(command)).groups_deleted
    return _answer(request, deleted.error_codes)


def refuse(_call: Call, request: DeleteGroupsRequest, error_code: int) -> DeleteGroupsResponse:
    """Answer every group with the error."""
    return _answer(request, [error_code] * len(request.groups_names))


def _answer(request: DeleteGroupsRequest, error_codes: Sequence[int]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id, error_code)
            for group_id, error_code in zip(request.groups_names, error_codes, strict=True)
        ]
    )


API = Api(
    request=DELETE_GROUPS_REQUEST,
    response=DELETE_GROUPS_RESPONSE,
    max_version=3,
    handle=handle,
    refuse=refuse,
    guard=on_each("groups_names", "results", Operation.DELETE, ResourceType.GROUP),
    pieces=(Pieces(("groups_names",), ("results",)),),
    moved=ErrorCode.NOT_COORDINATOR,
)
