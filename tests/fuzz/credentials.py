"""Client credentials as arbitrary bytes: the targets `sasl` and `jwts`."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Coroutine, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from lacuna.agent.security.sasl.jwks import Jwk, Jwks
from lacuna.agent.security.sasl.jwts import Claims, JwtValidator, TokenRefused, UnsecuredValidator
from lacuna.agent.security.sasl.mechanism import AuthenticationFailed, Exchange
from lacuna.agent.security.sasl.oauthbearer import OAuthBearerExchange
from lacuna.agent.security.sasl.plain import PlainExchange, PlainPasswords
from lacuna.agent.security.sasl.scram import ScramExchange
from lacuna.agent.security.sasl.users import SHA_256, Users
from lacuna.agent.security.settings import SecuritySettings
from lacuna.controlplane.shared.security import Security
from tests.doubles.clock import ManualClock

T = TypeVar("T")

NOW_MS: Final = 1_700_000_000_000


def sasl(data: bytes) -> None:
    """A client's tokens, for the mechanism that the first byte selects. A client without a password is never
    authenticated.
    """
    if len(data) < 2:
        return
    first, second = data[2 : 2 + data[1]], data[2 + data[1] :]
    exchange = _EXCHANGES[data[0] % len(_EXCHANGES)]()
    for token in (first, second):
        try:
            answer = _done(exchange.respond(token))
        except AuthenticationFailed:
            return
        assert answer.outcome is None


def jwts(data: bytes) -> None:
    """A bearer token. The first byte selects whether it is raw, or header, payload and signature separated by zero
    bytes.
    """
    if not data:
        return
    token = data[1:].decode("latin-1")
    if data[0] & 1:
        token = ".".join(urlsafe_b64encode(part).decode() for part in data[1:].split(b"\0"))
    for validator in (_SIGNED, _UNSECURED):
        try:
            found = _done(validator.validate(token))
        except TokenRefused:
            continue
        assert validator is _UNSECURED
        assert found.principal.name.isprintable()
        assert found.expiry_ms is not None
        assert found.expiry_ms > NOW_MS


class _Keys(Jwks):
    """An issuer's keys, without any network request."""

    async def find(self, kid: str | None) -> Sequence[Jwk]:
        return [_KEY] if kid in (None, _KEY["kid"]) else []


class _NoPasswords(PlainPasswords):
    """Rejects every password."""

    async def are_right(self, user: str, password: bytes) -> bool:
        return False


async def _no_tokens(_token_id: str, _mechanism: int) -> None:
    return None


def _done(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


_CLOCK: Final = ManualClock(NOW_MS)
_KEY: Final[Jwk] = MappingProxyType(
    {
        "kty": "EC",
        "crv": "P-256",
        "kid": "k",
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
    }
)
_CLAIMS: Final = Claims(SecuritySettings(), _CLOCK, requires_iat=False)
_SIGNED: Final = JwtValidator(_CLAIMS, _Keys("https://issuer.example/keys", 1))
_UNSECURED: Final = UnsecuredValidator(_CLAIMS)
_USERS: Final = Users(Security(), {"alice": b"secret"})
_EXCHANGES: Final[Sequence[Callable[[], Exchange]]] = (
    lambda: ScramExchange(SHA_256, _USERS, _no_tokens, lambda: b"server"),
    lambda: PlainExchange(_NoPasswords(_USERS)),
    lambda: OAuthBearerExchange(_SIGNED),
)
