"""LeaveGroup v0-v5: one member, from v3 on several, also static ones by instance id alone (KIP-345).

Each member has an error of its own; before v3 the only one's is the answer's. v5 gives a reason (KIP-800).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import LeaveGroup, LeavingMember

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_BATCH = 3


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all of them."""
    command = LeaveGroup(group_id=request.group_id, members=_leaving(request))
    left = (await context.control.call(Command(leave_group=command))).group_left
    if left.error_code:
        return refuse(request, left.error_code)
    return _answer(request, left.error_codes)


def refuse(request: Any, error_code: int) -> Any:
    """The error is the whole answer's."""
    return build(request, "LeaveGroupResponse", error_code=error_code, members=())


def _leaving(request: Any) -> list[LeavingMember]:
    if version_of(request) < FIRST_BATCH:
        return [LeavingMember(member_id=request.member_id)]
    return [
        LeavingMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id or "",
            reason=getattr(member, "reason", None) or "",
        )
        for member in request.members
    ]


def _answer(request: Any, error_codes: Sequence[int]) -> Any:
    if version_of(request) < FIRST_BATCH:
        return build(request, "LeaveGroupResponse", error_code=error_codes[0])
    members = tuple(
        build(
            request,
            "MemberResponse",
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            error_code=error_code,
        )
        for member, error_code in zip(request.members, error_codes, strict=True)
    )
    return build(request, "LeaveGroupResponse", error_code=0, members=members)


API = Api(key=13, min_version=0, max_version=5, handle=handle, refuse=refuse)
