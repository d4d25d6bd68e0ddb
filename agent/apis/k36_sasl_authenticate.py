"""SaslAuthenticate v0-v2 (KIP-152, KIP-368): ILLEGAL_SASL_STATE, as Kafka's listeners without SASL answer."""

from lacuna.agent.api import Api, Call
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.sasl_authenticate import (
    SASL_AUTHENTICATE_REQUEST,
    SASL_AUTHENTICATE_RESPONSE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


async def handle(_call: Call, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse, since connections are not authenticated."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="Connections are not authenticated here: connect without SASL.",
    )


def refuse(
    _call: Call, _request: SaslAuthenticateRequest, error_code: int
) -> SaslAuthenticateResponse:
    """Answer with the error."""
    return SaslAuthenticateResponse(error_code=error_code, error_message=None)


API = Api(
    request=SASL_AUTHENTICATE_REQUEST,
    response=SASL_AUTHENTICATE_RESPONSE,
    max_version=2,
    handle=handle,
    refuse=refuse,
    notes="connections are not authenticated: ILLEGAL_SASL_STATE",
)
