"""RenewDelegationToken v0-v2: there are no tokens to renew."""

from lacuna.agent.admin.delegation_tokens import NO_TIME, NOT_ALLOWED, NOTES
from lacuna.agent.api import Api, Call
from lacuna.wire.messages.renew_delegation_token import (
    RENEW_DELEGATION_TOKEN_REQUEST,
    RENEW_DELEGATION_TOKEN_RESPONSE,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(call: Call, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Refuse with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return refuse(call, request, NOT_ALLOWED)


def refuse(
    _call: Call, _request: RenewDelegationTokenRequest, error_code: int
) -> RenewDelegationTokenResponse:
    """Answer with the error."""
    return RenewDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=NO_TIME)


API = Api(
    request=RENEW_DELEGATION_TOKEN_REQUEST,
    response=RENEW_DELEGATION_TOKEN_RESPONSE,
    max_version=2,
    handle=handle,
    refuse=refuse,
    notes=NOTES,
)
