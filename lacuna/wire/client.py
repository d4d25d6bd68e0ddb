"""The client side of a connection, without I/O: builds request frames, parses responses, and authenticates with SASL.

A frame is an int32 size followed by that many bytes, which hold a header and a message. A connection carries one
request at a time.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, Protocol, TypeVar

from lacuna.base.sasl import Credentials, SaslError
from lacuna.wire.layout import Buffer, Message
from lacuna.wire.messages.security import (
    SASL_AUTHENTICATE_REQUEST,
    SASL_AUTHENTICATE_RESPONSE,
    SASL_HANDSHAKE_REQUEST,
    SASL_HANDSHAKE_RESPONSE,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

Q = TypeVar("Q")
R = TypeVar("R")

_SIZE: Final = Struct(">i")
_HEADER: Final = Struct(">hhih")
#: The size of the correlation id in an answer's header, in bytes.
_CORRELATION_BYTES: Final = 4
#: The version of both SASL messages: the first one with tokens in frames and the server's reasons (KIP-152).
_SASL_VERSION: Final = 1
_UNSUPPORTED_SASL_MECHANISM: Final = 33
_API_VERSIONS_KEY: Final = 18


class NoAnswerError(Exception):
    """The server sent something other than a response to the request. The connection must be closed."""


class SizeError(NoAnswerError):
    """The response has an impossible or excessive size, usually because the server speaks another protocol."""

    def __init__(self, size: int) -> None:
        super().__init__(f"its response claims to be {size} bytes long, which is impossible")
        self.size = size


class MechanismNotEnabledError(SaslError):
    """The server does not support the SASL mechanism. `enabled` lists those that it does support."""

    def __init__(self, enabled: Sequence[str]) -> None:
        super().__init__("the server does not support the SASL mechanism")
        self.enabled = enabled


class NoSaslError(SaslError):
    """The listener does not authenticate its clients."""


class CredentialsRefusedError(SaslError):
    """The server rejected the credentials. The message is the server's reason."""


class ClientFrames:
    """Frames the requests on one connection, and splits the received bytes into responses."""

    def __init__(self, client_id: bytes) -> None:
        self._client_id = client_id
        self._correlation_id = 0
        self._answer_header = _CORRELATION_BYTES
        self._most_bytes = 0
        #: Whether the next part is a size, which means that no part of an answer has been taken.
        self.awaits_size = True
        #: The number of bytes in the next part, which is a size or the rest of a frame.
        self.missing = _SIZE.size

    def request(self, form: Message[Q], version: int, request: Q, most_bytes: int) -> bytes:
        """Return the frame of a request whose response may be at most `most_bytes` bytes long.

        Raises UnicodeEncodeError for text that cannot be encoded as UTF-8.
        """
        self._correlation_id += 1
        self._most_bytes = most_bytes
        # The header of a flexible version ends with its tagged fields: a single zero byte, since it has none.
        tags = bytes(form.is_flexible(version))
        # So does the response's header, except in ApiVersions, as its client does not know the server's versions yet.
        is_plain = form.api_key == _API_VERSIONS_KEY
        self._answer_header = _CORRELATION_BYTES + (0 if is_plain else len(tags))
        header = _HEADER.pack(form.api_key, version, self._correlation_id, len(self._client_id))
        payload = b"".join((header, self._client_id, tags, form.write(request, version)))
        return _SIZE.pack(len(payload)) + payload

    def take(self, part: Buffer) -> memoryview | None:
        """Take the next `missing` bytes. Once the response is complete, return its message as a read-only view of
        `part`.

        Raises NoAnswerError.
        """
        self.awaits_size = not self.awaits_size
        if not self.awaits_size:
            (size,) = _SIZE.unpack(part)
            if not self._answer_header <= size <= self._most_bytes:
                raise SizeError(size)
            self.missing = size
            return None
        self.missing = _SIZE.size
        if _SIZE.unpack_from(part)[0] != self._correlation_id:
            raise NoAnswerError("it answered another request")
        return memoryview(part).toreadonly()[self._answer_header :]


class Ask(Protocol):
    """A function that sends a request in a version of `form`, and returns the response, decoded as `answer`."""

    async def __call__(
        self, form: Message[Q], answer: Message[R], version: int, request: Q, /
    ) -> R: ...


async def authenticate(ask: Ask, credentials: Credentials) -> None:
    """Authenticate a new connection with SASL (KIP-152).

    Raises SaslError and its subclasses, and the same errors as `ask`.
    """
    chosen = await ask(
        SASL_HANDSHAKE_REQUEST,
        SASL_HANDSHAKE_RESPONSE,
        _SASL_VERSION,
        SaslHandshakeRequest(credentials.mechanism),
    )
    if chosen.error_code == _UNSUPPORTED_SASL_MECHANISM:
        raise MechanismNotEnabledError(chosen.mechanisms)
    if chosen.error_code:
        raise NoSaslError("the listener does not authenticate its clients")
    exchange = credentials.begin()
    try:
        token = next(exchange)
        while True:
            answer = await ask(
                SASL_AUTHENTICATE_REQUEST,
                SASL_AUTHENTICATE_RESPONSE,
                _SASL_VERSION,
                SaslAuthenticateRequest(token),
            )
            if answer.error_code:
                raise CredentialsRefusedError(answer.error_message or f"error {answer.error_code}")
            token = exchange.send(bytes(answer.auth_bytes))
    except StopIteration:
        return
