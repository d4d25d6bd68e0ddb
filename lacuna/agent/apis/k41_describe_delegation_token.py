"""DescribeDelegationToken v1-v3 (KIP-48, KIP-373): the tokens that the client owns, requested or may renew.

If the request names owners, only tokens that concern one of them are returned.
"""

from lacuna.agent.admin.delegation_tokens import NOTES, is_allowed, is_concerned
from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.guards.cluster import describe_delegation_token as guard
from lacuna.agent.security.tokens import principal_of
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.v1.security_pb2 import DelegationToken
from lacuna.wire.messages.describe_delegation_token import (
    DESCRIBE_DELEGATION_TOKEN_REQUEST,
    DESCRIBE_DELEGATION_TOKEN_RESPONSE,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


async def handle(
    call: Call, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return the tokens with their HMACs."""
    if not is_allowed(call):
        return DescribeDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        )
    if not call.context.access.tokens.is_enabled:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    view = await current_view(call.context)
    now_ms = call.context.clock.now_ms()
    named = request.owners
    owners = None if named is None else [Principal(*each) for each in named]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(call, token)
            for token in view.security.tokens.values()
            if token.expiry_ms > now_ms
            and (owners is None or any(is_concerned(token, each) for each in owners))
            and _may_describe(call, token)
        ]
    )


def _may_describe(call: Call, token: DelegationToken) -> bool:
    """Return whether the client may see a token regardless of ACLs: only a token that concerns it."""
    has_acls = call.context.access.authorizer is not None
    return has_acls or is_concerned(token, call.peer.session.principal)


def _described(call: Call, token: DelegationToken) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *principal_of(token.owner),
        *principal_of(token.requester),
        token.issued_ms,
        token.expiry_ms,
        token.max_ms,
        token.token_id,
        call.context.access.tokens.hmac(token.token_id),
        [DescribedDelegationTokenRenewer(*principal_of(each)) for each in token.renewers],
    )


API = Api(
    request=DESCRIBE_DELEGATION_TOKEN_REQUEST,
    response=DESCRIBE_DELEGATION_TOKEN_RESPONSE,
    max_version=3,
    advertised=(1, 3),
    handle=handle,
    refuse=error_in(DESCRIBE_DELEGATION_TOKEN_RESPONSE),
    guard=guard,
    notes=NOTES,
)
