"""SaslHandshake v0-v1 (KIP-43, KIP-152): the client chooses a mechanism.

After v1, the client sends its tokens in SaslAuthenticate requests; after v0, it sends them without request headers. A
listener without SASL returns ILLEGAL_SASL_STATE, as does any listener if the client need not authenticate again.
Listeners without SASL also advertise this API. Without it, clients that derive a broker's release from the advertised
APIs would assume 0.9.

SaslAuthenticate v0-v2 (KIP-152, KIP-368): takes a token from the client and returns the server's next token.

After a failed authentication, the answer is delayed to slow down password guessing, and the connection is closed. The
answer reveals nothing about users. The log contains all details except secrets.
"""

import asyncio
import logging

from lacuna.agent.api import Api, Call
from lacuna.agent.security.authentication import NotNow, UnsupportedMechanism
from lacuna.agent.security.sasl.mechanism import AuthenticationFailed
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import security as wire


async def handshake(call: Call, request: wire.SaslHandshakeRequest) -> wire.SaslHandshakeResponse:
    session = call.peer.session
    try:
        session.choose(request.mechanism, sends_tokens=call.version == 0)
    except NotNow:
        return wire.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    except UnsupportedMechanism:
        return wire.SaslHandshakeResponse(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=session.mechanisms
        )
    return wire.SaslHandshakeResponse(mechanisms=session.mechanisms)


log = logging.getLogger("lacuna.agent")


async def authenticate(
    call: Call, request: wire.SaslAuthenticateRequest
) -> wire.SaslAuthenticateResponse:
    session = call.peer.session
    began = asyncio.get_running_loop().time()
    try:
        answer, lifetime_ms = await session.authenticate(bytes(request.auth_bytes))
    except NotNow:
        return wire.SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="Send SaslHandshake before a token, and only to a listener with SASL.",
        )
    except AuthenticationFailed as error:
        return await _failed(call, error, began)
    if answer.refusal is not None:
        _log(call, answer.refusal)
    return wire.SaslAuthenticateResponse(
        error_message=None, auth_bytes=answer.token, session_lifetime_ms=lifetime_ms
    )


async def _failed(
    call: Call, error: AuthenticationFailed, began: float
) -> wire.SaslAuthenticateResponse:
    _log(call, error)
    # The delay starts when the token arrives, since the time needed to check it may depend on whether the user exists.
    until = began + call.context.access.settings.failure_delay_ms / 1000
    await asyncio.sleep(until - asyncio.get_running_loop().time())
    told = error.told or (
        "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {call.peer.session.mechanism}"
    )
    return wire.SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told
    )


def _log(call: Call, error: AuthenticationFailed) -> None:
    """Log and count the failure immediately, since the client may disconnect before it is answered."""
    if error.is_logged:
        return
    error.is_logged = True
    peer, mechanism = call.peer, call.peer.session.mechanism
    call.context.metrics.authentications_failed += 1
    # A client that guesses passwords fails often. The metric counts every failure, but the log has only one a minute
    # for each host.
    now = asyncio.get_running_loop().time()
    if call.context.access.complaints.is_new(peer.host, f"{mechanism} {error}", now):
        log.warning(
            "%s:%d: authentication by %s failed: %s", peer.host, peer.port, mechanism, error
        )


APIS = (
    Api(
        request=wire.SASL_HANDSHAKE_REQUEST,
        response=wire.SASL_HANDSHAKE_RESPONSE,
        handle=handshake,
        guard=None,  # needed to authenticate
        notes="returns ILLEGAL_SASL_STATE on listeners without SASL",
    ),
    Api(
        request=wire.SASL_AUTHENTICATE_REQUEST,
        response=wire.SASL_AUTHENTICATE_RESPONSE,
        handle=authenticate,
        guard=None,  # needed to authenticate
        notes="returns ILLEGAL_SASL_STATE on listeners without SASL",
    ),
)
