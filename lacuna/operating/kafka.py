"""A small Kafka client for the command line, with one connection and one request at a time.

Any agent serves any partition and coordinates any group, so the client uses the first bootstrap address that accepts a
connection. Only lists of groups and transactions are requested from every agent, since each agent lists its own; the
client combines these lists.
"""

import asyncio
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from lacuna.base.addresses import KAFKA_PORT, join_address, parse_addresses
from lacuna.base.client_security import PLAINTEXT, ClientSecurity
from lacuna.base.errors import UserError
from lacuna.base.sasl import Credentials, SaslError
from lacuna.operating.exchanges.cluster import DESCRIBE_CLUSTER
from lacuna.wire.client import (
    ClientFrames,
    CredentialsRefusedError,
    MechanismNotEnabledError,
    NoAnswerError,
    NoSaslError,
    SizeError,
    authenticate,
)
from lacuna.wire.errors import MalformedMessage
from lacuna.wire.layout import Message
from lacuna.wire.messages.cluster import DescribeClusterRequest

Q = TypeVar("Q")
R = TypeVar("R")

CLIENT_ID: Final = b"lacuna-cli"
FRAME_LIMIT = 256 * 1024 * 1024


class BootstrapUnavailable(UserError):
    """No bootstrap address accepted a connection, or a request failed. The message includes the reason."""


class Unreachable(BootstrapUnavailable):
    """No bootstrap address accepted a connection. `failures` contains HOST:PORT (REASON) for each."""

    def __init__(self, failures: Sequence[str]) -> None:
        self.failures = ", ".join(failures)
        super().__init__(
            f"no agent answers at {self.failures}: check the address, or start one with `lacuna up`"
        )


class NotAuthenticated(UserError):
    """An agent or this client could not prove its identity, so trying the cluster's other addresses is pointless."""


class MechanismRefused(NotAuthenticated):
    """An agent does not accept the SASL mechanism."""


@dataclass(frozen=True, slots=True)
class Agents:
    """The addresses of agents, HOST or HOST:PORT separated by commas, and the security of connections to them.

    For messages, `option` is the option that specifies the file with the security settings.
    """

    addresses: str
    security: ClientSecurity = PLAINTEXT
    option: str = "--command-config"

    def __str__(self) -> str:
        return self.addresses

    def librdkafka(self) -> dict[str, Any]:
        """Return the equivalent settings for a confluent-kafka client."""
        return {"bootstrap.servers": self.addresses, **self.security.librdkafka()}


