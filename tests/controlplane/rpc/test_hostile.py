"""Peers that break the rules of HTTP/2 or of gRPC: they are cut off with a reason, and others are served on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from struct import pack
from typing import cast

import pytest
from hpack import Encoder
from hypothesis import given
from hypothesis import strategies as st

from lacuna.controlplane.rpc import frames
from lacuna.controlplane.rpc.call import WINDOW, Call, CallError
from lacuna.controlplane.rpc.client import ask, begin, connected
from lacuna.controlplane.rpc.frames import Code, Kind, Setting, head
from lacuna.controlplane.rpc.link import Link
from lacuna.controlplane.rpc.server import RpcLimits, RpcServer
from tests.controlplane.rpc.test_interop import ECHO, echo

OPENING = frames.PREFACE + frames.settings({})
ASKED = Encoder().encode(
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", ECHO),
        ("content-type", "application/grpc"),
    ]
)
CALL = head(len(ASKED), Kind.HEADERS, frames.END_HEADERS, 1) + ASKED


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = RpcServer({ECHO: echo}, RpcLimits(max_message=1 << 20))
    yield await server.start("127.0.0.1:0")
    await server.stop(0.0)


async def goaway_of(address: str, sent: bytes) -> tuple[int, str]:
    """Sends bytes, and returns the code and the reason with which the server ends the connection."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    found = (-1, "")
    async with asyncio.timeout(60):
        while len(start := await reader.read(frames.HEAD_SIZE)) == frames.HEAD_SIZE:
            size, kind, _, _ = frames.read_head(start, 0)
            payload = await reader.readexactly(size)
            if kind == Kind.GOAWAY:
                found = frames.read_u32(payload, 4), payload[8:].decode()
    writer.close()
    return found


