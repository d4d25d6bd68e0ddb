"""JoinGroup v0-v9: into a classic group, or back into it; answered when the others have joined too.

From v4 on a dynamic member is given an id first and joins with it (MEMBER_ID_REQUIRED, KIP-394). v5 has
static members (KIP-345), v7 says the protocol type, v8 gives a reason, from v9 on a leader may be told
to skip its assignment (KIP-814). Before v1 the rebalance timeout is the session timeout.
"""

from typing import TYPE_CHECKING, Any

from agent.apis.group_offsets import or_none
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, milliseconds, version_of
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import GroupProtocol, JoinGroup

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_KNOWN_MEMBER_ID = 4
FIRST_NULL_PROTOCOL = 7
FIRST_SKIP = 9


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:
    """One command, whose answer may take as long as a rebalance."""
    version = version_of(request)
    rebalance_timeout = getattr(request, "rebalance_timeout", request.session_timeout)
    command = JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None) or "",
        protocol_type=request.protocol_type,
        protocols=[
            GroupProtocol(name=each.name, metadata=bytes(each.metadata))
            for each in request.protocols
        ],
        session_timeout_ms=milliseconds(request.session_timeout),
        rebalance_timeout_ms=milliseconds(rebalance_timeout),
        requires_known_member_id=version >= FIRST_KNOWN_MEMBER_ID,
        client_id=peer.client_id,
        client_host=f"/{peer.host}",
        reason=getattr(request, "reason", None) or "",
        supports_skipping_assignment=version >= FIRST_SKIP,
    )
    joined = (await context.control.call(Command(join_group=command))).group_joined
    if joined.error_code:
        return _refuse(request, joined.error_code, joined.member_id)
    return build(
        request,
        "JoinGroupResponse",
        error_code=0,
        generation_id=joined.generation_id,
        protocol_type=or_none(joined.protocol_type),
        protocol_name=joined.protocol_name,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            build(
                request,
                "JoinGroupResponseMember",
                member_id=member.member_id,
                group_instance_id=or_none(member.group_instance_id),
                metadata=member.metadata,
            )
            for member in joined.members
        ),
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error, for the member that asked."""
    return _refuse(request, error_code, request.member_id)


def _refuse(request: Any, error_code: int, member_id: str) -> Any:
    return build(
        request,
        "JoinGroupResponse",
        error_code=error_code,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None if version_of(request) >= FIRST_NULL_PROTOCOL else "",
        leader="",
        member_id=member_id,
        members=(),
    )


API = Api(
    key=11,
    min_version=0,
    max_version=9,
    waits=True,
    handle=handle,
    refuse=refuse,
    notes="classic groups",
)
