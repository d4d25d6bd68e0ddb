"""Serves the requests on one connection by scheduling them and sending their answers in order.

    waiting frames -> handlers -> slots -> the connection, in the order of the requests

One request is served at a time, as in Kafka, except that requests to a pipelined API (Produce) start in order and
finish in any order, so that several of them share a flush. A request to any other API waits until they are answered. A
slot reserves the place of each answer. A handler starts as soon as its request is complete and allowed to run, and gets
a task only if it has to wait.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from time import perf_counter
from typing import Any, Final, Protocol

from lacuna.agent import mutations, pieces
from lacuna.agent.api import Api, Call, MalformedRequest, Pieces
from lacuna.agent.client import Peer
from lacuna.agent.connection import (
    NO_HEADER,
    FrameError,
    RequestFrame,
    answer_buffers,
)
from lacuna.agent.context import AgentContext
from lacuna.agent.eager import Timed, start
from lacuna.agent.limits import MOST_OF_PIECE, MOST_WHOLE
from lacuna.agent.quotas import throttling
from lacuna.agent.quotas.quotas import LONGEST_SECONDS
from lacuna.agent.registry import (
    ADD_OFFSETS_TO_TXN_KEY,
    ADD_PARTITIONS_TO_TXN_KEY,
    Registry,
    response_header_version,
)
from lacuna.agent.security.authentication import Authentication
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.shared.config_values import printable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.kernel import MOST_ELEMENTS
from lacuna.wire.layout import Buffer
from lacuna.wire.messages.security import SaslAuthenticateRequest

log = logging.getLogger("lacuna.agent")

#: The default heartbeat interval in a classic group (heartbeat.interval.ms). Members do not send their own interval.
_CLASSIC_HEARTBEAT_SECONDS: Final = 3.0
#: How late a member's heartbeat may be, since clients check only occasionally whether the interval has passed.
_LATE_SECONDS: Final = 1.0


def _for_clients(error_code: int) -> int:
    """Hide error codes below -1, which Kafka does not have and which are used only within the cluster."""
    unknown = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    return max(error_code, unknown)


class _Slot:
    """The place of one answer in the order of answers. `buffers` stays empty if the client expects no answer."""

    __slots__ = ("api", "began", "buffers", "is_alone", "is_done", "size", "task", "timed")

    def __init__(self, api: Api[Any, Any], size: int, began: float) -> None:
        self.api = api
        self.size = size
        self.began = began
        self.is_done = False
        #: Whether no later request begins before this one is answered, even if its API is pipelined.
        self.is_alone = False
        self.buffers: Sequence[Buffer] = ()
        self.task: asyncio.Task[None] | None = None
        #: Measures the time that the request takes, if quotas need it.
        self.timed: Timed | None = None


class Connection(Protocol):
    """The part of ClientConnection that serving requests needs. ClientConnection documents the members."""

    @property
    def may_serve(self) -> bool: ...

    @property
    def may_wait(self) -> bool: ...

    @property
    def large_requests(self) -> asyncio.Lock: ...

    @property
    def is_handed_over(self) -> bool: ...

    @property
    def is_abandoned(self) -> bool: ...

    def mute(self, seconds: float) -> None: ...

    def answered(self, answers: Sequence[Buffer], requests: int, size: int) -> None: ...

    def end(self) -> None: ...

    def abort(self) -> None: ...

    def close_malformed(self, error: Exception) -> None: ...


class Serving:
    """The requests on one connection, from the complete frame to the answer.

    The first slot is never done. If its request is not pipelined, it is the only slot.
    """

    __slots__ = (
        "_connection",
        "_context",
        "_frames",
        "_registry",
        "_slots",
        "asks_coordinator",
        "heartbeat_seconds",
        "name",
        "owes_offsets",
        "peer",
    )

    def __init__(
        self, context: AgentContext, registry: Registry, peer: Peer, connection: Connection
    ) -> None:
        self._context = context
        self._registry = registry
        self._connection = connection
        self._frames: deque[RequestFrame] = deque()
        self._slots: deque[_Slot] = deque()
        self.peer = peer
        #: host:port of the client, for the log.
        self.name = f"{peer.host}:{peer.port}"
        #: Whether the last request was AddOffsetsToTxn, ignoring AddPartitionsToTxn, which may accompany it.
        self.owes_offsets = False
        #: Whether the client regards this agent as the coordinator of its group or transactions.
        self.asks_coordinator = False
        #: The longest silence of the client between two heartbeats, if it is a member of a group.
        self.heartbeat_seconds = _CLASSIC_HEARTBEAT_SECONDS

    @property
    def is_busy(self) -> bool:
        return bool(self._slots)

    def add(self, frames: Sequence[RequestFrame]) -> None:
        """Serve these requests after all earlier ones."""
        self._frames.extend(frames)
        self.go_on()

    def go_on(self) -> None:
        """Start the requests that may start now. Called when one arrives or is answered, or writing resumes."""
        while self._frames and self._connection.may_serve:
            frame = self._frames[0]
            api = self._registry.get(frame.api_key, frame.api_version)
            assert api is not None, "the frame reader rejects all others"
            if self._slots and not (api.pipelined and self._slots[0].api.pipelined):
                return
            if self._slots and self._slots[-1].is_alone:
                return
            session = self.peer.session
            if not session.is_open and not session.admits(frame.api_key):
                self._context.metrics.sessions_expired += session.has_expired
                self._connection.close_malformed(_not_admitted(session, frame.api_key))
                return
            if self._context.quotas.are_any and self._waits_for_quotas(api, frame):
                return
            self._frames.popleft()
            self._begin(api, frame)

    def cancel_wait(self) -> None:
        """Cancel the running request if it only waits for records or members, since the client has disconnected."""
        if self._slots and self._slots[0].api.waits:
            self._cancel_soon(self._slots[0])

    def drop(self) -> tuple[int, int]:
        """Drop the requests that have not started, and cancel the running request unless it is pipelined.

        Return the number of dropped requests, and their total size in bytes.
        """
        dropped = len(self._frames), sum(frame.size for frame in self._frames)
        self._frames.clear()
        if self._slots and not self._slots[0].api.pipelined:
            self._cancel_soon(self._slots[0])
        return dropped

    def _begin(self, api: Api[Any, Any], frame: RequestFrame) -> None:
        if api.key != ADD_PARTITIONS_TO_TXN_KEY:
            self.owes_offsets = api.key == ADD_OFFSETS_TO_TXN_KEY
        if api.moved:
            self.asks_coordinator = api.moved == ErrorCode.NOT_COORDINATOR
        slot = _Slot(api, frame.size, perf_counter())
        self._slots.append(slot)
        answer = self._answer(frame, slot)
        if self._context.quotas.are_any and throttling.is_counted(self._peer_of(frame), api.quota):
            slot.timed = Timed(answer)
        slot.task = start(slot.timed or answer, f"{self.name} API {frame.api_key}")
        if slot.timed is not None:
            count = partial(self._count_rest, self.peer, slot.timed)
            if slot.task is None:
                count()
            else:
                slot.task.add_done_callback(count)
        if slot.task is not None:
            slot.task.add_done_callback(self._ended)
            if api.waits and self._connection.is_abandoned:
                self._cancel_soon(slot)

    def _cancel_soon(self, slot: _Slot) -> None:
        # The task is not cancelled before its first step, or its coroutine would not receive the cancellation.
        if slot.task is not None:
            asyncio.get_running_loop().call_soon(slot.task.cancel)

    def _ended(self, _task: asyncio.Task[None]) -> None:
        self.go_on()

    async def _answer(self, frame: RequestFrame, slot: _Slot) -> None:
        try:
            body = await self._respond(slot, frame)
            if body is not None:
                header_version = NO_HEADER
                if frame.header_version != NO_HEADER:
                    header_version = response_header_version(frame.api_key, frame.api_version)
                slot.buffers = answer_buffers(frame.correlation_id, header_version, body)
        except MalformedRequest as error:
            self._connection.close_malformed(error)
        except Exception:
            # Not even an error could be sent. Without an answer, the client would wait forever.
            self._context.metrics.requests_failed += 1
            log.exception(
                "%s: connection closed by an unexpected error; please report it", self.name
            )
            self._connection.abort()
        finally:
            slot.is_done = True
            metrics = self._context.metrics
            if metrics.on_request is not None:
                api = (frame.api_key, frame.api_version)
                metrics.on_request(*api, frame.client_id, slot.began, perf_counter())
            self._hand_over()
            if self.peer.session.is_over:
                self._connection.end()

    def _hand_over(self) -> None:
        requests = size = 0
        answers: list[Buffer] = []
        slots, metrics = self._slots, self._context.metrics
        if not slots[0].is_done:
            return
        now = perf_counter()
        while slots and slots[0].is_done:
            slot = slots.popleft()
            metrics.durations[slot.api.key].observe(now - slot.began)
            requests += 1
            size += slot.size
            answers += slot.buffers
        self._connection.answered(answers, requests, size)

    async def _respond(self, slot: _Slot, frame: RequestFrame) -> Sequence[Buffer] | None:
        """Return the answer's body, or None if the client expects no answer."""
        api, metrics = slot.api, self._context.metrics
        metrics.requests[frame.api_key] += 1
        if frame.header_version == NO_HEADER:
            return await self._take_token(api, frame)
        call = Call(self._context, self._peer_of(frame), frame.api_version)
        if (
            len(frame.body) <= pieces.LARGE_BYTES
            or api.most_elements <= MOST_WHOLE
            or api.pipelined
        ):
            request = api.read(frame.body, frame.api_version)
            count = api.request.codec.elements
            slot.is_alone = api.pipelined and count > MOST_OF_PIECE
            return await self._respond_to(slot, call, request, count)
        if not api.pieces:
            request = await pieces.read(api, frame.body, frame.api_version)
            return await self._respond_to(slot, call, request)
        async with self._connection.large_requests:
            request = await pieces.read(api, frame.body, frame.api_version)
            return await self._respond_to(slot, call, request)

    async def _respond_to(
        self, slot: _Slot, call: Call, request: Any, count: int = MOST_ELEMENTS
    ) -> Sequence[Buffer] | None:
        """Return the body of the answer to a request with at most `count` elements, or None if none is expected."""
        api = slot.api
        how = pieces.pieces_of(api, request, count)
        if how is not None:
            cut = pieces.cut(request, how)
            some = [*islice(cut, 2)]
            if len(some) > 1:
                return await self._respond_in_pieces(slot, call, how, chain(some, cut))
        if self._connection.is_handed_over and (answer := self._sent_away(api, call, request)):
            return _written(api, call, answer)
        try:
            return await self._handled(slot, call, request)
        except Exception as error:
            return _written(api, call, self._refused_after(error, api, call, request))

    async def _respond_in_pieces(
        self, slot: _Slot, call: Call, how: Pieces, cut: Iterable[pieces.Piece]
    ) -> Sequence[Buffer] | None:
        """Answer a request piece by piece, and serve other requests in between. Return None if the client has left."""
        api = slot.api
        joined = pieces.Joined(api, call.version, how.answered, partial(_count_errors, api, call))
        for request, depth in cut:
            if self._connection.is_abandoned:
                return None
            response = self._connection.is_handed_over and self._sent_away(api, call, request)
            if not response:
                try:
                    response = await api.handle(call, request)
                except Exception as error:
                    response = self._refused_after(error, api, call, request)
            if not joined.add(response, depth):
                break
            await asyncio.sleep(0)
        return self._accounted(slot, call, joined.response())

    def _refused_after(self, error: Exception, api: Api[Any, Any], call: Call, request: Any) -> Any:
        """Return the answer after a handler's error, or raise MalformedRequest to close the connection."""
        metrics = self._context.metrics
        if isinstance(error, MalformedRequest):
            raise error
        if isinstance(error, ControlPlaneUnavailable):
            metrics.requests_unavailable += 1
            log.debug("%s: API %d: the control plane is unavailable: %s", self.name, api.key, error)
            return api.refuse(call, request, api.unavailable)
        metrics.requests_failed += 1
        if isinstance(error, CommandRefused):
            refusal = api.refuse(call, request, _for_clients(error.code))
            log.warning("%s: API %d was rejected: %s", self.name, api.key, error)
            return refusal
        log.error(
            "%s: unexpected error in API %d version %d; please report it",
            self.name,
            api.key,
            call.version,
            exc_info=error,
        )
        return api.refuse(call, request, ErrorCode.UNKNOWN_SERVER_ERROR)

    async def _handled(self, slot: _Slot, call: Call, request: Any) -> Sequence[Buffer] | None:
        """Count the request's use of quotas, and return the handler's answer, or None if the client expects none."""
        api = slot.api
        change = None if slot.timed is None else mutations.change_of(call, api, request)
        if change is not None and (answer := await self._refused_change(change, call, request)):
            return answer
        response = await api.handle(call, request)
        if response is None:
            self._spend(slot, call, ())
            return None
        if api.heartbeat_ms:
            interval_ms = response.heartbeat_interval_ms or api.heartbeat_ms
            self.heartbeat_seconds = interval_ms / 1000 + _LATE_SECONDS
        changed = 0 if change is None else mutations.changed(call, change, response)
        return self._accounted(slot, call, response, changed)

    def _accounted(
        self, slot: _Slot, call: Call, response: Any, changed: int = 0
    ) -> Sequence[Buffer]:
        """Return the body of an answer, which specifies how long the client must wait because of its quota use."""
        body = _written(slot.api, call, response)
        if delay := self._spend(slot, call, body, changed):
            return slot.api.write(throttling.told(response, delay), call.version)
        return body

    def _waits_for_quotas(self, api: Api[Any, Any], frame: RequestFrame) -> bool:
        """Whether a request must wait because of earlier quota use. If so, the connection is muted."""
        peer = self._peer_of(frame)
        if not self._connection.may_wait or not throttling.is_counted(peer, api.quota):
            return False
        now = asyncio.get_running_loop().time()
        delay = throttling.owed(self._context.quotas, peer, api.quota, now)
        self._mute(delay)
        return delay > 0

    def _mute(self, delay: float) -> None:
        """Serve no requests for a while. Afterwards, the remaining wait is computed again, since shares change."""
        if delay:
            self._connection.mute(min(delay, LONGEST_SECONDS))

    def _count_rest(
        self, peer: Peer, timed: Timed, _task: asyncio.Task[None] | None = None
    ) -> None:
        """Count the time that a request took after its use was counted for the answer."""
        now = asyncio.get_running_loop().time()
        throttling.spend_seconds(self._context.quotas, peer, timed.take_rest(), now)

    async def _refused_change(
        self, change: mutations.Change, call: Call, request: Any
    ) -> Sequence[Buffer] | None:
        """Return the answer to a topic change that a quota forbids, or None if the change is allowed."""
        now = asyncio.get_running_loop().time()
        delay = mutations.owed(self._context.quotas, call.peer, now)
        if not delay or call.version < change.mutation.first_strict:
            return None
        self._context.metrics.requests_throttled += 1
        response = await mutations.refusal(call, change, request)
        self._mute(delay)
        return _written(change.api, call, throttling.told(response, delay))

    def _spend(self, slot: _Slot, call: Call, body: Sequence[Buffer], changed: int = 0) -> float:
        """Count a request's quota use and `changed` partitions, and return how long its client must wait."""
        if slot.timed is None:
            return 0.0
        quotas, peer, now = self._context.quotas, call.peer, asyncio.get_running_loop().time()
        delay = max(
            throttling.spend_seconds(quotas, peer, slot.timed.take(), now),
            throttling.spend_bytes(quotas, peer, slot.api.quota, slot.size, body, now),
            mutations.spend(quotas, peer, changed, now),
        )
        self._context.metrics.requests_throttled += delay > 0
        self._mute(delay)
        return delay

    async def _take_token(self, api: Api[Any, Any], frame: RequestFrame) -> Sequence[Buffer] | None:
        """Process a client's token without a header. Return the response, or None if the connection ends."""
        request = SaslAuthenticateRequest(bytes(frame.body))
        response = await api.handle(Call(self._context, self.peer, 0), request)
        assert response is not None
        return None if response.error_code else (response.auth_bytes,)

    def _sent_away(self, api: Api[Any, Any], call: Call, request: Any) -> Any:
        """Return the answer that sends the client to another agent, or None if the request is served here."""
        if not api.moved:
            return None
        try:
            answer = api.refuse(call, request, api.moved)
        except MalformedRequest:
            return None  # no client waits for an answer (acks=0)
        self.asks_coordinator = False
        return answer

    def _peer_of(self, frame: RequestFrame) -> Peer:
        if frame.client_id != self.peer.client_id:
            self.peer = replace(self.peer, client_id=frame.client_id)
        return self.peer


def _not_admitted(session: Authentication, api_key: int) -> FrameError:
    if session.has_expired:
        return FrameError(
            f"{printable(str(session.principal))} had to authenticate again, but sent API "
            f"{api_key} instead"
        )
    return FrameError(
        f"it sent API {api_key} before authenticating: set its security.protocol to "
        f"{session.listener.protocol.value}"
    )


def _written(api: Api[Any, Any], call: Call, response: Any) -> Sequence[Buffer]:
    body = api.write(response, call.version)
    if (errors := api.response.codec.errors) is not None:
        _count_errors(api, call, errors)
    return body


def _count_errors(api: Api[Any, Any], call: Call, errors: Sequence[int]) -> None:
    counts = call.context.metrics.errors
    for code in errors:
        counts[api.key, code] += 1
