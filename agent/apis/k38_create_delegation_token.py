"""CreateDelegationToken v0-v3: refused, since clients are not authenticated."""

from lacuna.agent.admin.delegation_tokens import NO_TIME, NOT_ALLOWED, NOTES
from lacuna.agent.api import Api, Call
from lacuna.wire.messages.create_delegation_token import (
    CREATE_DELEGATION_TOKEN_REQUEST,
    CREATE_DELEGATION_TOKEN_RESPONSE,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


async def handle(
    call: Call, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Refuse with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return refuse(call, request, NOT_ALLOWED)


def refuse(
    _call: Call, _request: CreateDelegationTokenRequest, error_code: int
) -> CreateDelegationTokenResponse:
    """Answer with the error."""
    return CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type="User",
        principal_name="ANONYMOUS",
        token_requester_principal_type="User",
        token_requester_principal_name="ANONYMOUS",
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


API = Api(
    request=CREATE_DELEGATION_TOKEN_REQUEST,
    response=CREATE_DELEGATION_TOKEN_RESPONSE,
    max_version=3,
    handle=handle,
    refuse=refuse,
    notes=NOTES,
)
