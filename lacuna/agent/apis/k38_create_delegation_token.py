"""CreateDelegationToken v1-v3 (KIP-48, KIP-373): creates a token for the client itself; another owner is rejected.

The token must be renewed within delegation.token.expiry.time.ms. It lives for delegation.token.max.lifetime.ms, or for
the requested time if that is shorter.
"""

import base64
import secrets
from typing import Final

from lacuna.agent.admin.delegation_tokens import NO_TIME, NOTES, alter, is_allowed
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.cluster import create_delegation_token as guard
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import USER, Principal
from lacuna.controlplane.v1.security_pb2 import DelegationToken, SecurityChanges
from lacuna.wire.messages.create_delegation_token import (
    CREATE_DELEGATION_TOKEN_REQUEST,
    CREATE_DELEGATION_TOKEN_RESPONSE,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

_ID_BYTES: Final = 16
_MOST_RENEWERS: Final = 20
_MOST_OF_NAME: Final = 1024


async def handle(
    call: Call, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Create a token."""
    if error_code := _invalid(call, request):
        return refuse(call, request, error_code)
    settings, tokens = call.context.access.settings, call.context.access.tokens
    now_ms = call.context.clock.now_ms()
    most_ms = settings.token_most_ms
    if request.max_lifetime_ms > 0:
        most_ms = min(most_ms, request.max_lifetime_ms)
    token = DelegationToken(
        token_id=base64.urlsafe_b64encode(secrets.token_bytes(_ID_BYTES)).rstrip(b"=").decode(),
        owner=str(_owner(call, request)),
        requester=str(call.peer.session.principal),
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issued_ms=now_ms,
        expiry_ms=min(now_ms + most_ms, now_ms + settings.token_expiry_ms),
        max_ms=now_ms + most_ms,
    )
    if error_code := await alter(call, SecurityChanges(tokens=[token])):
        return refuse(call, request, error_code)
    return refuse(call, request, ErrorCode.NONE)._replace(
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expiry_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=tokens.hmac(token.token_id),
    )


def _invalid(call: Call, request: CreateDelegationTokenRequest) -> int:
    if not is_allowed(call):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if not _may_own(call, _owner(call, request)):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    kinds = {_owner(call, request).kind, *(each.principal_type for each in request.renewers)}
    if kinds != {USER}:
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    names = [_owner(call, request).name, *(each.principal_name for each in request.renewers)]
    if len(request.renewers) > _MOST_RENEWERS or max(map(len, names)) > _MOST_OF_NAME:
        return ErrorCode.INVALID_REQUEST
    if not call.context.access.tokens.is_enabled:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return ErrorCode.NONE


def _owner(call: Call, request: CreateDelegationTokenRequest) -> Principal:
    if not request.owner_principal_name:
        return call.peer.session.principal
    return Principal(request.owner_principal_type or USER, request.owner_principal_name)


def _may_own(call: Call, owner: Principal) -> bool:
    """Return whether the client may create tokens for `owner` regardless of ACLs: only for itself."""
    return call.context.access.authorizer is not None or owner == call.peer.session.principal


def refuse(
    call: Call, request: CreateDelegationTokenRequest, error_code: int
) -> CreateDelegationTokenResponse:
    """Answer with the error."""
    owner, requester = _owner(call, request), call.peer.session.principal
    return CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


API = Api(
    request=CREATE_DELEGATION_TOKEN_REQUEST,
    response=CREATE_DELEGATION_TOKEN_RESPONSE,
    max_version=3,
    advertised=(1, 3),
    handle=handle,
    refuse=refuse,
    guard=guard,
    notes=NOTES,
)
