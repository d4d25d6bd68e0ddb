"""DescribeGroups v0-v6: the state and members of classic groups.

A group that does not exist, or that is a consumer group, is reported as Dead and, from v6 on, with the error
GROUP_ID_NOT_FOUND (KIP-1043). v3 adds authorized operations, and v4 static members. Member metadata and assignments are
included only while the group is stable.
"""

from lacuna.agent.admin import operations
from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.groups import describe_groups as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1 import groups_pb2
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import DescribeGroups
from lacuna.wire.messages.groups import (
    DESCRIBE_GROUPS_REQUEST,
    DESCRIBE_GROUPS_RESPONSE,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

FIRST_NOT_FOUND = 6


async def handle(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    command = Command(describe_groups=DescribeGroups(group_ids=request.groups))
    described = (await call.context.control.call(command)).groups_described.groups
    return DescribeGroupsResponse(groups=[_describe(call, request, group) for group in described])


def _describe(
    call: Call, request: DescribeGroupsRequest, group: groups_pb2.DescribedGroup
) -> DescribedGroup:
    is_missing = group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    is_hidden = is_missing and call.version < FIRST_NOT_FOUND
    error_code = 0 if is_hidden else group.error_code
    is_asked = request.include_authorized_operations and not error_code
    return DescribedGroup(
        error_code=error_code,
        error_message=group.error_message or None,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[_member(member) for member in group.members],
        authorized_operations=operations.GROUP if is_asked else operations.NOT_ASKED,
    )


def _member(member: groups_pb2.DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )


API = Api(
    request=DESCRIBE_GROUPS_REQUEST,
    response=DESCRIBE_GROUPS_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: DescribeGroupsResponse(
        groups=[DescribedGroup(code, group_id=each) for each in request.groups]
    ),
    guard=guard,
    pieces=(Pieces(("groups",), ("groups",)),),
    moved=ErrorCode.NOT_COORDINATOR,
)
