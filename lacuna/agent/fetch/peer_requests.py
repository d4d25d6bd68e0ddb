"""Requests chunks from other agents, on the port that also serves their clients.

A connection carries one request at a time, so that no answer waits for another. It is reused for later requests until
the other agent closes it.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar, cast

from lacuna.agent.fetch.buffers import ByteBudget
from lacuna.base.client_security import PLAINTEXT, ClientSecurity
from lacuna.base.sasl import Credentials, SaslError
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.wire.client import (
    ClientFrames,
    CredentialsRefusedError,
    MechanismNotEnabledError,
    NoAnswerError,
    NoSaslError,
    authenticate,
)
from lacuna.wire.errors import MalformedMessage
from lacuna.wire.layout import Message
from lacuna.wire.peers import (
    READ_CHUNK_REQUEST,
    READ_CHUNK_RESPONSE,
    ReadChunkRequest,
)

_CLIENT_ID: Final = b"lacuna-agent"
#: The part of an answer that precedes its data: the correlation id, the error and the length of the data.
_ANSWER_OVERHEAD: Final = 16
_MOST_REQUESTS: Final = 16
#: The maximum size of an answer while a connection is being authenticated.
_MOST_TOKEN_BYTES: Final = 4096

Q = TypeVar("Q")
R = TypeVar("R")
#: Returns how to connect at a given time of the event loop (seconds).
ToPeers = Callable[[float], ClientSecurity]

#: Node id, host and port. A node that comes back at another address gets new connections.
_Address = tuple[int, str, int]


class PeerError(Exception):
    """Another agent could not be reached, closed the connection, did not answer, or sent an invalid answer."""


class _UnansweredError(PeerError):
    """The connection broke before any byte of the answer arrived, so the other agent may not have seen the request."""


class ConnectionCounts(NamedTuple):
    """How many connections carry a request, how many are idle, and how many there may be."""

    busy: int
    idle: int
    most: int


class PeerRequests:
    """The connections of one agent to others. At most 16 requests to each agent are under way at a time; others wait.

    `patience` is the usual time to wait for an answer, in seconds. The ranges requested at the same time total at most
    `max_bytes`, unless there is only one. `to_peers` returns how to connect.
    """

    def __init__(
        self, patience: float, max_bytes: int, to_peers: ToPeers = lambda _: PLAINTEXT
    ) -> None:
        self._patience = patience
        self._to_peers = to_peers
        self._room = ByteBudget(max_bytes)
        self._peers: dict[_Address, _Peer] = {}
        self._is_closed = False

    def connections(self) -> ConnectionCounts:
        """Count the connections. `most` applies to the agents that have been contacted so far."""
        peers = self._peers.values()
        idle = sum(len(peer.idle) for peer in peers)
        busy = sum(len(peer.lines) for peer in peers) - idle
        return ConnectionCounts(busy, idle, _MOST_REQUESTS * len(peers))

    @property
    def bytes_under_way(self) -> int:
        """The total bytes of the ranges being requested."""
        return self._room.used

    async def ask(
        self, agent: Agent, request: ReadChunkRequest, deadline: float
    ) -> memoryview | None:
        """Return the requested range, or None if the agent refused the request or had too little time. The caller must
        copy the range immediately.

        Raises PeerError if the request fails, or if it is not answered by `deadline` (loop time) although the other
        agent had at least half of `patience` to answer. It may have had less because it was busy with earlier
        requests from this agent.
        """
        if self._is_closed:
            return None
        loop = asyncio.get_running_loop()
        address = (agent.node_id, agent.host, agent.port)
        peer = self._peers.setdefault(address, _Peer())
        peer.requests += 1
        asked = deadline
        try:
            async with (
                asyncio.timeout_at(deadline),
                peer.free,
                self._room.held(request.size),
            ):
                asked = loop.time()
                body = await self._exchange(address, peer, request)
        except TimeoutError:
            if deadline - asked < self._patience / 2:
                return None
            raise PeerError("it does not answer") from None
        except PeerError:
            if self._is_closed:
                return None
            raise
        finally:
            peer.requests -= 1
            self._drop_unused(address, peer)
        return _data_of(body, request)

    def close(self) -> None:
        """Close all connections, and send no more requests. Pending requests remain unanswered."""
        self._is_closed = True
        for peer in list(self._peers.values()):
            for line in list(peer.lines):
                line.close()

    async def _exchange(
        self, address: _Address, peer: "_Peer", request: ReadChunkRequest
    ) -> memoryview:
        """Send the request over an idle connection or a new one, and return the body of the answer."""
        if peer.idle:
            try:
                return await peer.ask(peer.idle.pop(), request)
            except _UnansweredError:
                pass  # the agent may have closed the idle connection before the request arrived
        return await peer.ask(await self._connect(address, peer), request)

    async def _connect(self, address: _Address, peer: "_Peer") -> "_Line":
        def lost(line: _Line) -> None:
            peer.lost(line)
            self._drop_unused(address, peer)

        loop = asyncio.get_running_loop()
        security = self._to_peers(loop.time())
        host, port = address[1:]
        try:
            _, line = await loop.create_connection(
                lambda: _Line(lost),
                host,
                port,
                ssl=security.context,
                server_hostname=None if security.context is None else host,
            )
        except OSError as error:
            raise PeerError(f"it cannot be reached: {error}") from error
        if line.is_open:
            peer.lines.add(line)
        if self._is_closed:
            line.close()
        if security.credentials is not None:
            try:
                await line.authenticate(security.credentials)
            except BaseException:
                line.close()
                raise
        return line

    def _drop_unused(self, address: _Address, peer: "_Peer") -> None:
        if not peer.requests and not peer.lines:
            self._peers.pop(address, None)


class _Peer:
    """The connections to one agent: one for each request under way, and idle connections."""

    __slots__ = ("free", "idle", "lines", "requests")

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(_MOST_REQUESTS)
        #: All open connections, and the idle ones among them, the most recently used last.
        self.lines: set[_Line] = set()
        self.idle: list[_Line] = []
        #: The requests under way, and those that are waiting.
        self.requests = 0

    async def ask(self, line: "_Line", request: ReadChunkRequest) -> memoryview:
        try:
            body = await line.ask(request)
        except BaseException:
            line.close()
            raise
        if line.is_open:
            self.idle.append(line)
        return body

    def lost(self, line: "_Line") -> None:
        self.lines.discard(line)
        if line in self.idle:
            self.idle.remove(line)


class _Line(asyncio.BufferedProtocol):
    """A connection to another agent, which carries one request at a time.

    `on_lost` is called with the connection once either side has closed it.
    """

    def __init__(self, on_lost: "Callable[[_Line], None]") -> None:
        self.is_open = False
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._frames = ClientFrames(_CLIENT_ID)
        self._answer: asyncio.Future[memoryview] | None = None
        self._is_authenticated = False
        self._begin()

    async def ask(self, request: ReadChunkRequest) -> memoryview:
        if self._is_authenticated:
            request = request._replace(peer_secret=b"")
        most_bytes = request.size + _ANSWER_OVERHEAD
        return await self._exchange(READ_CHUNK_REQUEST, 0, request, most_bytes)

    async def authenticate(self, credentials: Credentials) -> None:
        """Authenticate both agents to each other. Raises PeerError if that fails."""
        try:
            await authenticate(self._ask_for_token, credentials)
        except (MechanismNotEnabledError, NoSaslError):
            raise PeerError("its first listener does not authenticate agents") from None
        except CredentialsRefusedError:
            raise PeerError(
                "it does not know this agent; make sure that both belong to the same cluster"
            ) from None
        except (SaslError, MalformedMessage) as error:
            raise PeerError(f"it could not be authenticated: {error}") from error
        self._is_authenticated = True

    async def _ask_for_token(
        self, form: Message[Q], answer: Message[R], version: int, request: Q
    ) -> R:
        body = await self._exchange(form, version, request, _MOST_TOKEN_BYTES)
        return answer.read(body, version)

    async def _exchange(
        self, form: Message[Q], version: int, request: Q, most_bytes: int
    ) -> memoryview:
        frame = self._frames.request(form, version, request, most_bytes)
        if not self.is_open:
            raise _UnansweredError("it closed the connection")
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._transport.write(frame)
        return await answer

    def close(self, error: PeerError | None = None) -> None:
        """Close the connection immediately, and let the pending request fail with the error."""
        if self.is_open:
            self._transport.abort()
            self._lost(error or PeerError("the connection was closed"))

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return memoryview(self._data)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < len(self._data):
            return
        try:
            if self._answer is None:
                raise NoAnswerError("it sent data that was not requested")
            body = self._frames.take(self._data)
        except NoAnswerError as error:
            self.close(PeerError(str(error)))
            return
        self._begin()
        if body is None:
            return
        if not self._answer.done():
            self._answer.set_result(body)
        self._answer = None

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        is_unanswered = self._frames.awaits_size and not self._filled
        kind = _UnansweredError if is_unanswered else PeerError
        self._lost(kind("it closed the connection"))

    def _begin(self) -> None:
        self._data = bytearray(self._frames.missing)
        self._filled = 0

    def _lost(self, error: PeerError) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._answer = None
        self._on_lost(self)


def _data_of(body: memoryview, request: ReadChunkRequest) -> memoryview | None:
    try:
        answer = READ_CHUNK_RESPONSE.read(body, 0)
    except MalformedMessage as error:
        raise PeerError(f"it sent an invalid answer: {error}") from error
    if answer.error_code != ErrorCode.NONE:
        return None
    (data,) = answer.data or (b"",)
    if len(data) != request.size:
        raise PeerError(f"it sent {len(data)} bytes instead of {request.size}")
    return memoryview(data)
