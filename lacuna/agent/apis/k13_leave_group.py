"""LeaveGroup v0-v5: removes one member, or several from v3 on. Static members need only their instance id (KIP-345).

Each member has its own error. Before v3, the only member's error is the answer's error. v5 adds a reason (KIP-800).
"""

from collections.abc import Sequence

from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.guards.guard import on_group
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import LeaveGroup, LeavingMember
from lacuna.wire.messages.leave_group import (
    LEAVE_GROUP_REQUEST,
    LEAVE_GROUP_RESPONSE,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

FIRST_BATCH = 3


async def handle(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Send one command for all members."""
    command = LeaveGroup(group_id=request.group_id, members=_leaving(call, request))
    left = (await call.context.control.call(Command(leave_group=command))).group_left
    if left.error_code:
        return LeaveGroupResponse(error_code=left.error_code)
    return _answer(call, request, left.error_codes)


def _leaving(call: Call, request: LeaveGroupRequest) -> list[LeavingMember]:
    if call.version < FIRST_BATCH:
        return [LeavingMember(member_id=request.member_id)]
    return [
        LeavingMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id or "",
            reason=member.reason or "",
        )
        for member in request.members
    ]


def _answer(
    call: Call, request: LeaveGroupRequest, error_codes: Sequence[int]
) -> LeaveGroupResponse:
    if call.version < FIRST_BATCH:
        return LeaveGroupResponse(error_code=error_codes[0])
    members = [
        MemberResponse(member.member_id, member.group_instance_id, error_code)
        for member, error_code in zip(request.members, error_codes, strict=True)
    ]
    return LeaveGroupResponse(error_code=0, members=members)


API = Api(
    request=LEAVE_GROUP_REQUEST,
    response=LEAVE_GROUP_RESPONSE,
    max_version=5,
    handle=handle,
    refuse=error_in(LEAVE_GROUP_RESPONSE),
    guard=on_group(Operation.READ),
)
