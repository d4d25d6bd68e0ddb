"""SaslHandshake. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from lacuna.wire.layout import Int16, String, messages


class SaslHandshakeRequest(NamedTuple):
    mechanism: String = ""


class SaslHandshakeResponse(NamedTuple):
    error_code: Int16 = 0
    mechanisms: Sequence[String] = ()


SASL_HANDSHAKE_REQUEST, SASL_HANDSHAKE_RESPONSE = messages(
    SaslHandshakeRequest, SaslHandshakeResponse, api_key=17, versions=(0, 1), first_flexible=None
)
