"""One client's connection: frames in, answers out in the order of the requests, everything bounded.

    received bytes -> FrameReader -> waiting frames -> handlers -> slots -> transport

One request is served at a time, as in Kafka. Requests of a pipelined API (Produce) are the
exception: they start in order and finish in their own time, so that several share a flush; a
request of another API waits until they are answered. A slot keeps each answer's place. A handler
begins as soon as its request is whole and may; a task is made only where it has to wait.

Reading pauses while this connection holds too many requests or bytes, or the agent as a whole too
many bytes. Nothing new is begun while the client does not take its answers.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from agent.apis.registry import Api, Peer, response_header_version
from agent.connection import FrameError, FrameReader, RequestFrame, answer_buffers
from agent.eager import start
from agent.wire import Buffer, MalformedRequest
from controlplane.client import CommandRefused, ControlPlaneUnavailable
from controlplane.errors import ErrorCode

if TYPE_CHECKING:
    from agent.server import AgentServer

log = logging.getLogger("lacuna.agent")


def _for_clients(error_code: int) -> int:
    """Kafka's own error codes are not below -1; what is stays within the cluster."""
    unknown = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    return max(error_code, unknown)


class _Slot:
    """The place of one answer. `buffers` is None for a request that wants none."""

    __slots__ = ("buffers", "is_done", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.is_done = False
        self.buffers: Sequence[Buffer] | None = None


class ClientConnection(asyncio.BufferedProtocol):
    """Made by AgentServer for each accepted connection."""

    def __init__(self, server: "AgentServer") -> None:
        self._server = server
        self._context = server.context
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(
            server.context.settings.max_request_bytes,
            server.scratch,
            server.context.registry.takes,
        )
        self._transport: asyncio.Transport | None = None
        self._peer = Peer(host="", port=0)
        self._frames: deque[RequestFrame] = deque()
        self._slots: deque[_Slot] = deque()
        self._outgoing: list[Buffer] = []
        self._writing: asyncio.Handle | None = None
        self._held_bytes = 0
        self._incoming_bytes = 0
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self._may_write = True
        self._pipelined: set[asyncio.Task[None]] = set()
        self._alone: asyncio.Task[None] | None = None
        self._alone_waits = False
        self._is_serving = False
        self._is_reading = True
        self._waits_for_budget = False
        self._gone = asyncio.Event()
        self._is_finishing = False
        self._is_closing = False
        self._is_deserted = False
        self.last_active = 0.0

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept, or refuse when there are too many."""
        transport = cast(asyncio.Transport, transport)  # uvloop's is one by form only
        self._transport = transport
        address = transport.get_extra_info("peername") or ("", 0)
        self._peer = Peer(host=str(address[0]), port=int(address[1]))
        self.last_active = self._loop.time()
        if not self._server.admit(self):
            log.warning("%s: closed, there are too many connections", self.peer_name)
            self._is_closing = True
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self._context.settings.write_buffer_bytes)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Where the transport puts what it receives."""
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        if self._is_closing:
            return
        self.last_active = self._loop.time()
        self._context.metrics.bytes_received += nbytes
        try:
            frames = self._reader.received(nbytes)
        except FrameError as error:
            self.close_malformed(error)
            return
        self._hold(frames)
        if frames:
            self._frames.extend(frames)
            self._all_answered.clear()
            self._serve()
        self._pause_if_full()

    def eof_received(self) -> bool:
        """The client says no more; as Kafka, we close."""
        return False

    def pause_writing(self) -> None:
        """The client does not take its answers."""
        self._may_write = False

    def resume_writing(self) -> None:
        """It does again."""
        self.last_active = self._loop.time()
        self._may_write = True
        self._serve()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Gone. Where the client has left, what was read of it is served to the end, but for waits.

        Until then it counts as a connection: who comes, asks and leaves in a loop is bounded too.
        """
        self._is_deserted = not self._is_closing
        self._is_closing = True
        self._may_write = True  # nothing waits for the client any more
        if self._waits_for_budget:
            self._server.budget.forget(self._budget_is_free)
        unread = self._incoming_bytes
        self._incoming_bytes = 0
        self._reader.drop_incoming()
        self._outgoing.clear()
        self._gone.set()
        self._release(unread)
        if not self._is_deserted:
            self._drop_waiting()
        elif self._alone is not None and self._alone_waits:
            self._end_soon(self._alone)
        self._serve()

    def _drop_waiting(self) -> None:
        """Nobody is left to whom it matters: what has not begun is not done, what runs alone ends."""
        self._is_deserted = False
        waiting = sum(frame.size for frame in self._frames)
        self._frames.clear()
        if self._alone is not None:
            self._end_soon(self._alone)
        self._release(waiting)
        self._server.forget(self)

    # What the server asks.

    @property
    def peer_name(self) -> str:
        """host:port of the client, for the log."""
        return f"{self._peer.host}:{self._peer.port}"

    @property
    def is_busy(self) -> bool:
        """True while a request is being served and its answer has not left for lack of it."""
        return bool(self._slots) and self._may_write

    def close_malformed(self, error: Exception) -> None:
        """One log line that names the peer, and nothing else."""
        if not self._is_closing:
            log.warning("%s: connection closed: %s", self.peer_name, error)
            self._context.metrics.connections_closed_malformed += 1
        self.close()

    def close_stalled(self) -> None:
        """Give back the memory of a request that does not go on, unless it is us who do not read."""
        if self._incoming_bytes and self._is_reading:
            size = self._incoming_bytes
            self.close_malformed(FrameError(f"a frame of {size} bytes began and did not go on"))
            self.abort()

    def close(self) -> None:
        """Close after what was answered has left."""
        self._write()
        self._begin_closing()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._begin_closing()
        if self._transport is not None:
            self._transport.abort()

    def _begin_closing(self) -> None:
        self._is_closing = True
        if self._is_deserted:
            self._drop_waiting()

    async def finish(self) -> None:
        """Take nothing more, answer all that was read, close once the client has it."""
        if self._is_deserted:
            await self._all_answered.wait()
        elif self._transport is not None and not self._is_closing:
            self._is_finishing = True
            self._pause()
            await self._all_answered.wait()
            self.close()
            await self._gone.wait()

    # Serving.

    def _serve(self) -> None:
        """Begin what may begin now. Called whenever something came, was answered, or may be written."""
        if self._is_serving:
            return  # what was just answered is in the midst of being served further up
        self._is_serving = True
        try:
            while self._frames and self._may_begin():
                frame = self._frames[0]
                api = self._context.registry.get(frame.api_key, frame.api_version)
                assert api is not None, "the frame reader lets no other through"
                if self._alone is not None or (self._pipelined and not api.pipelined):
                    return
                self._frames.popleft()
                self._begin(api, frame)
        finally:
            self._is_serving = False

    def _may_begin(self) -> bool:
        return self._may_write and (self._is_deserted or not self._is_closing)

    def _begin(self, api: Api, frame: RequestFrame) -> None:
        slot = self._open_slot(frame)
        task = start(self._answer(api, frame, slot), f"{self.peer_name} API {frame.api_key}")
        if task is None:
            return
        if api.pipelined:
            self._pipelined.add(task)
        else:
            self._alone, self._alone_waits = task, api.waits
            if api.waits and self._is_deserted:
                self._end_soon(task)
        task.add_done_callback(self._ended)

    def _end_soon(self, task: asyncio.Task[None]) -> None:
        # Not before its first step: what runs in it would not learn of its end.
        self._loop.call_soon(task.cancel)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task is self._alone:
            self._alone = None
        else:
            self._pipelined.discard(task)
        self._serve()

    async def _answer(self, api: Api, frame: RequestFrame, slot: _Slot) -> None:
        try:
            body = await self._respond(api, frame)
            if body is not None:
                header_version = response_header_version(frame.api_key, frame.api_version)
                slot.buffers = answer_buffers(frame.correlation_id, header_version, body)
        except (FrameError, MalformedRequest) as error:
            self.close_malformed(error)
        except Exception:
            # Not even an error could be answered; without an answer the client would wait for ever.
            self._context.metrics.requests_failed += 1
            log.exception("%s: connection closed by our own mistake", self.peer_name)
            self.abort()
        finally:
            slot.is_done = True
            self._send_what_is_done()

    async def _respond(self, api: Api, frame: RequestFrame) -> Sequence[Buffer] | None:
        """The answer's body; None: none is wanted. Raises FrameError where none can be given."""
        metrics = self._context.metrics
        metrics.requests[frame.api_key] += 1
        request = api.read(frame.body, frame.api_version)
        try:
            response = await api.handle(self._context, request, self._peer_of(frame))
            return None if response is None else api.write(response, frame.api_version)
        except ControlPlaneUnavailable as error:
            metrics.requests_unavailable += 1
            log.debug("%s: API %d: control plane: %s", self.peer_name, frame.api_key, error)
            return self._refuse(api, frame, request, api.unavailable)
        except CommandRefused as error:
            metrics.requests_failed += 1
            refusal = self._refuse(api, frame, request, _for_clients(error.code))
            log.warning("%s: API %d was refused: %s", self.peer_name, frame.api_key, error)
            return refusal
        except MalformedRequest:
            raise
        except Exception:
            metrics.requests_failed += 1
            log.exception(
                "%s: our own mistake in API %d version %d",
                self.peer_name,
                frame.api_key,
                frame.api_version,
            )
            return self._refuse(api, frame, request, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _refuse(
        self, api: Api, frame: RequestFrame, request: Any, error_code: int
    ) -> Sequence[Buffer] | None:
        if api.refuse is None:
            raise FrameError(f"API {frame.api_key} has no answer for error {error_code}")
        response = api.refuse(request, error_code)
        return None if response is None else api.write(response, frame.api_version)

    def _peer_of(self, frame: RequestFrame) -> Peer:
        if frame.client_id != self._peer.client_id:
            self._peer = replace(self._peer, client_id=frame.client_id)
        return self._peer

    # Answers and bounds.

    def _open_slot(self, frame: RequestFrame) -> _Slot:
        slot = _Slot(frame.size)
        self._slots.append(slot)
        return slot

    def _send_what_is_done(self) -> None:
        released = 0
        while self._slots and self._slots[0].is_done:
            slot = self._slots.popleft()
            released += slot.size
            if slot.buffers is not None and not self._is_closing:
                self._outgoing += slot.buffers
        if not self._slots:
            self._write()
        elif self._outgoing and self._writing is None:
            # The answers of one flush are ready one after the other, and go in one write.
            self._writing = self._loop.call_soon(self._write)
        self._release(released)

    def _write(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        if self._outgoing and self._transport is not None and not self._is_closing:
            buffers, self._outgoing = self._outgoing, []
            self._context.metrics.bytes_sent += sum(map(len, buffers))
            self._transport.writelines(buffers)
            self.last_active = self._loop.time()

    def _hold(self, frames: Sequence[RequestFrame]) -> None:
        """Count what has come: whole frames, and the size of the one that is coming."""
        incoming = self._reader.incoming_bytes
        more = sum(frame.size for frame in frames) + incoming - self._incoming_bytes
        self._incoming_bytes = incoming
        self._held_bytes += more
        self._context.metrics.request_bytes_now += more
        self._server.budget.take(more)

    def _release(self, count: int) -> None:
        self._held_bytes -= count
        self._context.metrics.request_bytes_now -= count
        if not self._slots and not self._frames:
            self._all_answered.set()
            if self._is_deserted:
                self._server.forget(self)
        self._server.budget.give_back(count)
        self._resume_if_free()

    def _is_full(self) -> bool:
        """True where nothing more may be read. A frame that has begun to come is always let in."""
        settings = self._context.settings
        return (
            len(self._frames) + len(self._slots) >= settings.max_in_flight_requests
            or self._held_bytes - self._incoming_bytes >= settings.max_in_flight_bytes
        )

    def _pause_if_full(self) -> None:
        if self._is_full():
            self._pause()
        elif self._server.budget.is_full and not self._incoming_bytes:
            self._pause()
            self._wait_for_budget()

    def _pause(self) -> None:
        if self._is_reading and self._transport is not None:
            self._is_reading = False
            self._context.metrics.reading_paused += 1
            self._transport.pause_reading()

    def _resume_if_free(self) -> None:
        if self._is_reading or self._is_closing or self._is_finishing or self._is_full():
            return
        if self._server.budget.is_full and not self._incoming_bytes:
            self._wait_for_budget()
        elif self._transport is not None:
            self._is_reading = True
            self._transport.resume_reading()

    def _wait_for_budget(self) -> None:
        if not self._waits_for_budget:
            self._waits_for_budget = True
            self._server.budget.when_free(self._budget_is_free)

    def _budget_is_free(self) -> None:
        self._waits_for_budget = False
        self._resume_if_free()
