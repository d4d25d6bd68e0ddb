"""DescribeDelegationToken v0-v3: there are no tokens to describe."""

from lacuna.agent.admin.delegation_tokens import NOT_ALLOWED, NOTES
from lacuna.agent.api import Api, Call
from lacuna.wire.messages.describe_delegation_token import (
    DESCRIBE_DELEGATION_TOKEN_REQUEST,
    DESCRIBE_DELEGATION_TOKEN_RESPONSE,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


async def handle(
    call: Call, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Refuse with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return refuse(call, request, NOT_ALLOWED)


def refuse(
    _call: Call, _request: DescribeDelegationTokenRequest, error_code: int
) -> DescribeDelegationTokenResponse:
    """Answer with the error."""
    return DescribeDelegationTokenResponse(error_code=error_code)


API = Api(
    request=DESCRIBE_DELEGATION_TOKEN_REQUEST,
    response=DESCRIBE_DELEGATION_TOKEN_RESPONSE,
    max_version=3,
    handle=handle,
    refuse=refuse,
    notes=NOTES,
)