BROKEN = {
    "no HTTP/2": (b"GET / HTTP/1.1\r\n\r\n", Code.PROTOCOL_ERROR),
    "a frame that is too large": (
        OPENING + head((1 << 20) + 1, Kind.DATA, 0, 1),
        Code.FRAME_SIZE_ERROR,
    ),
    "data on an idle stream": (OPENING + head(0, Kind.DATA, 0, 1), Code.PROTOCOL_ERROR),
    "data on stream 0": (OPENING + head(0, Kind.DATA, 0, 0), Code.PROTOCOL_ERROR),
    "a stream that only a server may open": (
        OPENING + head(len(ASKED), Kind.HEADERS, frames.END_HEADERS, 2) + ASKED,
        Code.PROTOCOL_ERROR,
    ),
    "headers that are none": (
        OPENING + head(3, Kind.HEADERS, frames.END_HEADERS, 1) + b"\xff\xff\xff",
        Code.COMPRESSION_ERROR,
    ),
    "headers without an end": (
        OPENING
        + head(0, Kind.HEADERS, 0, 1)
        + (head(16_000, Kind.CONTINUATION, 0, 1) + bytes(16_000)) * 5,
        Code.ENHANCE_YOUR_CALM,
    ),
    "a frame between headers": (
        OPENING + head(0, Kind.HEADERS, 0, 1) + head(8, Kind.PING, 0, 0) + bytes(8),
        Code.PROTOCOL_ERROR,
    ),
    "a continuation of nothing": (OPENING + head(0, Kind.CONTINUATION, 0, 1), Code.PROTOCOL_ERROR),
    "a push": (OPENING + head(4, Kind.PUSH_PROMISE, 0, 1) + bytes(4), Code.PROTOCOL_ERROR),
    "a window that grows by nothing": (
        OPENING + head(4, Kind.WINDOW_UPDATE, 0, 0) + bytes(4),
        Code.PROTOCOL_ERROR,
    ),
    "a window that is too large": (
        OPENING + frames.window_update(0, frames.MAX_WINDOW),
        Code.FLOW_CONTROL_ERROR,
    ),
    "an initial window that is too large": (
        OPENING + frames.settings({Setting.INITIAL_WINDOW_SIZE: 1 << 31}),
        Code.FLOW_CONTROL_ERROR,
    ),
    "frames of no size": (
        OPENING + frames.settings({Setting.MAX_FRAME_SIZE: 1}),
        Code.PROTOCOL_ERROR,
    ),
    "settings of an odd size": (
        OPENING + head(5, Kind.SETTINGS, 0, 0) + bytes(5),
        Code.FRAME_SIZE_ERROR,
    ),
    "a ping of an odd size": (OPENING + head(1, Kind.PING, 0, 0) + b"p", Code.FRAME_SIZE_ERROR),
    "a reset that is too short": (
        OPENING + CALL + head(1, Kind.RST_STREAM, 0, 1) + b"r",
        Code.FRAME_SIZE_ERROR,
    ),
    "more padding than bytes": (
        OPENING + CALL + head(1, Kind.DATA, frames.PADDED, 1) + b"\x05",
        Code.PROTOCOL_ERROR,
    ),
    "more than the window": (
        OPENING
        + CALL
        + b"".join(
            head(1 << 20, Kind.DATA, 0, 1) + pack(">BI", 0, (1 << 20) - 5) + bytes((1 << 20) - 5)
            for _ in range(WINDOW // (1 << 20))
        )
        + head(1, Kind.DATA, 0, 1)
        + b"1",
        Code.FLOW_CONTROL_ERROR,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_the_connection_ends_with_a_reason(address: str, name: str) -> None:
    sent, code = BROKEN[name]
    found, why = await goaway_of(address, sent)
    assert found == code
    assert why
    assert await ask(address, ECHO, b"others", 60.0) == b"others"


async def test_unknown_frames_and_settings_are_ignored(address: str) -> None:
    async with connected(address, ping_after=60.0) as link:
        link._write(
            head(3, 99, 0xFF, 0) + b"abc" + head(6, Kind.SETTINGS, 0, 0) + pack(">HI", 99, 1)
        )
        link._write(head(5, Kind.PRIORITY, 0, 7) + bytes(5))
        call = begin(link, ECHO, address)
        await call.write(b"fine")
        assert await call.read() == b"fine"


async def test_bytes_may_come_one_by_one() -> None:
    calls: list[Call] = []
    link = Link(max_message=1_000, ping_after=60, on_call=lambda call, _: calls.append(call))
    link.connection_made(cast(asyncio.Transport, Wire()))
    sent = OPENING + CALL + head(8, Kind.DATA, frames.END_STREAM, 1) + pack(">BI", 0, 3) + b"abc"
    for byte in sent:
        link.data_received(bytes([byte]))
    assert await calls[0].read() == b"abc"
    assert await calls[0].read() is None
    link.connection_lost(None)


async def test_a_writer_that_waits_hears_that_its_call_was_cancelled() -> None:
    link = Link(max_message=1_000, ping_after=60)
    link.connection_made(cast(asyncio.Transport, Wire()))
    call = link.open(ECHO, "localhost")
    writing = asyncio.create_task(call.write(bytes(frames.DEFAULT_WINDOW)))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(CallError, match="cancelled"):
        await writing
    link.connection_lost(None)


async def test_a_peer_that_falls_silent_is_given_up() -> None:
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def sleep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gone
        writer.close()

    listener = await asyncio.start_server(sleep, "127.0.0.1", 0)
    address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with connected(address, ping_after=0.05) as link:
        with pytest.raises(CallError, match="was silent for"):
            await begin(link, ECHO, address).read()
    gone.set_result(None)
    listener.close()


class Wire(asyncio.Transport):
    """A transport that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.unsent = 0
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return self.unsent


async def test_pings_that_nobody_reads_the_answers_of_end_the_connection() -> None:
    link, wire = Link(max_message=1_000, ping_after=60, on_call=lambda *_: None), Wire()
    link.connection_made(cast(asyncio.Transport, wire))
    link.data_received(OPENING)
    ping = head(8, Kind.PING, 0, 0) + bytes(8)
    link.data_received(ping * 5_000)
    assert not wire.is_closing()
    wire.unsent = 1
    link.data_received(ping * 5_000)
    assert wire.is_closing()
    assert b"does not read" in wire.sent
    link.connection_lost(None)


async def test_a_connection_that_is_made_while_the_server_stops_is_closed() -> None:
    """It was accepted before, and its transport tells the protocol a moment later."""
    server, wire = RpcServer({ECHO: echo}, RpcLimits()), Wire()
    await server.start("127.0.0.1:0")
    link = server._accept()
    await server.stop(0.0)
    link.connection_made(cast(asyncio.Transport, wire))
    assert wire.is_closing()
    link.connection_lost(None)


FRAME = st.builds(
    lambda kind, flags, stream, payload: head(len(payload), kind, flags, stream) + payload,
    st.integers(0, 12),
    st.integers(0, 255),
    st.integers(0, 6),
    st.one_of(st.binary(max_size=40), st.just(ASKED), st.just(pack(">BI", 0, 3) + b"abc")),
)


@given(
    sent=st.lists(st.one_of(FRAME, st.just(CALL), st.binary(max_size=20)), max_size=12),
    cuts=st.lists(st.integers(1, 60), max_size=20),
    is_server=st.booleans(),
)
async def test_any_bytes_are_taken_or_end_the_connection(
    sent: list[bytes], cuts: list[int], is_server: bool
) -> None:
    """Whatever comes, and however it is cut: nothing is raised, and no call is left that hears nothing."""
    calls: list[Call] = []
    link = Link(
        max_message=1_000,
        ping_after=60,
        on_call=(lambda call, _: calls.append(call)) if is_server else None,
    )
    wire = Wire()
    link.connection_made(cast(asyncio.Transport, wire))
    if not is_server:
        calls.append(link.open(ECHO, "localhost"))
    data = (frames.PREFACE if is_server else b"") + b"".join(sent)
    for cut in cuts:
        link.data_received(data[:cut])
        data = data[cut:]
    link.data_received(data)
    link.connection_lost(None)
    for call in calls:
        async with asyncio.timeout(60):
            with suppress(CallError):
                while await call.read() is not None:
                    pass
