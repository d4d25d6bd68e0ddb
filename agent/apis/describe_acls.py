"""DescribeAcls v1-v3: SECURITY_DISABLED, as a Kafka without an authorizer answers."""

from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.apis.security import DISABLED

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """Nobody is forbidden anything."""
    return build(
        request,
        "DescribeAclsResponse",
        error_code=DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )


API = Api(key=29, min_version=1, max_version=3, handle=handle, notes="SECURITY_DISABLED")
