"""SaslAuthenticate v0-v2 (KIP-152, KIP-368): ILLEGAL_SASL_STATE, as a listener of Kafka without SASL answers."""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """There is nothing to be authenticated for."""
    return build(
        request,
        "SaslAuthenticateResponse",
        error_code=KafkaError.illegal_sasl_state,
        error_message="Connections are not authenticated here: connect without SASL.",
        auth_bytes=b"",
    )


API = Api(
    key=36,
    min_version=0,
    max_version=2,
    handle=handle,
    notes="connections are not authenticated: ILLEGAL_SASL_STATE",
)
