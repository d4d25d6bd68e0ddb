"""A proxy that makes an S3 service as slow as one in the cloud, with the same latency tail.

    python -m bench.slow_s3 --listen 127.0.0.1:9000 --to http://127.0.0.1:5000 [--seed N]

A request's time is drawn when it arrives. Times are log-normal, with a separate sequence for each kind of request, so
the same seed and order of requests always give the same times. As in S3, a PUT takes effect near the end of its time:
the proxy forwards a request after nine tenths of its time, and returns the response at the end. If the service needs
longer than the last tenth, so does the request.

The proxy speaks plain HTTP/1.1 with `Content-Length` in requests, as boto3 does.
"""

import argparse
import asyncio
import math
import random
import signal
import sys
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

import uvloop

from bench.counted_s3 import DELETE, GET, LIST, PUT, kind_of
from bench.processes import Process

READY: Final = "slow S3 at "
#: The standard normal distribution's 99th percentile.
_Z99: Final = 2.3263478740408408
_BEFORE: Final = 0.9
_HEAD_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class Latency:
    p50: float
    p99: float

    def draw(self, randomness: random.Random) -> float:
        sigma = math.log(self.p99 / self.p50) / _Z99
        return randomness.lognormvariate(math.log(self.p50), sigma)


LATENCIES: Final = {
    PUT: Latency(0.040, 0.200),
    GET: Latency(0.015, 0.100),
    LIST: Latency(0.040, 0.200),
    DELETE: Latency(0.040, 0.200),
}


class Times:
    def __init__(self, seed: int) -> None:
        self._randomness = {kind: random.Random(f"{seed} {kind}") for kind in LATENCIES}

    def next(self, kind: str) -> float:
        """Returns the next duration for this kind of request, in seconds, or 0 if it is neither a GET nor a PUT."""
        latency = LATENCIES.get(kind)
        return 0.0 if latency is None else latency.draw(self._randomness[kind])


class SlowS3:
    """The proxy in a separate process, as a context manager, at the URL `endpoint`."""

    def __init__(self, to: str, seed: int = 0) -> None:
        self._arguments = ["--listen", "127.0.0.1:0", "--to", to, "--seed", str(seed)]
        self.endpoint = ""

    def __enter__(self) -> Self:
        self._process = Process(self._arguments, READY, "bench.slow_s3")
        self.endpoint = self._process.value
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.stop()

    @property
    def pid(self) -> int:
        return self._process.pid


class Proxy:
    """Forwards requests to `host` and `port`, with one connection to the service for each client connection."""

    def __init__(
        self,
        host: str,
        port: int,
        seconds_of: Callable[[str], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._to = host, port
        self._seconds_of = seconds_of
        self._sleep = sleep

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serves a client's connection until either side closes."""
        try:
            service = await asyncio.open_connection(*self._to, limit=_HEAD_BYTES)
        except OSError:
            writer.close()
            return
        try:
            while await self._exchange((reader, writer), service):
                pass
        except (IncompleteReadError, OSError):
            pass  # one side has closed; the other is closed below
        finally:
            writer.close()
            service[1].close()

    async def _exchange(
        self, client: tuple[StreamReader, StreamWriter], service: tuple[StreamReader, StreamWriter]
    ) -> bool:
        """Forwards a request and its response. Returns whether the connections stay open."""
        head = _Head(await client[0].readuntil(b"\r\n\r\n"))
        method, target, _ = head.first.split(" ", 2)
        began = asyncio.get_running_loop().time()
        seconds = self._seconds_of(kind_of(method, urlsplit(target).query))
        if "expect" in head.fields:
            client[1].write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request = head.data + await client[0].readexactly(int(head.fields.get("content-length", 0)))
        await self._sleep(_BEFORE * seconds)
        service[1].write(request)
        answer = _Head(await service[0].readuntil(b"\r\n\r\n"))
        while answer.status == 100:
            answer = _Head(await service[0].readuntil(b"\r\n\r\n"))
        await self._sleep(began + seconds - asyncio.get_running_loop().time())
        client[1].write(answer.data)
        await _pass_body(method, answer, service[0], client[1])
        return "close" not in (head.fields.get("connection"), answer.fields.get("connection"))


class _Head:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.first, *lines = data.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.fields = {
            name.lower(): value.strip().lower()
            for name, _, value in (line.partition(":") for line in lines)
        }

    @property
    def status(self) -> int:
        return int(self.first.split(" ", 2)[1])


async def _pass_body(
    method: str, answer: _Head, reader: StreamReader, writer: StreamWriter
) -> None:
    if method == "HEAD" or answer.status in (204, 304):
        size = 0
    elif answer.fields.get("transfer-encoding") == "chunked":
        size = await _pass_chunks(reader, writer)
    else:
        size = int(answer.fields["content-length"])
    while size:
        data = await reader.read(min(size, _CHUNK_BYTES))
        if not data:
            raise IncompleteReadError(b"", size)
        writer.write(data)
        size -= len(data)
        await writer.drain()
    await writer.drain()


async def _pass_chunks(reader: StreamReader, writer: StreamWriter) -> int:
    """Forwards all chunks. Returns the number of bytes that follow: 0."""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        writer.write(line + await reader.readexactly(size + 2))
        await writer.drain()
        if not size:
            return 0


async def _run(listen: tuple[str, int], to: tuple[str, int], seed: int) -> None:
    proxy = Proxy(*to, Times(seed).next)
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    server = await asyncio.start_server(proxy.serve, *listen, limit=_HEAD_BYTES, backlog=1024)
    host, port = server.sockets[0].getsockname()
    print(f"{READY}http://{host}:{port}", flush=True)
    await stopped.wait()
    server.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="An S3 service as slow as one in the cloud.")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument(
        "--to",
        required=True,
        metavar="URL",
        help="the S3 service to slow down, as http://HOST:PORT",
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    listen, to = urlsplit(f"//{given.listen}"), urlsplit(given.to)
    if to.scheme != "http" or not to.hostname or not listen.hostname or listen.port is None:
        parser.error("--listen takes HOST:PORT, and --to takes http://HOST:PORT")
    uvloop.run(_run((listen.hostname, listen.port), (to.hostname, to.port or 80), given.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
