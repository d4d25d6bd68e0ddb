"""RenewDelegationToken v1-v2 (KIP-48): extends a token's validity, but not beyond its maximum lifetime."""

from lacuna.agent.admin.delegation_tokens import NO_TIME, NOTES, prolong
from lacuna.agent.api import Api, Call
from lacuna.wire.messages.renew_delegation_token import (
    RENEW_DELEGATION_TOKEN_REQUEST,
    RENEW_DELEGATION_TOKEN_RESPONSE,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(call: Call, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    """Extend the token by the requested period, or by the usual one if that is shorter."""
    period_ms = call.context.access.settings.token_expiry_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    answer = await prolong(call, bytes(request.hmac), lambda now_ms: now_ms + period_ms)
    return RenewDelegationTokenResponse(*answer)


def refuse(
    _call: Call, _request: RenewDelegationTokenRequest, error_code: int
) -> RenewDelegationTokenResponse:
    """Answer with the error."""
    return RenewDelegationTokenResponse(error_code=error_code, expiry_timestamp_ms=NO_TIME)


API = Api(
    request=RENEW_DELEGATION_TOKEN_REQUEST,
    response=RENEW_DELEGATION_TOKEN_RESPONSE,
    max_version=2,
    advertised=(1, 2),
    handle=handle,
    refuse=refuse,
    guard=None,  # the token's owner and renewers may, and the handler knows them
    notes=NOTES,
)
