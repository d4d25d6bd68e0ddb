"""Heartbeat v0-v4: keeps a member's session alive, and reports a rebalance (REBALANCE_IN_PROGRESS).

v3 adds static members (KIP-345). While no control plane can be reached, members stay in their groups (adr/0034).

LeaveGroup v0-v5: removes one member or, from v3 on, several. Static members need only their instance id (KIP-345).

Each member in the answer has its own error. Before v3, a request removes a single member, and the member's error is the
answer's error. v5 adds a reason (KIP-800).

SyncGroup v0-v5: the leader sends the assignment, and the other members wait for it.

v3 adds static members (KIP-345). From v5 on, the protocol's type and name are required and checked (KIP-559).
"""

from collections.abc import Sequence

from lacuna.agent.api import Api, Call
from lacuna.agent.guards.groups import sync_group as guard
from lacuna.agent.guards.guard import on_group
from lacuna.agent.members import IN_GENERATION
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import (
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    SyncGroup,
)
from lacuna.wire.messages import groups as wire


async def heartbeat(call: Call, request: wire.HeartbeatRequest) -> wire.HeartbeatResponse:
    command = Heartbeat(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id or "",
    )
    members = call.context.members
    member = (request.group_id, request.member_id, request.generation_id)
    reply = await members.ask(member, Command(heartbeat=command))
    error_code = reply.heartbeat_answered.error_code
    if error_code:
        members.forget(member)
    else:
        members.keep(member, IN_GENERATION)
    return wire.HeartbeatResponse(error_code=error_code)


FIRST_BATCH = 3


async def leave(call: Call, request: wire.LeaveGroupRequest) -> wire.LeaveGroupResponse:
    command = LeaveGroup(group_id=request.group_id, members=_leaving(call, request))
    left = (await call.context.control.call(Command(leave_group=command))).group_left
    if left.error_code:
        return wire.LeaveGroupResponse(error_code=left.error_code)
    return _answer(call, request, left.error_codes)


def _leaving(call: Call, request: wire.LeaveGroupRequest) -> list[LeavingMember]:
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
    call: Call, request: wire.LeaveGroupRequest, error_codes: Sequence[int]
) -> wire.LeaveGroupResponse:
    if call.version < FIRST_BATCH:
        return wire.LeaveGroupResponse(error_code=error_codes[0])
    members = [
        wire.MemberResponse(member.member_id, member.group_instance_id, error_code)
        for member, error_code in zip(request.members, error_codes, strict=True)
    ]
    return wire.LeaveGroupResponse(error_code=0, members=members)


FIRST_PROTOCOL = 5


async def sync(call: Call, request: wire.SyncGroupRequest) -> wire.SyncGroupResponse:
    protocol = (request.protocol_type, request.protocol_name)
    if call.version >= FIRST_PROTOCOL and None in protocol:
        return wire.SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    command = SyncGroup(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id or "",
        protocol_type=request.protocol_type or "",
        protocol_name=request.protocol_name or "",
        assignments=[
            MemberAssignment(member_id=each.member_id, assignment=each.assignment)
            for each in request.assignments
        ],
    )
    synced = (await call.context.control.call(call.command(sync_group=command))).group_synced
    if not synced.error_code:
        member = (request.group_id, request.member_id, request.generation_id)
        call.context.members.keep(member, IN_GENERATION)
    return wire.SyncGroupResponse(
        error_code=synced.error_code,
        protocol_type=synced.protocol_type or None,
        protocol_name=synced.protocol_name or None,
        assignment=synced.assignment,
    )


APIS = (
    Api(
        request=wire.HEARTBEAT_REQUEST,
        response=wire.HEARTBEAT_RESPONSE,
        handle=heartbeat,
        guard=on_group(Operation.READ),
        moved=ErrorCode.NOT_COORDINATOR,
    ),
    Api(
        request=wire.LEAVE_GROUP_REQUEST,
        response=wire.LEAVE_GROUP_RESPONSE,
        handle=leave,
        guard=on_group(Operation.READ),
    ),
    Api(
        request=wire.SYNC_GROUP_REQUEST,
        response=wire.SYNC_GROUP_RESPONSE,
        handle=sync,
        guard=guard,
        most_whole=20_000,
        moved=ErrorCode.NOT_COORDINATOR,
        waits=True,
    ),
)
