"""Heartbeat v0-v4: keeps a member's session, and tells it of a rebalance (REBALANCE_IN_PROGRESS).

From v3 on with static members (KIP-345).
"""

from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import Heartbeat

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command."""
    command = Heartbeat(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None) or "",
    )
    reply = await context.control.call(Command(heartbeat=command))
    return refuse(request, reply.heartbeat_answered.error_code)


def refuse(request: Any, error_code: int) -> Any:
    """The answer is an error code."""
    return build(request, "HeartbeatResponse", error_code=error_code)


API = Api(key=12, min_version=0, max_version=4, handle=handle, refuse=refuse)
