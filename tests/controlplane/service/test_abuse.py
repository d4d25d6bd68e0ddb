"""Tests that clients that abuse HTTP/2 cannot take CPU time or memory needed by others."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from struct import pack
from typing import Any, Final

import grpc
import pytest

from lacuna.controlplane import listening
from lacuna.controlplane.shared.contract import SESSION_METHOD, STATUS_METHOD
from lacuna.controlplane.v1.control_pb2 import ControlPlaneStatus, StatusRequest
from tests.controlplane.service.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    Http2,
    frame,
    headers_of,
)

_AT_ONCE: Final = 500
#: For one flood, and for each question that is answered meanwhile. gRPC's core needs a tenth of it; where Python takes
#: each frame, a flood takes ten times as much.
CPU_SECONDS: Final = 2.0
CPU_SECONDS_AN_ANSWER: Final = 0.02
MIB: Final = 1 << 20
#: What threads, arenas and the answers to others may take beside.
SPARE: Final = 96 * MIB


@dataclass(frozen=True, slots=True)
class Plane:
    """A control plane in its own process."""

    address: str
    pid: int

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGESIZE"
        )

    def answers(self, times: int = 1) -> None:
        """Return once it has answered this many queries from another client."""
        with grpc.insecure_channel(self.address) as channel:
            ask: Any = channel.unary_unary(STATUS_METHOD)  # type: ignore[call-arg]
            for _ in range(times):
                answer = ask(StatusRequest().SerializeToString(), timeout=60)
                assert ControlPlaneStatus.FromString(answer).is_leader


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    data = tmp_path_factory.mktemp("data")
    command = [
        sys.executable,
        "-m",
        "lacuna",
        "controlplane",
        "--listen=127.0.0.1:0",
        f"--data={data}",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield Plane(process.stdout.readline().removeprefix("control plane: ").strip(), process.pid)
        process.terminate()
        _, said = process.communicate(timeout=60)
        assert not re.search(r"Traceback|ERROR|\.cc:\d", said), "gRPC's core names its source files"


def rapid_reset(_: Http2) -> Iterator[bytes]:
    call = headers_of(SESSION_METHOD)
    for stream in count(1, 2):
        yield frame(HEADERS, END_HEADERS, stream, call) + frame(
            RST_STREAM, 0, stream, pack(">I", 8)
        )


def settings(_: Http2) -> Iterator[bytes]:
    while True:
        yield frame(SETTINGS, 0, 0)


def pings(_: Http2) -> Iterator[bytes]:
    while True:
        yield frame(PING, 0, 0, bytes(8))


def empty_data(connection: Http2) -> Iterator[bytes]:
    connection.begin(1, SESSION_METHOD)
    while True:
        yield frame(DATA, 0, 1)


def continuations(_: Http2) -> Iterator[bytes]:
    yield frame(HEADERS, 0, 1, headers_of(SESSION_METHOD))
    while True:
        yield frame(CONTINUATION, 0, 1)


#: How many frames are sent of each kind. The core answers each ping by a write, and closes only when it has written.
FLOODS: Final = {
    rapid_reset: 100_000,
    settings: 100_000,
    pings: 5_000,
    empty_data: 100_000,
    continuations: 100_000,
}


def flood(address: str, frames: Callable[[Http2], Iterator[bytes]]) -> None:
    """Send the frames, over a new connection whenever the server closes one."""
    sent = 0
    while sent < FLOODS[frames]:
        connection = Http2(address)
        taking = threading.Thread(target=take_all, args=(connection,))
        taking.start()
        flow = frames(connection)
        with suppress(OSError):
            while sent < FLOODS[frames]:
                sent += _AT_ONCE
                connection.socket.sendall(b"".join(next(flow) for _ in range(_AT_ONCE)))
        connection.shut()
        taking.join()


def take_all(connection: Http2) -> None:
    with suppress(OSError):
        while connection.socket.recv(MIB):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("frames", FLOODS, ids=lambda frames: frames.__name__)
def test_a_flood_costs_others_nothing(
    plane: Plane, frames: Callable[[Http2], Iterator[bytes]]
) -> None:
    plane.answers()
    cpu, resident = plane.cpu_seconds(), plane.resident()
    with ThreadPoolExecutor(1) as pool:
        flooding = pool.submit(flood, plane.address, frames)
        answered = 0
        while not flooding.done():
            plane.answers(10)
            answered += 10
        flooding.result()
    plane.answers()
    assert plane.cpu_seconds() - cpu < CPU_SECONDS + answered * CPU_SECONDS_AN_ANSWER
    assert plane.resident() - resident < SPARE


@pytest.mark.slow
def test_messages_that_never_end_are_bounded_and_let_go(plane: Plane) -> None:
    plane.answers()
    before = plane.resident()
    connection = Http2(plane.address)
    assert connection.max_streams == listening._MAX_CALLS_A_CONNECTION
    size = listening._MAX_MESSAGE
    streams = range(1, 9, 2)
    for stream in streams:
        connection.begin(stream, SESSION_METHOD)
        connection.send(stream, pack(">BI", 0, size) + bytes(size - 1))
    plane.answers()
    assert SPARE < plane.resident() - before < len(streams) * size + SPARE
    connection.shut()
    end = time.monotonic() + 60
    while plane.resident() - before > SPARE:
        assert time.monotonic() < end, f"{(plane.resident() - before) // MIB} MiB are kept"
        plane.answers()


@pytest.mark.slow
async def test_an_old_connection_takes_no_more_calls_and_those_on_it_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(listening._OPTIONS, "grpc.max_connection_age_ms", 200)
    wanted = asyncio.Event()

    async def answer_later(call: listening.Call) -> None:
        await wanted.wait()
        await call.write(StatusRequest())

    server = listening.GrpcServer({STATUS_METHOD: answer_later}, None)
    address = await server.start("127.0.0.1:0")

    def until(connection: Http2, kind: int) -> None:
        while connection.take() != (kind, 0 if kind == GOAWAY else 1):
            pass

    connection = await asyncio.to_thread(Http2, address)
    connection.begin(1, STATUS_METHOD)
    await asyncio.to_thread(until, connection, GOAWAY)
    wanted.set()
    await asyncio.to_thread(until, connection, DATA)
    connection.shut()
    await server.stop(0.0)


@pytest.mark.slow
def test_a_message_that_is_too_large_is_refused_by_its_size(plane: Plane) -> None:
    before = plane.resident()
    connection = Http2(plane.address)
    connection.begin(1, SESSION_METHOD)
    connection.send(1, pack(">BI", 0, listening._MAX_MESSAGE + 1))
    while connection.take() != (RST_STREAM, 1):
        pass
    connection.shut()
    assert plane.resident() - before < SPARE
