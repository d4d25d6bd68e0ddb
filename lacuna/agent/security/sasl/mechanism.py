"""The interface between a SASL mechanism and a connection: an exchange that takes the client's tokens in order."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from lacuna.controlplane.shared.principal import Principal

#: The maximum size, in bytes, of a token and of a request from a client that has not authenticated. This is the default
#: of Kafka's sasl.server.max.receive.size.
MOST_TOKEN_BYTES: Final = 512 * 1024
#: The maximum size of a SCRAM or PLAIN token in bytes. Only OAUTHBEARER tokens are large.
MOST_PASSWORD_TOKEN_BYTES: Final = 8 * 1024


class AuthenticationFailed(Exception):
    """The client could not authenticate. The message is for the log, and the client receives only `told`."""

    def __init__(self, message: str, told: str = "") -> None:
        super().__init__(message)
        self.told = told
        #: Whether the failure is already in the log.
        self.is_logged = False


def check_size(token: bytes) -> None:
    """Raise AuthenticationFailed if a token of SCRAM or PLAIN is too long."""
    if len(token) > MOST_PASSWORD_TOKEN_BYTES:
        raise AuthenticationFailed(f"its message has more than {MOST_PASSWORD_TOKEN_BYTES} bytes")


class Authenticated(NamedTuple):
    """The client's principal, and when its credentials expire (wall clock, ms since 1970), or None if they do not.

    `is_token` means that the client authenticated with a delegation token.
    """

    principal: Principal
    expiry_ms: int | None = None
    is_token: bool = False


class Answer(NamedTuple):
    """The response to the client's token, and the client's identity once the exchange is complete.

    `refusal` is the reason for a failure that the client must first receive and confirm.
    """

    token: bytes
    outcome: Authenticated | None = None
    refusal: AuthenticationFailed | None = None


class Exchange(Protocol):
    """A single authentication."""

    async def respond(self, token: bytes) -> Answer: ...


#: The enabled mechanisms by name. Each value creates an exchange.
Mechanisms = Mapping[str, Callable[[], Exchange]]
