"""Heartbeat v0-v4: keeps a member's session alive, and reports a rebalance (REBALANCE_IN_PROGRESS).

v3 adds static members (KIP-345). While no control plane can be reached, members stay in their groups (adr/0034).
"""

from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.guards.guard import on_group
from lacuna.agent.members import IN_GENERATION
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import Heartbeat
from lacuna.wire.messages.heartbeat import (
    HEARTBEAT_REQUEST,
    HEARTBEAT_RESPONSE,
    HeartbeatRequest,
    HeartbeatResponse,
)


async def handle(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Send one Heartbeat command."""
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
    return HeartbeatResponse(error_code=error_code)


API = Api(
    request=HEARTBEAT_REQUEST,
    response=HEARTBEAT_RESPONSE,
    max_version=4,
    handle=handle,
    refuse=error_in(HEARTBEAT_RESPONSE),
    guard=on_group(Operation.READ),
    moved=ErrorCode.NOT_COORDINATOR,
)
