"""A simulated network with TCP connections between processes, streams of messages, and faults.

Each direction of a link delivers messages in order, after a random latency. A partition delays messages, as with TCP,
and breaks the link if it lasts. A reset loses messages in flight. A machine without power never answers, and its peer
learns nothing until it gives up.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lacuna.controlplane.v1.control_pb2 import SessionResponse
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.trace import Trace

#: A link that is cut for longer breaks: TCP and gRPC's keepalive give up.
BREAKS_AFTER = 15.0


@dataclass(slots=True)
class Weather:
    """The lasting faults of the network."""

    #: What multiplies every latency.
    slowness: float = 1.0
    #: How likely a message makes its link break.
    reset_rate: float = 0.0
    #: How likely what a control plane sends makes the session break over which it is sent.
    session_reset_rate: float = 0.0


class End:
    """One end of a link. Call `open` to receive data. Callbacks are called in its process."""

    def __init__(self, network: Network, link: Link, process: Process) -> None:
        self._network = network
        self.link = link
        self.process = process
        self.peer: End
        self.is_open = True
        self.in_flight = 0
        #: When the peer sent what arrived last.
        self.sent_at = 0.0
        self._receive: Callable[[Any], None] | None = None
        self._broken: Callable[[Exception | None], None]
        self._early: list[Any] = []
        self._last = 0.0

    def open(
        self, receive: Callable[[Any], None], broken: Callable[[Exception | None], None]
    ) -> None:
        """Receive everything that has arrived and will arrive. `broken` gets None if the peer closed, else an error."""
        self._receive, self._broken = receive, broken
        early, self._early = self._early, []
        for message in early:
            self.arrived(message)

    def arrived(self, message: Any) -> None:
        """Deliver a message from the network, or the end of the link."""
        if self._receive is None:
            self._early.append(message)
        elif message is None or isinstance(message, Exception):
            self.is_open = False
            self._broken(message)
        elif self.is_open:
            self._receive(message)

    def send(self, message: Any) -> None:
        """Send a message to the peer's `receive`, unless the link breaks first."""
        if self.is_open:
            self._network.carry(self, message)

    def close(self) -> None:
        """Close after everything has been sent. The peer's `broken` then gets None."""
        if self.is_open:
            self.is_open = False
            self._network.carry(self, None)

    def reset(self) -> None:
        """Close immediately. Messages in flight to the peer are lost."""
        if self.is_open:
            self.is_open = False
            self._network.break_link(self.link, sparing=self)


class Link:
    """A connection between two processes."""

    __slots__ = ("ends", "is_dead", "is_whole")

    def __init__(self, network: Network, one: Process, other: Process) -> None:
        first, second = End(network, self, one), End(network, self, other)
        first.peer, second.peer = second, first
        self.ends = (first, second)
        self.is_whole = True
        self.is_dead = False


Accept = Callable[[End, str], None]


