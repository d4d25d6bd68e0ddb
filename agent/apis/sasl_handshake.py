"""SaslHandshake v0-v1 (KIP-43, KIP-152): ILLEGAL_SASL_STATE, as a listener of Kafka without SASL answers.

A client that is configured to authenticate learns so that it need not; others read a broker's release from what it
advertises, and one without this is taken for 0.9.
"""

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
    """No mechanism is enabled."""
    return build(
        request, "SaslHandshakeResponse", error_code=KafkaError.illegal_sasl_state, mechanisms=()
    )


API = Api(
    key=17,
    min_version=0,
    max_version=1,
    handle=handle,
    notes="connections are not authenticated: ILLEGAL_SASL_STATE",
)
