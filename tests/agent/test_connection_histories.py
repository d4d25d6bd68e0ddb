"""Any history of a connection: answers in order, bounds kept, no answer lost or repeated.

The transport is a fake, because no socket produces these cuts, pauses and disconnections on demand. Everything else is
real.
"""

import asyncio
import struct
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.agent.client_connection import ClientConnection
from lacuna.agent.security.listeners import Listener
from lacuna.agent.server import AgentServer
from tests.agent.doors import PIPELINED, SEQUENTIAL, WAITING, Doors, frame, setup
from tests.agent.harness import make_server

BOUND, AGENT_BYTES = 3, 1024
PADDING = "-" * 200  # so that the agent's bound is reached too
KEYS = {"p": PIPELINED, "s": SEQUENTIAL, "w": WAITING}


class FakeTransport:
    """The part of a transport that a connection uses. `lost` comes an iteration later, as from a real one."""

    def __init__(self) -> None:
        self.connection: Any = None
        self.written = b""
        self.is_reading = True
        self.is_closing = False
        self.is_lost = False

    def get_extra_info(self, name: str) -> Any:
        assert name == "peername"
        return ("127.0.0.1", 1)

    def set_write_buffer_limits(self, high: int) -> None:
        assert high

    def writelines(self, buffers: list[bytes]) -> None:
        assert not self.is_closing
        self.written += b"".join(buffers)

    def pause_reading(self) -> None:
        assert self.is_reading
        assert not self.is_closing
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        assert not self.is_closing
        self.is_reading = True

    def close(self) -> None:
        if not self.is_closing:
            self.is_closing = True
            asyncio.get_running_loop().call_soon(self.lose)

    abort = close

    def lose(self) -> None:
        self.is_closing = True
        if not self.is_lost:
            self.is_lost = True
            self.connection.connection_lost(None)


class Session:
    """One connection, the bytes that its client has sent, and the answers it has received."""

    def __init__(self, server: AgentServer, doors: Doors, kinds: str, label: str) -> None:
        self.doors = doors
        self.names = [f"{kind}{label}{i}".ljust(60, "-") for i, kind in enumerate(kinds)]
        self.unsent = b"".join(
            frame(KEYS[kind], name + PADDING, i)
            for i, (name, kind) in enumerate(zip(self.names, kinds, strict=True))
        )
        self.size = len(self.unsent)
        self.frame_size = self.size // len(kinds)
        self.budget = server.budget
        self.has_left = self.was_aborted = False
        self.transport = FakeTransport()
        self.connection = self.transport.connection = ClientConnection(server, Listener())
        self.connection.connection_made(cast(asyncio.Transport, self.transport))

    def send(self, count: int) -> None:
        """Deliver bytes as a loop does, which delivers none while reading is paused."""
        if self.transport.is_reading and not self.transport.is_closing and self.unsent:
            buffer = self.connection.get_buffer(-1)
            part = self.unsent[: min(count, len(buffer))]
            buffer[: len(part)] = part
            self.unsent = self.unsent[len(part) :]
            self.connection.buffer_updated(len(part))
            self.check_bounds()

    def check_bounds(self) -> None:
        """Check after each delivery that reading continues only within the bounds."""
        sent = self.size - len(self.unsent)
        whole, rest = divmod(sent, self.frame_size)
        ended = self.ended()
        released = len(list(takewhile(lambda name: name in ended, self.names)))
        if self.transport.is_reading:
            assert whole - released < BOUND
            assert rest >= 4 or not self.budget.is_full

    def started(self) -> list[str]:
        return [name for name in self.doors.started if name in self.names]

    def ended(self) -> list[str]:
        return [name for name in self.doors.ended if name in self.names]

    def answers(self) -> list[tuple[int, str]]:
        return list(_frames(self.transport.written))

    def check(self) -> None:
        """Check the conditions that always hold."""
        answered, started = self.answers(), self.started()
        assert answered == [(i, self.names[i] + "!") for i in range(len(answered))]
        assert started == self.names[: len(started)]
        assert len(answered) <= len(self.ended()) <= len(started)
        running = [name for name in started if name not in self.ended()]
        assert len(running) <= 1 or all(name.startswith("p") for name in running)


def _frames(data: bytes) -> Iterator[tuple[int, str]]:
    while data:
        size, number = struct.unpack_from(">ii", data)
        yield number, data[8 : size + 4].decode()
        data = data[size + 4 :]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 700)),
        st.just(("send", 700)),
        st.tuples(st.just("open"), st.integers(0, 9)),
        st.sampled_from([("turn", 0), ("pause", 0), ("resume", 0)]),
        st.sampled_from([("leave", 0), ("abort", 0), ("stop", 0), *[("turn", 0)] * 6]),
    ),
    min_size=10,
    max_size=60,
)


async def _play(kinds: list[str], steps: list[tuple[int, tuple[str, int]]]) -> None:
    doors, context = setup(max_in_flight_requests=BOUND, max_agent_bytes=AGENT_BYTES)
    server = make_server(context, doors.registry())
    sessions = [Session(server, doors, each, "ab"[i]) for i, each in enumerate(kinds)]
    stopping: asyncio.Task[None] | None = None
    for who, (verb, number) in steps:
        session = sessions[who]
        if verb == "stop" and stopping is None:
            stopping = asyncio.create_task(server.stop())
        elif verb == "turn":
            await asyncio.sleep(0)
        else:
            _do(session, verb, number)
        for each in sessions:
            each.check()
    await _to_the_end(doors, sessions)
    for each in sessions:
        _check_end(each, stopping is not None)
        each.transport.lose()
    await asyncio.wait_for(stopping or server.stop(), 60)
    assert (server.budget.taken, context.metrics.request_bytes_now) == (0, 0)
    assert context.metrics.connections_now == 0


def _do(session: Session, verb: str, number: int) -> None:
    if session.transport.is_lost and verb != "open":
        return
    match verb:
        case "send":
            session.send(number)
        case "open":
            session.doors.door(session.names[number % len(session.names)]).set()
        case "pause":
            session.connection.pause_writing()
        case "resume":
            session.connection.resume_writing()
        case "leave":
            session.has_left = not session.transport.is_closing
            session.transport.lose()
        case "abort":
            session.was_aborted = True
            session.connection.abort()


async def _to_the_end(doors: Doors, sessions: list[Session]) -> None:
    """Open all doors, let every client read its answers, and send the rest."""
    for session in sessions:
        for name in session.names:
            doors.door(name).set()
    for _ in range(60):
        for session in sessions:
            if not session.transport.is_lost:
                session.connection.resume_writing()
                session.send(1000)
            session.check()
        await asyncio.sleep(0)


def _check_end(session: Session, is_stopping: bool) -> None:
    assert (session.started() and not session.unsent) or session.transport.is_lost
    assert sorted(session.ended()) == sorted(session.started())
    if not (session.has_left or session.was_aborted):
        assert len(session.answers()) == len(session.started())
        assert is_stopping or len(session.answers()) == len(session.names)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    kinds=st.lists(
        st.text(st.sampled_from("ppppsw"), min_size=5, max_size=12), min_size=2, max_size=2
    ),
    steps=STEPS.flatmap(
        lambda steps: st.lists(st.integers(0, 1), min_size=len(steps), max_size=len(steps)).map(
            lambda who: list(zip(who, steps, strict=True))
        )
    ),
)
def test_any_history(kinds: list[str], steps: list[tuple[int, tuple[str, int]]]) -> None:
    """Bytes in any cuts, handlers that end in any order, pauses, disconnections, an abort, a shutdown."""
    asyncio.run(_play(kinds, steps))
