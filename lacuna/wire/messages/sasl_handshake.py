"""SaslHandshake. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, STRING
from lacuna.wire.layout import Field, Message, Struct


class SaslHandshakeRequest(NamedTuple):
    mechanism: str = ""


class SaslHandshakeResponse(NamedTuple):
    error_code: int = 0
    mechanisms: Sequence[str] = ()


_SASL_HANDSHAKE_REQUEST: Final = Struct(
    SaslHandshakeRequest,
    mechanism=Field(STRING),
)
SASL_HANDSHAKE_REQUEST: Final[Message[SaslHandshakeRequest]] = Message(
    _SASL_HANDSHAKE_REQUEST, api_key=17, versions=(0, 1), first_flexible=None
)
_SASL_HANDSHAKE_RESPONSE: Final = Struct(
    SaslHandshakeResponse,
    error_code=Field(INT16),
    mechanisms=Field(STRING, is_array=True),
)
SASL_HANDSHAKE_RESPONSE: Final[Message[SaslHandshakeResponse]] = Message(
    _SASL_HANDSHAKE_RESPONSE, api_key=17, versions=(0, 1), first_flexible=None
)
