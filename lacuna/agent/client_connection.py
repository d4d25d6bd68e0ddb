"""One client's connection: reads frames, writes answers in the order of the requests, and bounds its memory.

    received bytes -> FrameReader -> Serving -> transport
                          FlowControl

agent/connection_states.py contains the table of states, agent/serving.py decides which request runs and in what order
answers are sent, and agent/flow.py decides when reading pauses. No request is started while the client is not reading
its answers.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, cast

from lacuna.agent.budget import ByteBudget
from lacuna.agent.client import Peer
from lacuna.agent.connection import FrameError, FrameReader
from lacuna.agent.connection_states import ANSWERING, LIFE, SERVING, Action, Event, State, step
from lacuna.agent.context import AgentContext
from lacuna.agent.flow import FlowControl
from lacuna.agent.registry import Registry
from lacuna.agent.security.authentication import Authentication
from lacuna.agent.security.listeners import Listener
from lacuna.agent.security.sasl.mechanism import MOST_TOKEN_BYTES
from lacuna.agent.serving import Serving
from lacuna.controlplane.shared.complaints import Complaints
from lacuna.wire.layout import Buffer

log = logging.getLogger("lacuna.agent")

#: The time within which a busy client sends its next request, unless it has moved to another agent.
_PAUSE_SECONDS: Final = 1.0
#: The slowest rate, in bytes per second, at which a request may arrive while others wait for memory.
_SLOWEST: Final = 64 << 10

_OPEN: Final = State.OPEN  # members of an Enum are slow to look up in Python 3.11


class Acceptor(Protocol):
    """The part of AgentServer that a connection needs."""

    context: AgentContext
    registry: Registry
    scratch: memoryview
    budget: ByteBudget
    complaints: Complaints
    large_requests: asyncio.Lock
    is_handing_over: bool

    def admit(self, connection: "ClientConnection") -> bool: ...

    def forget(self, connection: "ClientConnection") -> None: ...


class ClientConnection(asyncio.BufferedProtocol):
    """The asyncio protocol of an accepted connection."""

    __slots__ = (
        "_closed",
        "_flow",
        "_listener",
        "_loop",
        "_may_write",
        "_muted",
        "_outgoing",
        "_part_began",
        "_reader",
        "_send",
        "_server",
        "_serving",
        "_state",
        "_transport",
        "_writing",
        "last_active",
    )
    _flow: FlowControl
    _send: Callable[[list[Buffer]], None]
    _serving: Serving
    _transport: asyncio.Transport

    def __init__(self, server: Acceptor, listener: Listener) -> None:
        self._server = server
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        registry = server.registry
        self._reader = FrameReader(
            server.context.settings.max_request_bytes,
            server.scratch,
            registry.takes,
            registry.header_versions,
        )
        self._state = State.NEW
        self._outgoing: list[Buffer] = []
        self._writing: asyncio.Handle | None = None
        self._may_write = True
        self._muted: asyncio.TimerHandle | None = None
        self._closed: asyncio.Event = asyncio.Event()
        #: When the incomplete frame began to arrive.
        self._part_began = 0.0
        self.last_active = 0.0

    @property
    def peer(self) -> Peer:
        """The client, as identified in its last request."""
        return self._serving.peer

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or abort it if there are too many."""
        transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        self._transport = transport
        # asyncio's own writelines never pauses writing on Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 (CVE-2024-12254).
        is_asyncio = type(transport).__module__.startswith("asyncio.")
        self._send = self._send_joined if is_asyncio else transport.writelines
        context = self._server.context
        self._flow = FlowControl(context.settings, context.metrics, self._server.budget, transport)
        address = transport.get_extra_info("peername") or ("", 0)
        certificate = None
        if self._listener.protocol.has_tls:
            certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        session = context.access.session(self._listener, certificate)
        peer = Peer(host=str(address[0]), port=int(address[1]), session=session)
        session.on_step = partial(self._limit, session)
        self._limit(session)
        self._serving = Serving(context, self._server.registry, peer, self)
        self.last_active = self._loop.time()
        if self._server.admit(self):
            self._happened(Event.ADMIT)
            transport.set_write_buffer_limits(high=context.settings.write_buffer_bytes)
        else:
            self._happened(Event.REFUSE)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._state not in ANSWERING:
            return
        self.last_active = self._loop.time()
        self._server.context.metrics.bytes_received += nbytes
        try:
            frames = self._reader.received(nbytes)
        except FrameError as error:
            self.close_malformed(error)
            return
        if frames or not self._flow.has_part:
            self._part_began = self.last_active
        self._flow.received(frames, self._reader.arrived_bytes)
        if frames:
            self._serving.add(frames)
        self._flow.adjust()

    def _limit(self, session: Authentication) -> None:
        """Limit the size of requests. Before authentication, only tokens fit."""
        largest = self._server.context.settings.max_request_bytes
        if not session.has_authenticated:
            largest = min(largest, MOST_TOKEN_BYTES)
        self._reader.max_bytes = largest
        self._reader.has_tokens = session.sends_tokens

    def received(self, data: bytes) -> None:
        """Process bytes that arrived before the transport used this protocol."""
        rest = memoryview(data)
        while rest:
            buffer = self.get_buffer(len(rest))
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            self.buffer_updated(size)
            rest = rest[size:]

    def eof_received(self) -> bool:
        """Let the transport close the connection, as in Kafka, since the client will send nothing more."""
        return False

    def pause_writing(self) -> None:
        """Start no more requests until the client reads its answers."""
        self._may_write = False

    def resume_writing(self) -> None:
        """Start requests again, since the client is reading its answers."""
        self.last_active = self._loop.time()
        self._may_write = True
        self._serving.go_on()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Finish the requests already read, except those that only wait for records or members.

        The connection counts towards the limit until they are done. This also bounds clients that repeatedly connect,
        send requests and disconnect.
        """
        self._may_write = True  # no client is waiting any more
        self._happened(Event.LOSE)

    # Called by the server.

    @property
    def is_busy(self) -> bool:
        """Whether a request is being served and the client is reading its answers."""
        return self._serving.is_busy and self._may_write

    def has_left(self, now: float) -> bool:
        """Whether, at `now` (loop time), the client has been silent for so long that it has probably moved away."""
        serving = self._serving
        expected = serving.heartbeat_seconds if serving.asks_coordinator else _PAUSE_SECONDS
        return not serving.is_busy and now - self.last_active > expected

    @property
    def owes_offsets(self) -> bool:
        """Whether the client's last request was AddOffsetsToTxn, whose offsets have yet to arrive (adr/0018)."""
        return self._serving.owes_offsets

    def close_stalled(self, now: float, seconds: float) -> None:
        """Close the connection if a frame has been arriving for more than `seconds`, at too low a rate.

        Does nothing if the agent has paused reading. `now` is loop time.
        """
        passed, arrived = now - self._part_began, self._reader.arrived_bytes
        if passed > seconds and arrived < _SLOWEST * passed and self._flow.is_stalled:
            self.close_malformed(
                FrameError(
                    f"only {arrived} bytes of a request arrived in {passed:.0f} s, while other "
                    "clients were waiting for memory"
                )
            )
            self.abort()

    def abort(self) -> None:
        """Close the connection immediately, without sending further answers."""
        self._happened(Event.ABORT)

    async def finish(self) -> None:
        """Stop reading, answer the requests already read, and wait until the connection has closed."""
        if self._state in SERVING:
            self._happened(Event.SHUT_DOWN)
            self._unmute()
            await self._closed.wait()

    # Called by Serving.

    @property
    def may_serve(self) -> bool:
        """Whether another request may start."""
        return self._may_write and self._state in SERVING and self._muted is None

    @property
    def large_requests(self) -> asyncio.Lock:
        """Held while a large request is read and answered, because its decoded values take up many times its size."""
        return self._server.large_requests

    @property
    def may_wait(self) -> bool:
        """Whether requests may still be kept waiting. False once the agent is stopping."""
        return self._state is not State.DRAINING

    def mute(self, seconds: float) -> None:
        """Start no requests for `seconds`, or until an earlier mute ends if that is later."""
        until = self._loop.time() + seconds
        if self._muted is not None:
            until = max(until, self._muted.when())
            self._muted.cancel()
        self._muted = self._loop.call_at(until, self._unmute)

    def _unmute(self) -> None:
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        self._serving.go_on()

    @property
    def is_handed_over(self) -> bool:
        """Whether clients are being sent to other agents."""
        return self._server.is_handing_over or self._server.context.lease.trust.is_replaced

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has disconnected while its requests are still being served."""
        return self._state is State.ABANDONED

    def answered(self, answers: Sequence[Buffer], requests: int, size: int) -> None:
        """Write the answers to the next `requests` requests, and release the `size` bytes that these requests hold."""
        if self._state in ANSWERING:
            self._outgoing += answers
        if not self._serving.is_busy:
            self._write()
        elif self._outgoing and self._writing is None:
            # The answers for one flush become ready one after another. The delay lets them be sent in one write.
            self._writing = self._loop.call_soon(self._write)
        self._flow.released(requests, size)
        self._look_whether_all_is_answered()

    def end(self) -> None:
        """Close the connection once the answers have been sent."""
        self._happened(Event.CLOSE)

    def close_malformed(self, error: Exception) -> None:
        """Close the connection. Log the peer and the error, at most once a minute for each host and error."""
        if self._state in ANSWERING:
            peer, now = self._serving.peer, self._loop.time()
            if self._server.complaints.is_new(peer.host, str(error), now):
                log.warning("%s: connection closed: %s", self._serving.name, error)
            self._server.context.metrics.connections_closed_malformed += 1
        self._happened(Event.CLOSE)

    # States.

    def _happened(self, event: Event) -> None:
        self._state, actions = step(LIFE, self._state, event)
        for action in actions:
            _DO[action](self)
        if event is not Event.ALL_ANSWERED:
            self._look_whether_all_is_answered()

    def _look_whether_all_is_answered(self) -> None:
        if self._state is not _OPEN and not self._flow.requests:
            self._happened(Event.ALL_ANSWERED)

    def _release_unread(self) -> None:
        self._reader.drop_incoming()
        self._flow.release_unread()

    # Writing.

    def _write(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        if self._outgoing:
            buffers, self._outgoing = self._outgoing, []
            self._server.context.metrics.bytes_sent += sum(map(len, buffers))
            self._send(buffers)
            self.last_active = self._loop.time()

    def _forget(self) -> None:
        # A client's authentication tokens may be large, and reference cycles would keep them in memory.
        session = self._serving.peer.session
        session.on_step = _nothing
        session.abandon()
        self._server.forget(self)

    def _send_joined(self, buffers: list[Buffer]) -> None:
        self._transport.write(b"".join(buffers))


def _nothing() -> None:
    """Do nothing, since no caller is left."""


_DO: Final[Mapping[Action, Callable[[ClientConnection], None]]] = {
    Action.STOP_READING: lambda self: self._flow.stop(),
    Action.END_READING: lambda self: self._flow.end(),
    Action.FLUSH: lambda self: self._write(),
    Action.CLOSE_TRANSPORT: lambda self: self._transport.close(),
    Action.DISCARD_ANSWERS: lambda self: self._outgoing.clear(),
    Action.ABORT_TRANSPORT: lambda self: self._transport.abort(),
    Action.RELEASE_UNREAD: lambda self: self._release_unread(),
    Action.CANCEL_WAIT: lambda self: self._serving.cancel_wait(),
    Action.SERVE: lambda self: self._serving.go_on(),
    Action.DROP_REQUESTS: lambda self: self._flow.released(*self._serving.drop()),
    Action.FORGET: lambda self: self._forget(),
    Action.NOTIFY: lambda self: self._closed.set(),
}
