"""SyncGroup v0-v5: the leader brings the assignment, the others wait for it.

From v3 on with static members (KIP-345); from v5 on type and name of the protocol are required and checked
(KIP-559).
"""

from typing import TYPE_CHECKING, Any

from agent.apis.group_offsets import or_none
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from controlplane.errors import ErrorCode
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import MemberAssignment, SyncGroup

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_PROTOCOL = 5


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command, whose answer may wait for the leader."""
    protocol_type = getattr(request, "protocol_type", None)
    protocol_name = getattr(request, "protocol_name", None)
    if version_of(request) >= FIRST_PROTOCOL and None in (protocol_type, protocol_name):
        return refuse(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    command = SyncGroup(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None) or "",
        protocol_type=protocol_type or "",
        protocol_name=protocol_name or "",
        assignments=[
            MemberAssignment(member_id=each.member_id, assignment=bytes(each.assignment))
            for each in request.assignments
        ],
    )
    synced = (await context.control.call(Command(sync_group=command))).group_synced
    return build(
        request,
        "SyncGroupResponse",
        error_code=synced.error_code,
        protocol_type=or_none(synced.protocol_type),
        protocol_name=or_none(synced.protocol_name),
        assignment=synced.assignment,
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error, and no assignment."""
    return build(request, "SyncGroupResponse", error_code=error_code, assignment=b"")


API = Api(key=14, min_version=0, max_version=5, waits=True, handle=handle, refuse=refuse)
