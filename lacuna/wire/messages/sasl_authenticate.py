"""SaslAuthenticate. Written by lacuna.wire.generator, not by hand."""

from typing import Annotated, Final, NamedTuple

from lacuna.wire.layout import Bytes, In, Int16, Int64, Message, String


class SaslAuthenticateRequest(NamedTuple):
    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, In(since=1)] = 0


SASL_AUTHENTICATE_REQUEST: Final = Message(
    SaslAuthenticateRequest, api_key=36, versions=(0, 2), first_flexible=2
)

SASL_AUTHENTICATE_RESPONSE: Final = Message(
    SaslAuthenticateResponse, api_key=36, versions=(0, 2), first_flexible=2
)
