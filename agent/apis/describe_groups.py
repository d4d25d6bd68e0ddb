"""DescribeGroups v0-v6: state and members of classic groups.

One that does not exist, or is a consumer group, is Dead, from v6 on with GROUP_ID_NOT_FOUND (KIP-1043).
v3 adds authorized operations, v4 static members. Metadata and assignments are shown while the group is stable.
"""

from typing import TYPE_CHECKING, Any

from agent.apis import operations
from agent.apis.group_offsets import or_none
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import DescribedGroup, DescribeGroups

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_NOT_FOUND = 6


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all groups."""
    command = Command(describe_groups=DescribeGroups(group_ids=request.groups))
    described = (await context.control.call(command)).groups_described.groups
    return _answer(request, [_describe(request, group) for group in described])


def refuse(request: Any, error_code: int) -> Any:
    """The error for every group."""
    groups = [
        _describe(request, DescribedGroup(group_id=group_id, error_code=error_code))
        for group_id in request.groups
    ]
    return _answer(request, groups)


def _answer(request: Any, groups: list[Any]) -> Any:
    return build(request, "DescribeGroupsResponse", groups=tuple(groups))


def _describe(request: Any, group: DescribedGroup) -> Any:
    is_missing = group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    is_hidden = is_missing and version_of(request) < FIRST_NOT_FOUND
    error_code = 0 if is_hidden else group.error_code
    is_asked = getattr(request, "include_authorized_operations", False) and not error_code
    return build(
        request,
        "DescribedGroup",
        error_code=error_code,
        error_message=or_none(group.error_message),
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=tuple(
            build(
                request,
                "DescribedGroupMember",
                member_id=member.member_id,
                group_instance_id=or_none(member.group_instance_id),
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
        authorized_operations=operations.GROUP if is_asked else operations.NOT_ASKED,
    )


API = Api(key=15, min_version=0, max_version=6, handle=handle, refuse=refuse)
