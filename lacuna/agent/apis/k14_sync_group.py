"""SyncGroup v0-v5: the leader sends the assignment, and the other members wait for it.

v3 adds static members (KIP-345). From v5 on, the protocol's type and name are required and checked (KIP-559).
"""

from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.guards.groups import sync_group as guard
from lacuna.agent.members import IN_GENERATION
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.groups_pb2 import MemberAssignment, SyncGroup
from lacuna.wire.messages.sync_group import (
    SYNC_GROUP_REQUEST,
    SYNC_GROUP_RESPONSE,
    SyncGroupRequest,
    SyncGroupResponse,
)

FIRST_PROTOCOL = 5


async def handle(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Send one SyncGroup command; its reply may wait for the leader."""
    protocol = (request.protocol_type, request.protocol_name)
    if call.version >= FIRST_PROTOCOL and None in protocol:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
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
    return SyncGroupResponse(
        error_code=synced.error_code,
        protocol_type=synced.protocol_type or None,
        protocol_name=synced.protocol_name or None,
        assignment=synced.assignment,
    )


API = Api(
    request=SYNC_GROUP_REQUEST,
    response=SYNC_GROUP_RESPONSE,
    max_version=5,
    handle=handle,
    refuse=error_in(SYNC_GROUP_RESPONSE),
    guard=guard,
    most_whole=20_000,
    moved=ErrorCode.NOT_COORDINATOR,
    waits=True,
)
