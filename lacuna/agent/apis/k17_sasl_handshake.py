"""SaslHandshake v0-v1 (KIP-43, KIP-152): the client chooses a mechanism.

After v1, the client sends its tokens in SaslAuthenticate; after v0, without headers. A listener without SASL returns
ILLEGAL_SASL_STATE, which tells a client configured to authenticate that it need not. A client that need not
authenticate again gets the same error. Listeners without SASL advertise this API too, because some clients derive a
broker's release from the advertised APIs and would assume 0.9.
"""

from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.security.session import NotNow, UnsupportedMechanism
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.sasl import (
    SASL_HANDSHAKE_REQUEST,
    SASL_HANDSHAKE_RESPONSE,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


async def handle(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin the exchange of the mechanism."""
    session = call.peer.session
    try:
        session.choose(request.mechanism, sends_tokens=call.version == 0)
    except NotNow:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    except UnsupportedMechanism:
        return SaslHandshakeResponse(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=session.mechanisms
        )
    return SaslHandshakeResponse(mechanisms=session.mechanisms)


API = Api(
    request=SASL_HANDSHAKE_REQUEST,
    response=SASL_HANDSHAKE_RESPONSE,
    max_version=1,
    handle=handle,
    refuse=error_in(SASL_HANDSHAKE_RESPONSE),
    guard=None,  # clients begin with it
    notes="returns ILLEGAL_SASL_STATE on listeners without SASL",
)
