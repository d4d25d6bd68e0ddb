"""A small Kafka client for the command line: one connection, one request at a time.

Any agent serves any partition and coordinates any group, so requests go to the first bootstrap address that accepts a
connection. Only lists of groups and of transactions are asked of every agent: each one lists its own, and clients
join the answers.
"""

import asyncio
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from lacuna.base.addresses import join_address, parse_addresses
from lacuna.base.client_security import PLAINTEXT, ClientSecurity
from lacuna.base.errors import UserError
from lacuna.base.sasl import Credentials, SaslError
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
from lacuna.wire.messages.describe_cluster import (
    DESCRIBE_CLUSTER_REQUEST,
    DESCRIBE_CLUSTER_RESPONSE,
    DescribeClusterRequest,
)

Q = TypeVar("Q")
R = TypeVar("R")

CLIENT_ID: Final = b"lacuna-cli"
FRAME_LIMIT = 256 * 1024 * 1024


class BootstrapUnavailable(UserError):
    """No bootstrap address accepted a connection, or the conversation failed; the message says which."""


class NotAuthenticated(UserError):
    """An agent, or this client, is not who it should be; another address of the cluster would say the same."""


class MechanismRefused(NotAuthenticated):
    """An agent does not take the SASL mechanism."""


@dataclass(frozen=True, slots=True)
class Agents:
    """Where agents of a cluster are, HOST:PORT with commas between, and how to connect to them."""

    addresses: str
    security: ClientSecurity = PLAINTEXT

    def __str__(self) -> str:
        """Return the addresses."""
        return self.addresses

    def librdkafka(self) -> dict[str, Any]:
        """Return it as the settings of a client of confluent-kafka."""
        return {"bootstrap.servers": self.addresses, **self.security.librdkafka()}


class KafkaConnection:
    """A connection to the first agent of `bootstrap` that can be reached, as an asynchronous context manager.

    Entering it raises BootstrapUnavailable if no address accepts a connection, and NotAuthenticated.
    """

    def __init__(
        self, bootstrap: Agents, timeout_seconds: float = 30.0, frame_limit: int = FRAME_LIMIT
    ) -> None:
        """Responses of more than `frame_limit` bytes are refused."""
        self._addresses = parse_addresses(bootstrap.addresses)
        self._security = bootstrap.security
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
                told = plain(error)
                if self._security.has_tls and isinstance(error, ConnectionError) and not error.args:
                    told = "it ended the TLS handshake: is this a listener with TLS?"
                failures.append(f"{host}:{port} ({told})")
            except BootstrapUnavailable as error:  # while it was asked who it is
                failures.append(f"{host}:{port} ({error})")
            else:
                return self
        raise BootstrapUnavailable(
            f"no agent answers at {', '.join(failures)}: is it running? `lacuna up` starts one"
        )

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
                f"security.protocol is {self._security.protocol}: set sasl.mechanism too, and a user and a password"
            )
        try:
            await self._authenticate(self._security.credentials, f"{host}:{port}")
        except BaseException:
            self._writer.close()
            raise

    async def _authenticate(self, credentials: Credentials, address: str) -> None:
        """Exchange SASL's tokens (KIP-152). Raises NotAuthenticated."""
        try:
            await authenticate(self.ask, credentials)
        except MechanismNotEnabledError as error:
            raise MechanismRefused(
                f"{address} does not take {credentials.mechanism}: set sasl.mechanism to one of "
                f"{', '.join(error.enabled) or 'none'}"
            ) from error
        except NoSaslError as error:
            raise NotAuthenticated(
                f"{address} is a listener without SASL: set security.protocol to PLAINTEXT or SSL"
            ) from error
        except CredentialsRefusedError as error:
            raise NotAuthenticated(
                f"{address} refused the credentials: {error}; are the user and the password right?"
            ) from error
        except SaslError as error:
            raise NotAuthenticated(f"{address}: {error}") from error

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.close()

    async def ask(self, form: Message[Q], answer: Message[R], version: int, request: Q) -> R:
        """Sends a request in a version of the message `form`, and returns the response, a message `answer`.

        Raises BootstrapUnavailable when the connection breaks, no response comes in time, or it cannot be read; raises
        UserError for a name that cannot be written as UTF-8.
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
            hint = self._hint() if isinstance(error, asyncio.IncompleteReadError) else ""
            raise BootstrapUnavailable(f"{self._why(error)}{hint}") from error
        except SizeError as error:
            raise BootstrapUnavailable(
                f"a response of {error.size} bytes is more than is taken here"
                if self._frame_limit < error.size <= FRAME_LIMIT
                else "the server at this address does not speak the Kafka protocol"
            ) from error
        except NoAnswerError as error:
            raise BootstrapUnavailable(
                f"the agent did not keep to the order of the requests ({error}): try again"
            ) from error
        try:
            return answer.read(body, version)
        except MalformedMessage as error:
            raise BootstrapUnavailable(
                f"the answer of the server cannot be read ({error}): is a Kafka server at this address?"
            ) from error

    async def _answer(self) -> memoryview:
        while True:
            part = await self._reader.readexactly(self._frames.missing)
            body = self._frames.take(part)
            if body is not None:
                return body

    def _why(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"the agent did not answer within {self._timeout_seconds:g} s: is it overloaded?"
        if isinstance(error, asyncio.IncompleteReadError):
            return "the agent closed the connection without an answer"
        return f"the connection to the agent broke: {plain(error)}"

    def _hint(self) -> str:
        """Return what may be missing if the agent closes the connection."""
        security = self._security
        if security == PLAINTEXT:
            return "; if its listener has TLS or SASL, say how to connect with --command-config"
        if security.protocol == "SSL" and not security.certificate:
            return "; if it wants a certificate of this client, set ssl.certificate.location"
        return ""

    async def agents(self) -> Sequence[Agents]:
        """Each live agent, to be connected to in the same way."""
        response = await self.ask(
            DESCRIBE_CLUSTER_REQUEST, DESCRIBE_CLUSTER_RESPONSE, 0, DescribeClusterRequest()
        )
        return [
            Agents(join_address(broker.host, broker.port), self._security)
            for broker in response.brokers
        ]


async def ask_every_agent(
    bootstrap: Agents, form: Message[Q], answer: Message[R], version: int, request: Q
) -> list[R]:
    """Sends one request to each live agent in turn, and returns their responses.

    Raises BootstrapUnavailable when one of them cannot be reached.
    """
    async with KafkaConnection(bootstrap) as connection:
        agents = await connection.agents()
    responses = []
    for agent in agents:
        async with KafkaConnection(agent) as connection:
            responses.append(await connection.ask(form, answer, version, request))
    return responses


def plain(error: BaseException) -> str:
    """What an operating system's error says, without its number and Python's words."""
    if isinstance(error, TimeoutError) and not error.errno:
        return "timed out"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _why_no_tls(address: str, error: ssl.SSLError) -> str:
    """Return what is wrong with the TLS of a connection, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {address} is not trusted ({error.verify_message}): name the authority that signed it "
            "in ssl.ca.location, and connect by a name that it has"
        )
    reason = (error.reason or "").upper()
    if "ALERT" in reason:
        return f"{address} refused the certificate of this client, or its version of TLS: {reason}"
    return f"{address} does not speak TLS: set security.protocol as its listener has it ({reason})"
