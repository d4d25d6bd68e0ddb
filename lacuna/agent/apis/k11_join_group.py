"""JoinGroup v0-v9: joins or rejoins a classic group. The answer is sent once the other members have joined as well.

From v4 on, a dynamic member first receives an id and then joins with it (MEMBER_ID_REQUIRED, KIP-394). v5 adds static
members (KIP-345), v7 the protocol type in the answer, and v8 a reason. From v9 on, the answer may tell the leader to
skip the assignment (KIP-814). In v0, the session timeout also serves as the rebalance timeout.
"""

from lacuna.agent.api import Api, Call
from lacuna.agent.guards.guard import on_group
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.groups_pb2 import GroupProtocol, JoinGroup
from lacuna.wire.messages import groups as wire

FIRST_REBALANCE_TIMEOUT = 1
FIRST_KNOWN_MEMBER_ID = 4
FIRST_NULL_PROTOCOL = 7
FIRST_SKIP = 9


async def handle(call: Call, request: wire.JoinGroupRequest) -> wire.JoinGroupResponse:
    has_rebalance_timeout = call.version >= FIRST_REBALANCE_TIMEOUT
    command = JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id or "",
        protocol_type=request.protocol_type,
        protocols=[
            GroupProtocol(name=each.name, metadata=each.metadata) for each in request.protocols
        ],
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms
        ),
        requires_known_member_id=call.version >= FIRST_KNOWN_MEMBER_ID,
        client_id=call.peer.client_id,
        client_host=f"/{call.peer.host}",
        reason=request.reason or "",
        supports_skipping_assignment=call.version >= FIRST_SKIP,
    )
    joined = (await call.context.control.call(call.command(join_group=command))).group_joined
    if joined.error_code:
        return _refuse(call, joined.error_code, joined.member_id)
    return wire.JoinGroupResponse(
        error_code=0,
        generation_id=joined.generation_id,
        protocol_type=joined.protocol_type or None,
        protocol_name=joined.protocol_name,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            wire.JoinGroupResponseMember(
                member.member_id, member.group_instance_id or None, member.metadata
            )
            for member in joined.members
        ],
    )


def _refuse(call: Call, error_code: int, member_id: str) -> wire.JoinGroupResponse:
    return wire.JoinGroupResponse(
        error_code=error_code,
        protocol_name=None if call.version >= FIRST_NULL_PROTOCOL else "",
        member_id=member_id,
    )


API = Api(
    request=wire.JOIN_GROUP_REQUEST,
    response=wire.JOIN_GROUP_RESPONSE,
    handle=handle,
    refusal=lambda call, request, code: _refuse(call, code, request.member_id),
    guard=on_group(Operation.READ),
    moved=ErrorCode.NOT_COORDINATOR,
    waits=True,
    notes="classic groups",
)
