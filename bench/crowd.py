"""Many idle clients, and clients that stop in the middle of a request, next to one that works."""

import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Self

from bench import BenchError
from bench.figures import Row
from bench.latency import RATE, measure_latency
from bench.rounds import Bench, Measured
from bench.target import Target

FRAME_BYTES = 64 * 1024
ANSWER_SECONDS = 60.0
#: ApiVersions v0 with an empty client id, which any server answers.
QUESTION = struct.pack(">ihhih", 10, 18, 0, 7, 0)
METADATA_V1 = 3, 1
OTHER_FILES = 512


class Crowd:
    """A context manager with `idle` connections that sent one request, and `halves` that sent half of a 64 KiB request.

    Raises BenchError if this process may not open that many sockets.
    """

    def __init__(self, bootstrap: str, idle: int, halves: int) -> None:
        host, _, port = bootstrap.split(",")[0].rpartition(":")
        self._address = host, int(port)
        self._counts = idle, halves
        self._stack = ExitStack()
        self.idle: list[socket.socket] = []
        self.halves: list[socket.socket] = []

    def __enter__(self) -> Self:
        idle, halves = self._counts
        _allow_files(idle + halves + OTHER_FILES)
        with ExitStack() as stack:
            for _ in range(idle):
                self.idle.append(stack.enter_context(self._connect()))
                ask(self.idle[-1])
            header = struct.pack(">ihhih", FRAME_BYTES, *METADATA_V1, 1, 0)
            for _ in range(halves):
                self.halves.append(stack.enter_context(self._connect()))
                self.halves[-1].sendall(header + bytes(FRAME_BYTES // 2 - len(header)))
            self._stack = stack.pop_all()
        return self

    def _connect(self) -> socket.socket:
        return socket.create_connection(self._address, ANSWER_SECONDS)

    def __exit__(self, *exception: object) -> None:
        self._stack.close()


def ask(connection: socket.socket) -> None:
    """Sends an ApiVersions request and reads its answer. Raises BenchError if the connection was closed."""
    connection.sendall(QUESTION)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = connection.recv(size - len(received))
        if not more:
            raise BenchError("the server closed a connection that it should have kept")
        received += more
    return received


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise BenchError(
            f"a process may open {hard} files here, but this needs {count}: raise the limit "
            "(ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def work_of(idle: int, halves: int) -> str:
    """The name of the row for these numbers of connections."""
    return f"end to end at {RATE}/s, {idle:,} idle, {halves} with half a request"


def crowd(bench: Bench) -> Iterator[Row]:
    """Yields a row without other clients and one with them. Checks at the end that all are still served."""
    yield from _beside(bench, 0, 0)
    yield from _beside(bench, bench.size.idle_connections, bench.size.half_requests)


def _beside(bench: Bench, idle: int, halves: int) -> list[Row]:
    count = int(bench.size.latency_seconds * RATE)
    with bench.topic_each("crowd") as topics:

        def run(target: Target, measured: Measured) -> None:
            with Crowd(target.bootstrap, idle, halves) as others:
                measure_latency(target, topics[target.label], count, measured)
                for each in others.idle:
                    ask(each)

        return bench.rounds([work_of(idle, halves)], run)
