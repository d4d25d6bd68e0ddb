"""SaslHandshake v0-v1 (KIP-43, KIP-152): ILLEGAL_SASL_STATE, as Kafka's listeners without SASL answer.

So a client that is configured to authenticate learns that it need not. It is advertised because other clients derive
a broker's release from the APIs that it advertises, and take one without this for 0.9.
"""

from lacuna.agent.api import Api, Call
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.sasl_handshake import (
    SASL_HANDSHAKE_REQUEST,
    SASL_HANDSHAKE_RESPONSE,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


async def handle(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse, since no mechanism is enabled."""
    return refuse(call, request, ErrorCode.ILLEGAL_SASL_STATE)


def refuse(_call: Call, _request: SaslHandshakeRequest, error_code: int) -> SaslHandshakeResponse:
    """Answer with the error."""
    return SaslHandshakeResponse(error_code=error_code)


API = Api(
    request=SASL_HANDSHAKE_REQUEST,
    response=SASL_HANDSHAKE_RESPONSE,
    max_version=1,
    handle=handle,
    refuse=refuse,
    notes="connections are not authenticated: ILLEGAL_SASL_STATE",
)
