"""ExpireDelegationToken v1-v2 (KIP-48): changes the time when a token expires; a negative period expires it at once."""

from lacuna.agent.admin.delegation_tokens import NO_TIME, NOTES, prolong
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
    """Let the token expire after the requested period."""
    period_ms = max(request.expiry_time_period_ms, 0)
    answer = await prolong(call, bytes(request.hmac), lambda now_ms: now_ms + period_ms)
    return ExpireDelegationTokenResponse(*answer)


def refuse(
    _call: Call, _request: ExpireDelegationTokenRequest, error_code: int
) -> ExpireDelegationTokenResponse:
    """Answer with the error."""
    return ExpireDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=NO_TIME)


API = Api(
    request=EXPIRE_DELEGATION_TOKEN_REQUEST,
    response=EXPIRE_DELEGATION_TOKEN_RESPONSE,
    max_version=2,
    advertised=(1, 2),
    handle=handle,
    refuse=refuse,
    guard=None,  # the token's owner and renewers may, and the handler knows them
    notes=NOTES,
)
