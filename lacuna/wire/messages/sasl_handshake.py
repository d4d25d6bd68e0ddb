"""SaslHandshake. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.layout import Int16, Message, String


class SaslHandshakeRequest(NamedTuple):
    mechanism: String = ""


class SaslHandshakeResponse(NamedTuple):
    error_code: Int16 = 0
    mechanisms: Sequence[String] = ()


SASL_HANDSHAKE_REQUEST: Final = Message(
    SaslHandshakeRequest, api_key=17, versions=(0, 1), first_flexible=None
)

SASL_HANDSHAKE_RESPONSE: Final = Message(
    SaslHandshakeResponse, api_key=17, versions=(0, 1), first_flexible=None
)
