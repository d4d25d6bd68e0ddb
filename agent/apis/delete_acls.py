"""DeleteAcls v1-v3: SECURITY_DISABLED for each filter, as a Kafka without an authorizer answers."""

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
    """There are none to delete."""
    result = build(
        request,
        "DeleteAclsFilterResult",
        error_code=DISABLED,
        error_message=NO_AUTHORIZER,
        matching_acls=(),
    )
    return build(request, "DeleteAclsResponse", filter_results=(result,) * len(request.filters))


API = Api(key=31, min_version=1, max_version=3, handle=handle, notes="SECURITY_DISABLED")
