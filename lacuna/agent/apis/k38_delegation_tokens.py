"""CreateDelegationToken v1-v3 (KIP-48, KIP-373): creates a token for the client or, with an authorizer, another owner.

The token must be renewed within delegation.token.expiry.time.ms. Its maximum lifetime is
delegation.token.max.lifetime.ms, or the requested time if that is shorter.

RenewDelegationToken v1-v2 (KIP-48): extends a token's validity, but not beyond its maximum lifetime.

ExpireDelegationToken v1-v2 (KIP-48): changes the time when a token expires. A negative period expires it immediately.

DescribeDelegationToken v1-v3 (KIP-48, KIP-373): returns the tokens that the client owns, requested or may renew.

If the request names owners, only tokens that concern one of them are returned.
"""

import base64
import secrets
from typing import Final

from lacuna.agent.admin.delegation_tokens import (
    NO_TIME,
    NOTES,
    alter,
    is_allowed,
    is_concerned,
    prolong,
)
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.cluster import create_delegation_token as create_guard
from lacuna.agent.guards.cluster import describe_delegation_token as describe_guard
from lacuna.agent.security.tokens import principal_of
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import USER, Principal
from lacuna.controlplane.v1.security_pb2 import DelegationToken, SecurityChanges
from lacuna.wire.messages import security as wire

_ID_BYTES: Final = 16
_MOST_RENEWERS: Final = 20
_MOST_OF_NAME: Final = 1024


async def create(
    call: Call, request: wire.CreateDelegationTokenRequest
) -> wire.CreateDelegationTokenResponse:
    if error_code := _invalid(call, request):
        return _refuse_create(call, request, error_code)
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
        return _refuse_create(call, request, error_code)
    return _refuse_create(call, request, ErrorCode.NONE)._replace(
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expiry_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=tokens.hmac(token.token_id),
    )


def _invalid(call: Call, request: wire.CreateDelegationTokenRequest) -> int:
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


def _owner(call: Call, request: wire.CreateDelegationTokenRequest) -> Principal:
    if not request.owner_principal_name:
        return call.peer.session.principal
    return Principal(request.owner_principal_type or USER, request.owner_principal_name)


def _may_own(call: Call, owner: Principal) -> bool:
    """Whether the client may create tokens for `owner`: without an authorizer, only if it is the owner."""
    return call.context.access.authorizer is not None or owner == call.peer.session.principal


def _refuse_create(
    call: Call, request: wire.CreateDelegationTokenRequest, error_code: int
) -> wire.CreateDelegationTokenResponse:
    owner, requester = _owner(call, request), call.peer.session.principal
    return wire.CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


async def renew(
    call: Call, request: wire.RenewDelegationTokenRequest
) -> wire.RenewDelegationTokenResponse:
    period_ms = call.context.access.settings.token_expiry_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    answer = await prolong(call, bytes(request.hmac), period_ms)
    return wire.RenewDelegationTokenResponse(*answer)


async def expire(
    call: Call, request: wire.ExpireDelegationTokenRequest
) -> wire.ExpireDelegationTokenResponse:
    period_ms = max(request.expiry_time_period_ms, 0)
    answer = await prolong(call, bytes(request.hmac), period_ms)
    return wire.ExpireDelegationTokenResponse(*answer)


async def describe(
    call: Call, request: wire.DescribeDelegationTokenRequest
) -> wire.DescribeDelegationTokenResponse:
    if not is_allowed(call):
        return wire.DescribeDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        )
    if not call.context.access.tokens.is_enabled:
        return wire.DescribeDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        )
    view = await current_view(call.context)
    now_ms = call.context.clock.now_ms()
    named = request.owners
    owners = None if named is None else [Principal(*each) for each in named]
    return wire.DescribeDelegationTokenResponse(
        tokens=[
            _described(call, token)
            for token in view.security.tokens.values()
            if token.expiry_ms > now_ms
            and (owners is None or any(is_concerned(token, each) for each in owners))
            and _may_describe(call, token)
        ]
    )


def _may_describe(call: Call, token: DelegationToken) -> bool:
    """Whether the client may see a token. Without an authorizer, it may only see a token that concerns it."""
    has_acls = call.context.access.authorizer is not None
    return has_acls or is_concerned(token, call.peer.session.principal)


def _described(call: Call, token: DelegationToken) -> wire.DescribedDelegationToken:
    return wire.DescribedDelegationToken(
        *principal_of(token.owner),
        *principal_of(token.requester),
        token.issued_ms,
        token.expiry_ms,
        token.max_ms,
        token.token_id,
        call.context.access.tokens.hmac(token.token_id),
        [wire.DescribedDelegationTokenRenewer(*principal_of(each)) for each in token.renewers],
    )


APIS = (
    Api(
        request=wire.CREATE_DELEGATION_TOKEN_REQUEST,
        response=wire.CREATE_DELEGATION_TOKEN_RESPONSE,
        advertised=(1, 3),
        handle=create,
        refusal=_refuse_create,
        guard=create_guard,
        notes=NOTES,
    ),
    Api(
        request=wire.RENEW_DELEGATION_TOKEN_REQUEST,
        response=wire.RENEW_DELEGATION_TOKEN_RESPONSE,
        advertised=(1, 2),
        handle=renew,
        refusal=lambda _call, _request, code: wire.RenewDelegationTokenResponse(code, NO_TIME),
        guard=None,  # the handler accepts only the token's owner and renewers
        notes=NOTES,
    ),
    Api(
        request=wire.EXPIRE_DELEGATION_TOKEN_REQUEST,
        response=wire.EXPIRE_DELEGATION_TOKEN_RESPONSE,
        advertised=(1, 2),
        handle=expire,
        refusal=lambda _call, _request, code: wire.ExpireDelegationTokenResponse(code, NO_TIME),
        guard=None,  # the handler accepts only the token's owner and renewers
        notes=NOTES,
    ),
    Api(
        request=wire.DESCRIBE_DELEGATION_TOKEN_REQUEST,
        response=wire.DESCRIBE_DELEGATION_TOKEN_RESPONSE,
        advertised=(1, 3),
        handle=describe,
        guard=describe_guard,
        notes=NOTES,
    ),
)
