"""CreateDelegationToken v1-v3: no token is given to who has not authenticated himself."""

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
        "CreateDelegationTokenResponse",
        error_code=NOT_ALLOWED,
        principal_type="User",
        principal_name="ANONYMOUS",
        token_requester_principal_type="User",
        token_requester_principal_name="ANONYMOUS",
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        token_id="",
        hmac=b"",
    )


API = Api(key=38, min_version=1, max_version=3, handle=handle, notes=NOTES)
