"""Shared code for the delegation token APIs (KIP-48, KIP-373).

These APIs require an authenticated connection: SASL, or SSL with a client certificate. A client that authenticated with
a token may not create or renew tokens.
"""

import asyncio
import logging
from typing import Final

from lacuna.agent.api import Call
from lacuna.agent.security.listeners import Protocol
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.config_values import shorten
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import ANONYMOUS, Principal
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.security_pb2 import AlterSecurity, DelegationToken, SecurityChanges

log = logging.getLogger("lacuna.agent")

#: The time in an answer that reports an error.
NO_TIME: Final = -1
NOTES: Final = "returns DELEGATION_TOKEN_REQUEST_NOT_ALLOWED without an authenticated connection"


def is_allowed(call: Call) -> bool:
    session = call.peer.session
    protocol = session.listener.protocol
    is_unknown = protocol is Protocol.SSL and session.principal == ANONYMOUS
    return not (session.is_token or protocol is Protocol.PLAINTEXT or is_unknown)


def is_concerned(token: DelegationToken, principal: Principal) -> bool:
    return str(principal) in (token.owner, token.requester, *token.renewers)


async def prolong(call: Call, hmac: bytes, period_ms: int) -> tuple[int, int]:
    """Set a token to expire after `period_ms`, and return an error code and the new expiry time.

    Only the owner and the renewers of a token may do this. A period of 0 removes the token.
    """
    if not is_allowed(call):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
    tokens = call.context.access.tokens
    if not tokens.is_enabled:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, NO_TIME
    await current_view(call.context)
    token = tokens.by_hmac(hmac)
    now_ms = call.context.clock.now_ms()
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND, NO_TIME
    if token.expiry_ms <= now_ms:
        return ErrorCode.DELEGATION_TOKEN_EXPIRED, NO_TIME
    if str(call.peer.session.principal) not in (token.owner, *token.renewers):
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, NO_TIME
    expiry = min(token.max_ms, now_ms + period_ms)
    # Removing and adding it in one command ensures that a token removed in the meantime is not restored.
    changes = SecurityChanges(removed_token_ids=[token.token_id])
    if expiry > now_ms:
        changed = changes.tokens.add()
        changed.CopyFrom(token)
        changed.expiry_ms = expiry
    code = await alter(call, changes)
    return code, NO_TIME if code else expiry


async def alter(call: Call, changes: SecurityChanges) -> int:
    """Apply changes to tokens and return the error code. Answers have no message, so the reason is logged."""
    command = Command(alter_security=AlterSecurity(changes=changes))
    reply = (await call.context.control.call(command)).security_altered
    why, now = reply.error_message, asyncio.get_running_loop().time()
    if reply.error_code and call.context.access.complaints.is_new(call.peer.host, why, now):
        who = ascii(shorten(str(call.peer.session.principal)))
        log.warning("a delegation token change for %s was rejected: %s", who, why)
    return reply.error_code
