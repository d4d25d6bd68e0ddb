"""An active client next to many idle ones, and to some that stop in the middle of a request."""

import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench import BenchError
from bench.fetches import receive
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


@contextmanager
def crowd_at(
    bootstrap: str, idle: int, halves: int
) -> Iterator[tuple[list[socket.socket], list[socket.socket]]]:
    """Opens `idle` connections that have sent one request, and `halves` that have sent half of a 64 KiB request.

    Yields both lists. Raises BenchError if this process is not allowed to open enough sockets.
    """
    _allow_files(idle + halves + OTHER_FILES)
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    header = struct.pack(">ihhih", FRAME_BYTES, *METADATA_V1, 1, 0)
    half = header + bytes(FRAME_BYTES // 2 - len(header))
    made: list[socket.socket] = []
    with ExitStack() as stack:
        # Each connection is used before the next one is opened, because a server's queue for new connections may be
        # short.
        for number in range(idle + halves):
            connection = socket.create_connection((host, int(port)), ANSWER_SECONDS)
            made.append(stack.enter_context(connection))
            if number < idle:
                ask(connection)
            else:
                connection.sendall(half)
        yield made[:idle], made[idle:]


def ask(connection: socket.socket) -> None:
    """Sends an ApiVersions request and reads the response. Raises BenchError if the connection is closed."""
    connection.sendall(QUESTION)
    (size,) = struct.unpack(">i", receive(connection, 4))
    receive(connection, size)


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise BenchError(
            f"the limit on open files is {hard}, but this benchmark needs {count}: raise the limit (ulimit -n)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def work_of(idle: int, halves: int) -> str:
    return f"end to end at {RATE}/s, {idle:,} idle, {halves} with half a request"


def crowd(bench: Bench) -> Iterator[Row]:
    """Yields one row with the other clients and one without them, and checks at the end that all clients are still
    served.
    """
    yield from _beside(bench, 0, 0)
    yield from _beside(bench, bench.size.idle_connections, bench.size.half_requests)


def _beside(bench: Bench, idle: int, halves: int) -> list[Row]:
    count = int(bench.size.latency_seconds * RATE)
    with bench.topic_each("crowd") as topics:

        def run(target: Target, measured: Measured) -> None:
            with crowd_at(target.bootstrap, idle, halves) as (others, _):
                measure_latency(target, topics[target.label], count, measured)
                for each in others:
                    ask(each)

        return bench.rounds([work_of(idle, halves)], run)
