"""What the APIs of delegation tokens (KIP-48) answer where connections are not authenticated.

Kafka gives a token to who has authenticated himself: on a listener without SASL, as here, each of them is
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Handle, Peer
from agent.apis.schema import build

if TYPE_CHECKING:
    from agent.context import AgentContext

_NOT_ALLOWED: Final = KafkaError.delegation_token_request_not_allowed
#: Kafka says -1, which kio cannot write. Nobody reads it beside an error.
NO_TIME: Final = datetime.fromtimestamp(0, UTC)
NOTES: Final = "connections are not authenticated: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


def not_allowed(response: str, **fields: Any) -> Handle:
    """A handler that gives this answer; `fields` are those of it that an error leaves without a meaning."""

    async def handle(
        context: "AgentContext",  # noqa: ARG001 - every handler has it
        request: Any,
        peer: Peer,  # noqa: ARG001
    ) -> Any:
        return build(request, response, error_code=_NOT_ALLOWED, **fields)

    return handle
