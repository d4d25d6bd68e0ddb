"""Asks other agents for chunks, over connections to the port that their clients use.

A connection carries one request at a time, so that no answer waits for another one. Connections stay open for the next
request.
"""

import asyncio
import struct
from typing import Final, cast

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.wire.errors import MalformedMessage
from lacuna.wire.peers import (
    READ_CHUNK_KEY,
    READ_CHUNK_REQUEST,
    READ_CHUNK_RESPONSE,
    ReadChunkRequest,
)

_CLIENT_ID: Final = b"lacuna-agent"
_HEADER: Final = struct.Struct(">hhih")
_SIZE: Final = struct.Struct(">i")
_CORRELATION_BYTES: Final = 4
#: Of an answer: the correlation id, the error and the length of the data.
_ANSWER_OVERHEAD: Final = 16
_MOST_REQUESTS: Final = 32
_MOST_IDLE: Final = 4

#: Node id, host and port: a node that comes back elsewhere has other connections.
_Address = tuple[int, str, int]


class PeerError(Exception):
    """Another agent could not be asked, broke off, or sent what is no answer."""


class PeerRequests:
    """Connections of one agent to others. At most 32 requests are under way; others wait for them."""

    def __init__(self) -> None:
        self._idle: dict[_Address, list[_Line]] = {}
        self._free = asyncio.Semaphore(_MOST_REQUESTS)
        #: All that are open, in the order in which they were made.
        self._lines: dict[_Line, None] = {}

    async def ask(self, agent: Agent, request: ReadChunkRequest) -> memoryview | None:
        """Return the range that is asked for, or None if the agent refuses to give it. Raises PeerError."""
        async with self._free:
            address = (agent.node_id, agent.host, agent.port)
            line = self._take(address) or await self._connect(agent)
            try:
                body = await line.ask(request)
            except BaseException:
                line.close()
                self._lines.pop(line, None)
                raise
            idle = self._idle.setdefault(address, [])
            if len(idle) < _MOST_IDLE:
                idle.append(line)
            else:
                line.close()
                self._lines.pop(line, None)
        return _data_of(body, request)

    def close(self) -> None:
        """Close all connections; what waits for an answer fails."""
        for line in list(self._lines):
            line.close()
        self._lines.clear()
        self._idle.clear()

    def _take(self, address: _Address) -> "_Line | None":
        idle = self._idle.get(address, [])
        while idle:
            line = idle.pop()
            if line.is_open:
                return line
            self._lines.pop(line, None)
        return None

    async def _connect(self, agent: Agent) -> "_Line":
        loop = asyncio.get_running_loop()
        try:
            _, line = await loop.create_connection(_Line, agent.host, agent.port)
        except OSError as error:
            raise PeerError(f"it cannot be reached: {error}") from error
        self._lines[line] = None
        return line


class _Line(asyncio.BufferedProtocol):
    """A connection to another agent, on which one request at a time is answered."""

    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport
        self._correlation_id = 0
        self._most_bytes = 0
        self._answer: asyncio.Future[bytearray] | None = None
        self._begin(_SIZE.size)
        self._is_size = True

    async def ask(self, request: ReadChunkRequest) -> memoryview:
        """Send a request and return the body of its answer. Raises PeerError."""
        self._correlation_id += 1
        header = _HEADER.pack(READ_CHUNK_KEY, 0, self._correlation_id, len(_CLIENT_ID)) + _CLIENT_ID
        payload = header + READ_CHUNK_REQUEST.write(request, 0)
        self._most_bytes = request.size + _ANSWER_OVERHEAD
        answer = self._answer = asyncio.get_running_loop().create_future()
        if not self.is_open:
            raise PeerError("it closed the connection")
        self._transport.write(_SIZE.pack(len(payload)) + payload)
        frame = memoryview(await answer).toreadonly()
        if _SIZE.unpack_from(frame)[0] != self._correlation_id:
            raise PeerError("it answered another request")
        return frame[_CORRELATION_BYTES:]

    def close(self) -> None:
        """Close at once."""
        if self.is_open:
            self._transport.abort()
            self._lost("the connection was closed")

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the connection can be used."""
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the rest of the buffer of what comes next: a size, or an answer of that size."""
        return memoryview(self._data)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take in `nbytes` bytes."""
        self._filled += nbytes
        if self._filled < len(self._data):
            return
        data = self._data
        if self._is_size:
            (size,) = _SIZE.unpack(data)
            if self._answer is None or not _CORRELATION_BYTES <= size <= self._most_bytes:
                self.close()
                return
            self._begin(size)
        else:
            self._begin(_SIZE.size)
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(data)
            self._answer = None
        self._is_size = not self._is_size

    def eof_received(self) -> bool:
        """Let the transport close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Fail the request that waits for its answer."""
        self._lost("it closed the connection")

    def _begin(self, size: int) -> None:
        self._data = bytearray(size)
        self._filled = 0

    def _lost(self, why: str) -> None:
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(PeerError(why))
        self._answer = None


def _data_of(body: memoryview, request: ReadChunkRequest) -> memoryview | None:
    try:
        answer = READ_CHUNK_RESPONSE.read(body, 0)
    except MalformedMessage as error:
        raise PeerError(f"it answered what is no answer: {error}") from error
    if answer.error_code != ErrorCode.NONE:
        return None
    (data,) = answer.data or (b"",)
    if len(data) != request.size:
        raise PeerError(f"it answered {len(data)} bytes instead of {request.size}")
    return memoryview(data)
