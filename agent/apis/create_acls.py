"""CreateAcls v1-v3: SECURITY_DISABLED for each, as a Kafka without an authorizer answers."""

from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.apis.security import DISABLED, NO_AUTHORIZER

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """An ACL that nobody enforces is not kept."""
    result = build(request, "AclCreationResult", error_code=DISABLED, error_message=NO_AUTHORIZER)
    return build(request, "CreateAclsResponse", results=(result,) * len(request.creations))


API = Api(key=30, min_version=1, max_version=3, handle=handle, notes="SECURITY_DISABLED")
