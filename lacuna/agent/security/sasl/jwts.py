"""Validates JWTs (RFC 7519) and finds their principals, applying the checks of Kafka's validators (KIP-255, KIP-768).

The signature must come from a key of the issuer's JWK set, with an asymmetric algorithm. `none` and HMAC are always
rejected. No error message contains any part of a token.
"""

import binascii
import json
import math
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, Final, Protocol

from lacuna.agent.clock import WallClock
from lacuna.agent.security.sasl.jwks import Jwk, Jwks
from lacuna.agent.security.sasl.mechanism import Authenticated
from lacuna.agent.security.settings import SecuritySettings, listed
from lacuna.base.errors import needing_extra
from lacuna.controlplane.shared.principal import USER, Principal

#: Algorithm -> the type of its keys, and their curve if only one is allowed.
_ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    **{f"{family}{size}": ("RSA", None) for family in ("RS", "PS") for size in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", None),
}
_LEAST_RSA_BITS: Final = 2048
_MOST_NAME: Final = 1024
_LATEST_SECONDS: Final = 1 << 40

INVALID: Final = "invalid_token"
INSUFFICIENT: Final = "insufficient_scope"


class TokenRefused(Exception):
    """A token is rejected. The message is for the log, and the client receives `status` (RFC 7628)."""

    def __init__(self, message: str, status: str = INVALID) -> None:
        super().__init__(message)
        self.status = status


class Validator(Protocol):
    """Finds the identity that a token authenticates."""

    async def validate(self, token: str) -> Authenticated:
        """Raises TokenRefused."""
        ...


class Claims:
    """The checks of a token's claims."""

    def __init__(self, settings: SecuritySettings, clock: WallClock, *, requires_iat: bool) -> None:
        self._clock = clock
        self._requires_iat = requires_iat
        self._skew = settings.oauth_skew_seconds
        self._issuer = settings.oauth_issuer
        self._audiences = listed(settings.oauth_audience)
        self._sub = settings.oauth_sub
        self._scope = settings.oauth_scope
        self.scopes = listed(settings.oauth_scopes)

    def check(self, payload: bytes) -> Authenticated:
        """Return the principal in the claims, and the expiry time. Raises TokenRefused if a check fails."""
        claims = _object(payload, "payload")
        now = self._clock.now_ms() / 1000
        expires = self._time(claims, "exp", is_required=True)
        if now >= expires + self._skew:
            raise TokenRefused("the token has expired")
        if now < self._time(claims, "nbf") - self._skew:
            raise TokenRefused("the token is not valid yet")
        if now < self._time(claims, "iat", is_required=self._requires_iat) - self._skew:
            raise TokenRefused("the token was issued in the future: compare the clocks")
        if self._issuer and claims.get("iss") != self._issuer:
            raise TokenRefused(
                "the issuer of the token differs from sasl.oauthbearer.expected.issuer"
            )
        self._check_audience(claims.get("aud"))
        self._check_scope(claims.get(self._scope))
        name = claims.get(self._sub)
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise TokenRefused(f"the token's claim {self._sub} does not contain a name")
        if len(name) > _MOST_NAME:
            raise TokenRefused("the name in the token is too long")
        return Authenticated(Principal(USER, name), int((expires + self._skew) * 1000))

    @staticmethod
    def _time(claims: Mapping[str, Any], name: str, *, is_required: bool = False) -> float:
        value = claims.get(name)
        if value is None and not is_required:
            return 0
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise TokenRefused(f"the token's claim {name} does not contain a time")
        if not 0 <= value <= _LATEST_SECONDS or not math.isfinite(value):
            raise TokenRefused(f"the time in the claim {name} is out of range")
        return value

    def _check_audience(self, given: object) -> None:
        named = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        if self._audiences:
            if not any(each in named for each in self._audiences):
                raise TokenRefused(
                    "the audience of the token differs from sasl.oauthbearer.expected.audience"
                )
        elif given is not None:
            raise TokenRefused(
                "the token names an audience, but sasl.oauthbearer.expected.audience is not set"
            )

    def _check_scope(self, given: object) -> None:
        has = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
        if any(each not in has for each in self.scopes):
            raise TokenRefused("the token lacks a required scope", INSUFFICIENT)


class JwtValidator:
    """Accepts tokens that the issuer has signed."""

    def __init__(self, claims: Claims, keys: Jwks) -> None:
        """Raises UserError if PyJWT is missing."""
        with needing_extra("OAUTHBEARER in sasl.enabled.mechanisms", "security"):
            import cryptography  # noqa: F401
            import jwt
        self._jws = jwt.PyJWS(list(_ALGORITHMS))
        self._claims = claims
        self._keys = keys

    async def validate(self, token: str) -> Authenticated:
        algorithm, kid = _header(token)
        if algorithm not in _ALGORITHMS:
            raise TokenRefused(
                "the token is not signed with one of " + ", ".join(_ALGORITHMS), INVALID
            )
        found = [each for each in await self._keys.find(kid) if _fits(each, algorithm)]
        if not found:
            raise TokenRefused(f"{self._keys.name} has no key for the token")
        if kid is None and len(found) > 1:
            raise TokenRefused("the token does not name the key that signed it")
        return self._claims.check(self._payload(token, algorithm, found[0]))

    def _payload(self, token: str, algorithm: str, jwk: Jwk) -> bytes:
        import jwt
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

        try:
            key = jwt.PyJWK(dict(jwk), algorithm=algorithm)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise TokenRefused(f"a key in {self._keys.name} cannot be used") from error
        if isinstance(key.key, RSAPublicKey) and key.key.key_size < _LEAST_RSA_BITS:
            raise TokenRefused(f"a key in {self._keys.name} has fewer than {_LEAST_RSA_BITS} bits")
        try:
            found = self._jws.decode(token, key, algorithms=[algorithm])
        except jwt.InvalidSignatureError:
            raise TokenRefused("the signature of the token is invalid") from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise TokenRefused("the token cannot be read") from None
        assert isinstance(found, bytes)
        return found


class UnsecuredValidator:
    """Accepts unsigned tokens, for development (RFC 7515, appendix A.5)."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    async def validate(self, token: str) -> Authenticated:
        algorithm, _ = _header(token)
        _, payload, signature = token.split(".")
        if algorithm != "none" or signature:
            raise TokenRefused(
                "the token is signed, but this agent accepts only unsigned ones: unset "
                "sasl.oauthbearer.unsecured"
            )
        return self._claims.check(_decoded(payload))


def _header(token: str) -> tuple[str, str | None]:
    """Return the algorithm and the key id in a token's header. Raises TokenRefused."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("the token is not a signed JWT")
    header = _object(_decoded(parts[0]), "header")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or not isinstance(kid, str | None):
        raise TokenRefused("the header of the token cannot be read")
    if "crit" in header or "b64" in header:
        raise TokenRefused("the token needs an extension that is not supported")
    return algorithm, kid


def _object(content: bytes, what: str) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenRefused(f"the {what} of the token is not a JSON object")
    return found


def _decoded(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise TokenRefused("a part of the token is not valid Base64") from None


def _fits(key: Jwk, algorithm: str) -> bool:
    """Return whether a key can be used with an algorithm, according to the key's own fields."""
    kind, curve = _ALGORITHMS[algorithm]
    return (
        key["kty"] == kind
        and curve in (None, key.get("crv"))
        and key.get("alg", algorithm) == algorithm
    )