class Network:
    """All hosts and links. A process listens on a host and a port."""

    def __init__(self, loop: SimulatedLoop, randomness: random.Random) -> None:
        self.loop = loop
        self._random = randomness.random
        self.weather = Weather()
        #: Where clients tell what they send and get, if anybody wants to know.
        self.trace: Trace | None = None
        self._listeners: dict[tuple[str, int], tuple[Process, Accept]] = {}
        self._links: dict[Link, None] = {}
        #: Pairs of names of processes that cannot reach each other, each with the links' messages that wait.
        self._cuts: dict[frozenset[str], list[tuple[End, Any, float]]] = {}
        #: Names of a sender and a receiver, with the messages that wait.
        self._held: dict[tuple[str, str], list[tuple[End, Any, float]]] = {}
        loop.listen = self._listen_for_protocol
        loop.connect = self._connect_for_protocol

    # Listening and connecting.

    def listen(self, process: Process, host: str, port: int, accept: Accept) -> Callable[[], None]:
        """Call `accept(end, address)` in `process` for each connection. Return a function that stops listening."""
        key = (host, port)
        if key in self._listeners:
            raise OSError(98, "Address already in use")
        self._listeners[key] = (process, accept)

        def close() -> None:
            if self._listeners.get(key) == (process, accept):
                del self._listeners[key]

        process.on_killed.append(close)
        return close

    async def connect(self, host: str, port: int) -> End:
        """Connect the current process. Raises ConnectionRefusedError, or TimeoutError after two seconds."""
        process = self.loop.current
        future: asyncio.Future[End] = self.loop.create_future()
        self.loop.call_in(
            self.loop.world, self._latency(), self._knock, process, host, port, future
        )
        async with asyncio.timeout(2.0):
            return await future

    def _knock(self, process: Process, host: str, port: int, future: asyncio.Future[End]) -> None:
        found = self._listeners.get((host, port))
        if found is None:
            self.loop.call_in(process, self._latency(), _refuse, future)
            return
        server, accept = found
        if self._cut_of(process, server) is not None or not process.is_alive:
            return
        link = Link(self, process, server)
        self._links[link] = None
        client_end, server_end = link.ends
        self.loop.call_in(server, 0.0, accept, server_end, process.name)
        self.loop.call_in(process, self._latency(), _connected, future, client_end)

    # Carrying.

    def carry(self, end: End, message: Any, sent_at: float | None = None) -> None:
        """Carry what an end sends, now or at `sent_at`. None means that it closes."""
        sent_at = self.loop.time() if sent_at is None else sent_at
        link = end.link
        if not link.is_whole or link.is_dead:
            return
        cut = self._cut_of(end.process, end.peer.process)
        if cut is not None:
            cut.append((end, message, sent_at))
            return
        if self._held:
            held = self._held.get((end.process.name, end.peer.process.name))
            if held is not None:
                held.append((end, message, sent_at))
                return
        rate = self.weather.reset_rate
        if isinstance(message, SessionResponse):
            rate += self.weather.session_reset_rate
        if rate and self._random() < rate:
            self.break_link(link)
            return
        due = max(end._last, self.loop.time() + self._latency())
        end._last = due
        if message is not None and isinstance(message, (bytes, bytearray)):
            end.in_flight += len(message)
        arrival = self.loop.call_in(
            end.peer.process, due - self.loop.time(), self._arrive, end, message, sent_at
        )
        arrival.source = end

    def _arrive(self, sender: End, message: Any, sent_at: float) -> None:
        if isinstance(message, (bytes, bytearray)):
            sender.in_flight -= len(message)
        receiver = sender.peer
        if not sender.link.is_whole or not receiver.is_open:
            return
        if message is None:
            self._drop(sender.link)
        receiver.sent_at = sent_at
        receiver.arrived(message)

    def _latency(self) -> float:
        draw = self._random()
        base = 0.0001 + 0.0005 * draw
        if draw > 0.98:
            base += 0.02 * self._random()
        return base * self.weather.slowness

    # Faults.

    def break_link(self, link: Link, sparing: End | None = None) -> None:
        """Break a link. Messages in flight are lost, and both ends are notified, except an end that broke it itself."""
        if not link.is_whole:
            return
        link.is_whole = False
        self._drop(link)
        for end in link.ends:
            if end is not sparing and end.is_open:
                self.loop.call_in(end.process, self._latency(), self._broken, end)

    def _broken(self, end: End) -> None:
        if end.is_open:
            end.arrived(ConnectionResetError("connection reset by peer"))

    def _drop(self, link: Link) -> None:
        self._links.pop(link, None)

    def links_of(self, process: Process) -> list[Link]:
        """Return the links of a process."""
        return [
            link for link in self._links if process in (link.ends[0].process, link.ends[1].process)
        ]

    def close_all(self, process: Process) -> None:
        """Close all links as the kernel does when a process dies: its peers see a reset."""
        for link in self.links_of(process):
            self.break_link(link)

    def power_off(self, process: Process) -> None:
        """Stop silently, as a machine without power does. Its peers notice only when they give up waiting."""
        for link in self.links_of(process):
            link.is_dead = True
            self.loop.call_in(self.loop.world, BREAKS_AFTER, self.break_link, link)

    def cut(self, one: str, other: str, seconds: float) -> None:
        """Block all messages between two processes for a while. Their links break if this lasts."""
        key = frozenset((one, other))
        if key in self._cuts:
            return
        self._cuts[key] = []
        self.loop.call_in(self.loop.world, min(seconds, BREAKS_AFTER), self._mend, key, seconds)

    def hold(self, sender: str, receiver: str) -> list[tuple[End, Any, float]]:
        """Delay what one process sends to another until `release`. Return the growing list of delayed messages."""
        return self._held.setdefault((sender, receiver), [])

    def release(self, sender: str, receiver: str) -> None:
        """Deliver the delayed messages in order."""
        for each in self._held.pop((sender, receiver)):
            self.carry(*each)

    def _mend(self, key: frozenset[str], seconds: float) -> None:
        if seconds > BREAKS_AFTER:
            for link in list(self._links):
                if {end.process.name for end in link.ends} == key:
                    self.break_link(link)
            self.loop.call_in(self.loop.world, seconds - BREAKS_AFTER, self._mend, key, 0.0)
            return
        for end, message, sent_at in self._cuts.pop(key, ()):
            self.carry(end, message, sent_at)

    def _cut_of(self, one: Process, other: Process) -> list[tuple[End, Any, float]] | None:
        if not self._cuts:
            return None
        return self._cuts.get(frozenset((one.name, other.name)))

    # asyncio's servers and connections.

    def _listen_for_protocol(
        self, process: Process, make: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> _Server:
        def accept(end: End, address: str) -> None:
            _Transport(self.loop, end, make(), address)

        return _Server(host, port, self.listen(process, host, port, accept))

    async def _connect_for_protocol(
        self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[_Transport, asyncio.BaseProtocol]:
        end, protocol = await self.connect(host, port), make()
        return _Transport(self.loop, end, protocol, host), protocol


def _refuse(future: asyncio.Future[End]) -> None:
    if not future.done():
        future.set_exception(ConnectionRefusedError("connection refused"))


def _connected(future: asyncio.Future[End], end: End) -> None:
    if future.done():
        end.reset()
    else:
        future.set_result(end)


class _Server:
    """The part of `asyncio.Server` that the product uses."""

    def __init__(self, host: str, port: int, close: Callable[[], None]) -> None:
        self._address = (host, port)
        self.close = close

    @property
    def sockets(self) -> list[_Server]:
        return [self]

    def getsockname(self) -> tuple[str, int]:
        return self._address

    async def wait_closed(self) -> None:
        """Return at once, because the owner closes its connections."""


class _Transport(asyncio.Transport):
    """An end of a link as an asyncio transport, with flow control in both directions."""

    def __init__(
        self, loop: SimulatedLoop, end: End, protocol: asyncio.BaseProtocol, peer: str
    ) -> None:
        super().__init__()
        self._loop = loop
        self._end = end
        self._protocol: Any = protocol
        self._peer = peer
        self._high = 64 << 10
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._unread: list[bytes] = []
        self._is_closing = False
        protocol.connection_made(self)
        end.open(self._receive, self._lost)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._peer, 40_000) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Any) -> None:
        self._end.send(b"".join(list_of_data))
        if self._end.in_flight > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()
            self._loop.call_later(0.001, self._look)

    def _look(self) -> None:
        if self._end.in_flight > self._high // 2 and self._end.is_open:
            self._loop.call_later(0.001, self._look)
        elif not self._is_closing:
            self._is_writing_paused = False
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = self._high if high is None else high

    def get_write_buffer_size(self) -> int:
        return self._end.in_flight

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        while self._unread and not self._is_reading_paused:
            self._feed(self._unread.pop(0))

    def is_reading(self) -> bool:
        return not self._is_reading_paused

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end.close()
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._end.reset()
            self._loop.call_soon(self._protocol.connection_lost, None)

    def _receive(self, data: bytes) -> None:
        if self._is_reading_paused:
            self._unread.append(data)
        elif not self._is_closing:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._is_closing:
            buffer = self._protocol.get_buffer(-1)
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            view = view[size:]
            self._protocol.buffer_updated(size)

    def _lost(self, error: Exception | None) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if error is None:
            self._protocol.eof_received()
        self._protocol.connection_lost(error)
