"""What a SASL mechanism is to a connection: an exchange that takes the client's tokens one after another."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from lacuna.controlplane.shared.principal import Principal

#: A longer token is refused, and so is a longer request of a client that has not authenticated; in bytes. It is the
#: default of Kafka's sasl.server.max.receive.size.
MOST_TOKEN_BYTES: Final = 512 * 1024
#: A longer one of SCRAM or PLAIN fails, in bytes: only the tokens of OAUTHBEARER are large.
MOST_PASSWORD_TOKEN_BYTES: Final = 8 * 1024


class AuthenticationFailed(Exception):
    """The client is not who it says. The message is for the log; clients are told `told`, which gives nothing away."""

    def __init__(self, message: str, told: str = "") -> None:
        super().__init__(message)
        self.told = told
        #: Whether it is in the log already.
        self.is_logged = False


def check_size(token: bytes) -> None:
    """Raise AuthenticationFailed for a token of SCRAM or PLAIN that is too long."""
    if len(token) > MOST_PASSWORD_TOKEN_BYTES:
        raise AuthenticationFailed(f"its message has more than {MOST_PASSWORD_TOKEN_BYTES} bytes")


class Authenticated(NamedTuple):
    """Who the client is, and until when (wall clock, ms since 1970) its credentials are valid, None for ever.

    `is_token` says that it came with a delegation token."""

    principal: Principal
    expiry_ms: int | None = None
    is_token: bool = False


class Answer(NamedTuple):
    """The token that answers the client's, and who it is once the exchange is complete.

    `refusal` is why it will fail, where the client is told so first and confirms it."""

    token: bytes
    outcome: Authenticated | None = None
    refusal: AuthenticationFailed | None = None


class Exchange(Protocol):
    """One authentication."""

    async def respond(self, token: bytes) -> Answer:
        """Take the client's next token. Raises AuthenticationFailed."""
        ...


#: The mechanisms that are enabled, by name; each makes an exchange.
Mechanisms = Mapping[str, Callable[[], Exchange]]