class KafkaConnection:
    """An asynchronous context manager that connects to the first of the `bootstrap` agents to answer.

    Entering it raises BootstrapUnavailable if no address accepts a connection, and NotAuthenticated.
    """

    def __init__(
        self, bootstrap: Agents, timeout_seconds: float = 30.0, frame_limit: int = FRAME_LIMIT
    ) -> None:
        """Responses larger than `frame_limit` bytes are rejected."""
        self._addresses = parse_addresses(bootstrap.addresses, KAFKA_PORT)
        self._security = bootstrap.security
        self._option = bootstrap.option
        self._frame_limit = frame_limit
        self._timeout_seconds = timeout_seconds
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        failures = []
        for host, port in self._addresses:
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    await self._connect(host, port)
            except ssl.SSLError as error:
                raise NotAuthenticated(_why_no_tls(f"{host}:{port}", error)) from error
            except (OSError, TimeoutError) as error:
                reason = plain(error)
                if self._security.has_tls and isinstance(error, ConnectionError) and not error.args:
                    reason = "it ended the TLS handshake: check that the listener uses TLS"
                failures.append(f"{host}:{port} ({reason})")
            except BootstrapUnavailable as error:  # raised during authentication
                failures.append(f"{host}:{port} ({error})")
            else:
                return self
        raise Unreachable(failures)

    async def _connect(self, host: str, port: int) -> None:
        context = self._security.context
        self._frames = ClientFrames(CLIENT_ID)
        self._reader, self._writer = await asyncio.open_connection(
            host, port, ssl=context, server_hostname=None if context is None else host
        )
        if not self._security.has_sasl:
            return
        if self._security.credentials is None:
            self._writer.close()
            raise NotAuthenticated(
                f"security.protocol is {self._security.protocol}: set sasl.mechanism, a user and a password as well"
            )
        try:
            await self._authenticate(self._security.credentials, f"{host}:{port}")
        except BaseException:
            self._writer.close()
            raise

    async def _authenticate(self, credentials: Credentials, address: str) -> None:
        """Exchange SASL tokens (KIP-152). Raises NotAuthenticated."""
        try:
            await authenticate(self.ask, credentials)
        except MechanismNotEnabledError as error:
            raise MechanismRefused(
                f"{address} does not accept {credentials.mechanism}: set sasl.mechanism to one of "
                f"{', '.join(error.enabled) or 'none'}"
            ) from error
        except NoSaslError as error:
            raise NotAuthenticated(
                f"{address} is a listener without SASL: set security.protocol to PLAINTEXT or SSL"
            ) from error
        except CredentialsRefusedError as error:
            raise NotAuthenticated(
                f"{address} rejected the credentials: {error}; check the user and the password"
            ) from error
        except SaslError as error:
            raise NotAuthenticated(f"{address}: {error}") from error

    async def __aexit__(self, *exception: object) -> None:
        self._writer.close()

    async def ask(self, form: Message[Q], answer: Message[R], version: int, request: Q) -> R:
        """Sends a request and returns the response; `form` and `answer` are their message types.

        Raises BootstrapUnavailable if the connection breaks, or the response is late or invalid. Raises UserError for a
        name that cannot be encoded as UTF-8.
        """
        try:
            frame = self._frames.request(form, version, request, self._frame_limit)
        except UnicodeEncodeError as error:
            raise UserError(
                f"{error.object!r} is not UTF-8, so it cannot be a name in Kafka"
            ) from None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                self._writer.write(frame)
                await self._writer.drain()
                body = await self._answer()
        except ssl.SSLError as error:
            raise NotAuthenticated(_why_no_tls("the agent", error)) from error
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            # After a reset, the system discards any TLS alert that has not been read yet.
            is_cut = isinstance(error, asyncio.IncompleteReadError | ConnectionError)
            hint = self._hint() if is_cut else ""
            raise BootstrapUnavailable(f"{self._why(error)}{hint}") from error
        except SizeError as error:
            raise BootstrapUnavailable(
                f"a response of {error.size} bytes is larger than this client accepts"
                if self._frame_limit < error.size <= FRAME_LIMIT
                else "the server does not speak the Kafka protocol: check the address"
            ) from error
        except NoAnswerError as error:
            raise BootstrapUnavailable(
                f"the agent answered the requests out of order ({error}): try again"
            ) from error
        try:
            return answer.read(body, version)
        except MalformedMessage as error:
            raise BootstrapUnavailable(
                f"the server's response is invalid ({error}): check that the address is that of a Kafka server"
            ) from error

    async def _answer(self) -> memoryview:
        while True:
            part = await self._reader.readexactly(self._frames.missing)
            body = self._frames.take(part)
            if body is not None:
                return body

    def _why(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"the agent did not answer within {self._timeout_seconds:g} s: it may be overloaded, so try again"
        if isinstance(error, asyncio.IncompleteReadError):
            return "the agent closed the connection without an answer"
        return f"the connection to the agent broke: {plain(error)}"

    def _hint(self) -> str:
        """Return which setting may be missing if the agent closes the connection."""
        security = self._security
        if security == PLAINTEXT:
            return f"; if its listener uses TLS or SASL, use {self._option} to specify a file with the settings"
        if security.protocol == "SSL" and not security.certificate:
            return "; if it requires a client certificate, set ssl.certificate.location"
        return ""

    async def agents(self) -> Sequence[Agents]:
        """Return the live agents, with the security settings of this connection."""
        response = await self.ask(*DESCRIBE_CLUSTER, DescribeClusterRequest())
        return [
            Agents(join_address(broker.host, broker.port), self._security)
            for broker in response.brokers
        ]


async def ask_every_agent(
    bootstrap: Agents, form: Message[Q], answer: Message[R], version: int, request: Q
) -> list[R]:
    """Returns each live agent's response to a request. Raises BootstrapUnavailable if one cannot be reached."""
    async with KafkaConnection(bootstrap) as connection:
        agents = await connection.agents()
    responses = []
    for agent in agents:
        async with KafkaConnection(agent) as connection:
            responses.append(await connection.ask(form, answer, version, request))
    return responses


def plain(error: BaseException) -> str:
    """Return the operating system's error message, without the number and words that Python adds."""
    if isinstance(error, TimeoutError) and not error.errno:
        return "timed out"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _why_no_tls(address: str, error: ssl.SSLError) -> str:
    """Return the cause of a TLS failure and its remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {address} is not trusted ({error.verify_message}): set ssl.ca.location to the "
            "authority that signed it, and connect to a name that the certificate contains"
        )
    reason = (error.reason or "").upper()
    if "ALERT" in reason:
        return f"{address} rejected this client's certificate or TLS version: {reason}"
    return f"{address} does not speak TLS: set security.protocol to the protocol of its listener ({reason})"
