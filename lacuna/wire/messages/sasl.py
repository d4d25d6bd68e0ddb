"""Sasl. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bytes, In, Int16, Int64, String, messages


class SaslAuthenticateRequest(NamedTuple):
    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, In(since=1)] = 0


class SaslHandshakeRequest(NamedTuple):
    mechanism: String = ""


class SaslHandshakeResponse(NamedTuple):
    error_code: Int16 = 0
    mechanisms: Sequence[String] = ()


SASL_AUTHENTICATE_REQUEST, SASL_AUTHENTICATE_RESPONSE = messages(
    SaslAuthenticateRequest, SaslAuthenticateResponse, api_key=36, versions=(0, 2), first_flexible=2
)

SASL_HANDSHAKE_REQUEST, SASL_HANDSHAKE_RESPONSE = messages(
    SaslHandshakeRequest, SaslHandshakeResponse, api_key=17, versions=(0, 1), first_flexible=None
)
