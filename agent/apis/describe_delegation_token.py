"""DescribeDelegationToken v1-v3: there are no tokens to describe."""

from typing import TYPE_CHECKING, Any

from agent.apis.delegation_tokens import NOT_ALLOWED, NOTES
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
        "DescribeDelegationTokenResponse",
        error_code=NOT_ALLOWED,
        tokens=(),
    )


API = Api(key=41, min_version=1, max_version=3, handle=handle, notes=NOTES)
