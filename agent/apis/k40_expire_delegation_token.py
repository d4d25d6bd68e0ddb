"""ExpireDelegationToken v0-v2: there are no tokens to expire."""

from lacuna.agent.admin.delegation_tokens import NO_TIME, NOT_ALLOWED, NOTES
from lacuna.agent.api import Api, Call
from lacuna.wire.messages.expire_delegation_token import (
    EXPIRE_DELEGATION_TOKEN_REQUEST,
    EXPIRE_DELEGATION_TOKEN_RESPONSE,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def handle(
    call: Call, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Refuse with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return refuse(call, request, NOT_ALLOWED)


def refuse(
    _call: Call, _request: ExpireDelegationTokenRequest, error_code: int
) -> ExpireDelegationTokenResponse:
    """Answer with the error."""
    return ExpireDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=NO_TIME)


API = Api(
    request=EXPIRE_DELEGATION_TOKEN_REQUEST,
    response=EXPIRE_DELEGATION_TOKEN_RESPONSE,
    max_version=2,
    handle=handle,
    refuse=refuse,
    notes=NOTES,
)
