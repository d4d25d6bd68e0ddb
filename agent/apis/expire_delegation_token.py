"""ExpireDelegationToken v1-v2: there are no tokens to expire."""

from typing import TYPE_CHECKING, Any

from agent.apis.delegation_tokens import NO_TIME, NOT_ALLOWED, NOTES
from agent.apis.registry import Api, Peer
from agent.apis.schema import build

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """Nobody has authenticated himself."""
    return build(
        request,
        "ExpireDelegationTokenResponse",
        error_code=NOT_ALLOWED,
        expiry_timestamp=NO_TIME,
    )


API = Api(key=40, min_version=1, max_version=2, handle=handle, notes=NOTES)
