"""SaslAuthenticate. Written by lacuna.wire.generator, not by hand."""

from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bytes, In, Int16, Int64, String, messages


class SaslAuthenticateRequest(NamedTuple):
    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(NamedTuple):
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, In(since=1)] = 0


SASL_AUTHENTICATE_REQUEST, SASL_AUTHENTICATE_RESPONSE = messages(
    SaslAuthenticateRequest, SaslAuthenticateResponse, api_key=36, versions=(0, 2), first_flexible=2
)
