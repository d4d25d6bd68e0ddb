"""The identity of a connection's client, and whether it may send requests now.

On a listener without SASL, the client may send requests from the start. On a listener with SASL, it first sends
ApiVersions, SaslHandshake and its tokens. Credentials may expire (KIP-368). The client must then authenticate again on
the same connection, as the same principal with the same mechanism, or the connection ends.
"""

from collections.abc import Callable, Sequence
from typing import Final

from lacuna.agent.clock import WallClock
from lacuna.agent.security.listeners import Listener
from lacuna.agent.security.peers import PEER, PEER_MECHANISM
from lacuna.agent.security.sasl.mechanism import (
    Answer,
    Authenticated,
    AuthenticationFailed,
    Exchange,
    Mechanisms,
)
from lacuna.controlplane.shared.config_values import printable
from lacuna.controlplane.shared.principal import ANONYMOUS, Principal

_SASL_HANDSHAKE: Final = 17
_API_VERSIONS: Final = 18
_SASL_AUTHENTICATE: Final = 36
_TO_AUTHENTICATE: Final = (_SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE)
#: The shortest time between two authentications of a client.
_SHORTEST_MS: Final = 1000


class NotNow(Exception):
    """The listener does not use SASL, or the client has already authenticated."""


class UnsupportedMechanism(Exception):
    """The mechanism is not enabled."""


class Authentication:
    __slots__ = (
        "_clock",
        "_exchange",
        "_longest_ms",
        "_mechanisms",
        "_since_ms",
        "expiry_ms",
        "is_open",
        "is_over",
        "is_token",
        "listener",
        "mechanism",
        "on_step",
        "principal",
        "sends_tokens",
    )

    def __init__(
        self,
        listener: Listener,
        clock: WallClock,
        mechanisms: Mechanisms | None = None,
        longest_ms: int = 0,
        principal: Principal = ANONYMOUS,
    ) -> None:
        """`principal` is from a client certificate. `longest_ms` is connections.max.reauth.ms; 0 means no limit."""
        self.listener = listener
        self.principal = principal
        self._clock = clock
        self._mechanisms = mechanisms or {}
        self._longest_ms = longest_ms
        self._exchange: Exchange | None = None
        self._since_ms = 0
        #: Called when an exchange begins or is complete.
        self.on_step: Callable[[], None] = lambda: None
        #: Whether the client's next frames are tokens without headers (SaslHandshake v0, KIP-43).
        self.sends_tokens = False
        #: The mechanism that the client chose last, or "".
        self.mechanism = ""
        #: Whether the client authenticated with a delegation token.
        self.is_token = False
        #: The time (wall clock, ms) until which requests are served, or None.
        self.expiry_ms: int | None = None
        #: Whether every request is served without a further check.
        self.is_open = not listener.protocol.has_sasl
        #: Whether the connection ends after the error is sent.
        self.is_over = False

    def admits(self, api_key: int) -> bool:
        """Return whether a request may be served while `is_open` is false."""
        if api_key in _TO_AUTHENTICATE:
            return True
        return self.has_authenticated and not self.has_expired

    @property
    def has_authenticated(self) -> bool:
        """Whether the client is authenticated, as far as its listener requires it."""
        if not self.listener.protocol.has_sasl:
            return True
        return self._since_ms > 0 and self._exchange is None and not self.is_over

    @property
    def has_expired(self) -> bool:
        """Whether the client should have authenticated again but has not done so."""
        return self.expiry_ms is not None and self._clock.now_ms() >= self.expiry_ms

    def choose(self, mechanism: str, *, sends_tokens: bool) -> None:
        """Begin an exchange. `sends_tokens` means that the client sends its tokens without request headers.

        Raises NotNow and UnsupportedMechanism.
        """
        if not self.listener.protocol.has_sasl or not self._may_begin():
            raise NotNow
        make = self._mechanisms.get(mechanism)
        if make is None:
            self.is_over = True
            raise UnsupportedMechanism
        if self._since_ms and mechanism != self.mechanism:
            self.is_over = True
            raise NotNow
        self.mechanism = mechanism
        self._exchange = make()
        self.sends_tokens = sends_tokens
        self.on_step()

    def _may_begin(self) -> bool:
        if self._exchange is not None or self.is_over:
            self.abandon()  # the client may already have begun an exchange
            return False
        if not self._since_ms:
            return True
        return self.expiry_ms is not None and self._clock.now_ms() >= self._since_ms + _SHORTEST_MS

    async def authenticate(self, token: bytes) -> tuple[Answer, int]:
        """Process the client's next token. Return the answer, and how long the session then lasts (ms), where 0 means
        no limit.

        Raises NotNow, and AuthenticationFailed, which ends the connection.
        """
        exchange = self._exchange
        if exchange is None:
            self.is_over = self.listener.protocol.has_sasl
            raise NotNow
        try:
            answer = await exchange.respond(token)
            if answer.outcome is None:
                return answer, 0
            return answer, self._authenticated(answer.outcome)
        except AuthenticationFailed:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Drop the current exchange, because it failed or the client has left."""
        self.is_over = True
        self._exchange = None  # the client's message may be large

    def _authenticated(self, outcome: Authenticated) -> int:
        now_ms = self._clock.now_ms()
        if self._since_ms and outcome.principal != self.principal:
            raise AuthenticationFailed(
                f"{printable(str(self.principal))} authenticated again as {printable(str(outcome.principal))}",
                "Cannot change principals during re-authentication",
            )
        ends = [] if outcome.expiry_ms is None else [outcome.expiry_ms]
        if self._longest_ms and outcome.principal != PEER:
            ends.append(now_ms + self._longest_ms)
        self.expiry_ms = min(ends, default=None)
        if self.expiry_ms is not None and self.expiry_ms <= now_ms:
            raise AuthenticationFailed(
                f"the credentials of {printable(str(outcome.principal))} have expired"
            )
        self.principal = outcome.principal
        self.is_token = outcome.is_token
        self._since_ms = now_ms
        self._exchange = None
        self.is_open = self.expiry_ms is None
        self.sends_tokens = False
        self.on_step()
        return 0 if self.expiry_ms is None else self.expiry_ms - now_ms

    @property
    def mechanisms(self) -> Sequence[str]:
        """The names of the mechanisms that clients may use."""
        return [name for name in self._mechanisms if name != PEER_MECHANISM]
