"""SaslAuthenticate. Written by lacuna.wire.generator, not by hand."""

from typing import Final, NamedTuple

from lacuna.wire.kernel import BYTES, INT16, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class SaslAuthenticateRequest(NamedTuple):
    auth_bytes: bytes = b""


class SaslAuthenticateResponse(NamedTuple):
    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


_SASL_AUTHENTICATE_REQUEST: Final = Struct(
    SaslAuthenticateRequest,
    auth_bytes=Field(BYTES),
)
SASL_AUTHENTICATE_REQUEST: Final[Message[SaslAuthenticateRequest]] = Message(
    _SASL_AUTHENTICATE_REQUEST, api_key=36, versions=(0, 2), first_flexible=2
)
_SASL_AUTHENTICATE_RESPONSE: Final = Struct(
    SaslAuthenticateResponse,
    error_code=Field(INT16),
    error_message=Field(STRING, null_since=0),
    auth_bytes=Field(BYTES),
    session_lifetime_ms=Field(INT64, since=1),
)
SASL_AUTHENTICATE_RESPONSE: Final[Message[SaslAuthenticateResponse]] = Message(
    _SASL_AUTHENTICATE_RESPONSE, api_key=36, versions=(0, 2), first_flexible=2
)
