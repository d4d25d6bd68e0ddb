"""A small Kafka client for the command line: one connection, one request at a time.

Any agent serves any partition and coordinates any group, so requests go to the first bootstrap address that accepts a
connection. Only lists of groups and of transactions are asked of every agent: each one lists its own, and clients
join the answers.
"""

import asyncio
import struct
from types import TracebackType
from typing import Final, Self, TypeVar

from lacuna.addresses import join_address, parse_addresses
from lacuna.errors import UserError
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
_CORRELATION_ID: Final = 4
FRAME_LIMIT = 256 * 1024 * 1024


class BootstrapUnavailable(UserError):
    """No bootstrap address accepted a connection, or the conversation failed; the message says which."""


class KafkaConnection:
    """A connection to the first agent of `bootstrap` that can be reached, as an asynchronous context manager.

    Entering it raises BootstrapUnavailable if no address accepts a connection.
    """

    def __init__(
        self, bootstrap: str, timeout_seconds: float = 30.0, frame_limit: int = FRAME_LIMIT
    ) -> None:
        """Responses of more than `frame_limit` bytes are refused."""
        self._addresses = parse_addresses(bootstrap)
        self._frame_limit = frame_limit
        self._timeout_seconds = timeout_seconds
        self._correlation_id = 0
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        failures = []
        for host, port in self._addresses:
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    self._reader, self._writer = await asyncio.open_connection(host, port)
            except (OSError, TimeoutError) as error:
                failures.append(f"{host}:{port} ({error or 'timed out'})")
            else:
                return self
        raise BootstrapUnavailable(
            f"no agent answers at {', '.join(failures)}: is it running? `lacuna up` starts one"
        )

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
        self._correlation_id += 1
        try:
            frame = _encode(form, version, request, self._correlation_id)
        except UnicodeEncodeError as error:
            raise UserError(
                f"{error.object!r} is not UTF-8, so it cannot be a name in Kafka"
            ) from None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                self._writer.write(frame)
                await self._writer.drain()
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                if not 0 < size <= self._frame_limit:
                    raise BootstrapUnavailable(
                        "the server at this address does not speak the Kafka protocol"
                        if not 0 < size <= FRAME_LIMIT
                        else f"a response of {size} bytes is more than is taken here"
                    )
                body = await self._reader.readexactly(size)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise BootstrapUnavailable(
                f"the agent closed the connection or did not answer: {error}"
            ) from error
        header_size = _CORRELATION_ID + answer.is_flexible(version)
        try:
            return answer.read(memoryview(body)[header_size:], version)
        except MalformedMessage as error:
            raise BootstrapUnavailable(
                f"the answer of the server cannot be read ({error}): is a Kafka server at this address?"
            ) from error

    async def agents(self) -> str:
        """The addresses of all live agents, as HOST:PORT separated by commas."""
        response = await self.ask(
            DESCRIBE_CLUSTER_REQUEST, DESCRIBE_CLUSTER_RESPONSE, 0, DescribeClusterRequest()
        )
        return ",".join(join_address(broker.host, broker.port) for broker in response.brokers)


async def ask_every_agent(
    bootstrap: str, form: Message[Q], answer: Message[R], version: int, request: Q
) -> list[R]:
    """Sends one request to each live agent in turn, and returns their responses.

    Raises BootstrapUnavailable when one of them cannot be reached.
    """
    async with KafkaConnection(bootstrap) as connection:
        addresses = (await connection.agents()).split(",")
    responses = []
    for address in addresses:
        async with KafkaConnection(address) as connection:
            responses.append(await connection.ask(form, answer, version, request))
    return responses


def _encode(form: Message[Q], version: int, request: Q, correlation_id: int) -> bytes:
    header = struct.pack(">hhih", form.api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    # The header of a flexible version ends with its tagged fields: a single zero byte, since it has none.
    tags = bytes(form.is_flexible(version))
    payload = header + tags + form.write(request, version)
    return struct.pack(">i", len(payload)) + payload
