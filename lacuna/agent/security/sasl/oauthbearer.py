"""OAUTHBEARER (RFC 7628): a client authenticates with a token from an issuer, as in Kafka.

If a token is rejected, the response is a JSON error. Authentication fails once the client has acknowledged the
response with a single byte of value 1.
"""

import json
import re
from typing import Final, NamedTuple

from lacuna.agent.security.sasl.jwts import INSUFFICIENT, TokenRefused, Validator
from lacuna.agent.security.sasl.mechanism import Answer, AuthenticationFailed
from lacuna.controlplane.shared.config_values import printable

_CONFIRMED: Final = b"\x01"
# A name, escaped as in SCRAM; then pairs of extensions, one of which is auth.
_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<authzid>(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,\x01"
    rb"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.+/=a-zA-Z0-9]+)", re.ASCII)


class FirstMessage(NamedTuple):
    """The client's first message. `authzid` is "" if the message names no identity."""

    authzid: str
    token: str


def read_first_message(data: bytes) -> FirstMessage:
    """Read `n,[a=NAME],^Aauth=Bearer TOKEN^A[KEY=VALUE^A…]^A`. Raises AuthenticationFailed."""
    match = _FIRST.fullmatch(data)
    if match is None:
        raise AuthenticationFailed("its OAUTHBEARER message cannot be read")
    pairs = dict(
        pair.split("=", 1) for pair in match["pairs"].decode("ascii").split("\x01") if pair
    )
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise AuthenticationFailed("its OAUTHBEARER message has no bearer token")
    authzid = (match["authzid"] or b"").decode("ascii").replace("=2C", ",").replace("=3D", "=")
    return FirstMessage(authzid, auth["token"])


class OAuthBearerExchange:
    """A single authentication. Tokens must have `scopes`, which are reported to rejected clients."""

    __slots__ = ("_refusal", "_scopes", "_validator")

    def __init__(self, validator: Validator, scopes: str = "") -> None:
        self._validator = validator
        self._scopes = scopes
        self._refusal: AuthenticationFailed | None = None

    async def respond(self, token: bytes) -> Answer:
        if self._refusal is not None:
            if token != _CONFIRMED:
                raise AuthenticationFailed(
                    "the client did not acknowledge that its token was rejected"
                )
            try:
                raise self._refusal
            finally:
                self._refusal = None  # the exception refers to this through its traceback
        message = read_first_message(token)
        try:
            outcome = await self._validator.validate(message.token)
        except TokenRefused as error:
            said = {"status": error.status}
            if error.status == INSUFFICIENT:
                said["scope"] = self._scopes
            text = json.dumps(said, separators=(",", ":"))
            self._refusal = AuthenticationFailed(str(error), text)
            return Answer(text.encode(), refusal=self._refusal)
        if message.authzid not in ("", outcome.principal.name):
            raise AuthenticationFailed(
                f"{printable(str(outcome.principal))} asks to act as another user, which is not "
                "supported"
            )
        return Answer(b"", outcome)
