"""A small Kafka client for the command line: one connection, one request at a time.

Any agent serves any partition and coordinates any group, so there is little to route: whichever
bootstrap address answers first is asked. Only lists of groups and transactions are asked of all, since each
agent lists its own (clients add the answers up). Schemas are kio's.
"""

import asyncio
import io
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from lacuna.addresses import join_address, parse_addresses
from lacuna.errors import UserError

CLIENT_ID = "lacuna-cli"
DESCRIBE_CLUSTER = 60
FRAME_LIMIT = 256 * 1024 * 1024


class BootstrapUnavailable(UserError):
    """No bootstrap address could be connected to, or the connection broke; the message says which."""


class KafkaConnection:
    """An asynchronous context manager that answers kio requests with kio responses."""

    def __init__(self, bootstrap: str, timeout_seconds: float = 30.0) -> None:
        self._addresses = parse_addresses(bootstrap)
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

    async def request(self, api_key: int, version: int, build: Callable[[Any], Any]) -> Any:
        """Sends the request that `build` makes with the schema's module, and returns its response.

        `build` gets the request's class. Raises BootstrapUnavailable when the connection breaks or
        nothing comes within the time-out, UserError for a name that is not UTF-8.
        """
        request_type: Any = load_request_schema(i16(api_key), i16(version))
        response_type: Any = load_response_schema(i16(api_key), i16(version))
        self._correlation_id += 1
        try:
            frame = _encode(request_type, build(request_type), self._correlation_id)
        except UnicodeEncodeError as error:
            raise UserError(f"{error.object!r} is not UTF-8, so no name that Kafka knows") from None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                self._writer.write(frame)
                await self._writer.drain()
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                if not 0 < size <= FRAME_LIMIT:
                    raise BootstrapUnavailable("the address does not speak the Kafka protocol")
                body = await self._reader.readexactly(size)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise BootstrapUnavailable(
                f"the agent closed the connection or is silent: {error}"
            ) from error
        _, position = entity_reader(response_type.__header_schema__)(body, 0)
        response, _ = entity_reader(response_type)(body, position)
        return response

    async def agents(self) -> str:
        """Every live agent, as a bootstrap string of one address each, separated by commas."""
        response = await self.request(
            DESCRIBE_CLUSTER,
            0,
            lambda request: request(include_cluster_authorized_operations=False),
        )
        return ",".join(join_address(broker.host, int(broker.port)) for broker in response.brokers)


async def ask_every_agent(
    bootstrap: str, api_key: int, version: int, build: Callable[[Any], Any]
) -> list[Any]:
    """The answers of all live agents to one request: each lists what it coordinates.

    Raises BootstrapUnavailable when one of them cannot be reached.
    """
    async with KafkaConnection(bootstrap) as connection:
        addresses = (await connection.agents()).split(",")
    responses = []
    for address in addresses:
        async with KafkaConnection(address) as connection:
            responses.append(await connection.request(api_key, version, build))
    return responses


def _encode(request_type: Any, request: Any, correlation_id: int) -> bytes:
    header_type = request_type.__header_schema__
    header = header_type(
        request_api_key=request_type.__api_key__,
        request_api_version=request_type.__version__,
        correlation_id=i32(correlation_id),
        client_id=CLIENT_ID,
    )
    buffer = io.BytesIO()
    entity_writer(header_type)(buffer, header)
    entity_writer(request_type)(buffer, request)
    payload = buffer.getvalue()
    return struct.pack(">i", len(payload)) + payload
