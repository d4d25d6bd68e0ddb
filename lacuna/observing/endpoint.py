"""Serves a process's health checks and metrics over HTTP.

GET /healthz   200 while the process answers
GET /readyz    200 while the process can serve; otherwise 503 with the reason
GET /metrics   metrics as Prometheus text, or OpenMetrics if the client accepts it
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from lacuna.base.addresses import parse_address
from lacuna.base.errors import ListenError, advice_on
from lacuna.observing.families import Families, render
from lacuna.observing.siblings import Siblings

_MOST_CONNECTIONS: Final = 32
_MOST_BYTES: Final = 8192
_SECONDS: Final = 5.0
_REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Unavailable"}
_TEXT: Final = "text/plain; charset=utf-8"


class Observed:
    """What a process reports: why it is not ready (or ""), and its metrics."""

    def __init__(self, why_not: str) -> None:
        """Until `becomes` is called, the process is not ready, for the reason `why_not`."""
        self._why_not: Callable[[], str] = lambda: why_not
        self._adders: list[Callable[[Families], Awaitable[None]]] = []

    def becomes(self, why_not: Callable[[], str]) -> None:
        """From now on, call `why_not` to determine whether the process is ready."""
        self._why_not = why_not

    def shows(self, add: Callable[[Families], Awaitable[None]]) -> None:
        """Call `add` whenever metrics are requested. If there are many metrics, `add` must let other tasks run in
        between.
        """
        self._adders.append(add)

    def why_not(self) -> str:
        return self._why_not()

    async def families(self) -> Families:
        families = Families()
        for add in self._adders:
            await add(families)
        return families


class Shown:
    """What requests return: a process's own health, and its metrics together with those of any sibling processes."""

    def __init__(self, observed: Observed, siblings: Siblings | None = None) -> None:
        self.observed = observed
        self.siblings = siblings

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics as text, and its content type, which depends on the Accept header `accept`.

        The event loop only reads the numbers. If there are many, a thread does the rest.
        """
        families = await self.observed.families()
        texts = {} if self.siblings is None else await self.siblings.texts()

        def make() -> tuple[bytes, str]:
            metrics = families.collect()
            if self.siblings is not None:
                metrics = self.siblings.merged(metrics, texts)
            return render(metrics, accept)

        return await asyncio.to_thread(make)


class Endpoint:
    """Answers one request per connection, and closes any connection beyond 32 concurrent ones."""

    def __init__(self, observed: Observed, siblings: Siblings | None = None) -> None:
        """With `siblings`, several workers share the port, and each returns the metrics of all of them."""
        self._shown = Shown(observed, siblings)
        self._servers: list[asyncio.Server] = []
        self._open = 0
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen on `host:port`. Port 0 means any free port, which is then available as `port`. Raises OSError.

        If workers share a port, each request reports the readiness of the worker that receives it.
        """
        server = await asyncio.start_server(
            self._serve,
            host,
            port,
            limit=_MOST_BYTES,
            reuse_port=self._shown.siblings is not None or None,
        )
        self._servers.append(server)
        self.port = int(server.sockets[0].getsockname()[1])

    async def start_on_socket(self, path: Path) -> None:
        self._servers.append(
            await asyncio.start_unix_server(self._serve, str(path), limit=_MOST_BYTES)
        )

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _MOST_CONNECTIONS:
                async with asyncio.timeout(_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(await self._answer(head))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has left, is too slow or does not speak HTTP, so it gets no answer
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        line, _, headers = head.partition(b"\r\n")
        method, _, rest = line.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, b"only GET is supported\n")
        has_body = method == b"GET"
        if path == b"/healthz":
            return _response(200, b"ok\n", has_body=has_body)
        if path == b"/readyz":
            why_not = self._shown.observed.why_not()
            return _response(
                503 if why_not else 200, f"{why_not or 'ok'}\n".encode(), has_body=has_body
            )
        if path == b"/metrics":
            text, content_type = await self._shown.metrics(_accepted(headers))
            return _response(200, text, content_type, has_body=has_body)
        return _response(404, b"not found: use /healthz, /readyz or /metrics\n", has_body=has_body)


def _accepted(headers: bytes) -> str:
    for line in headers.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"accept":
            return value.decode("latin-1").strip()
    return ""


def _response(code: int, body: bytes, content_type: str = _TEXT, *, has_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if has_body else b"")


@asynccontextmanager
async def endpoint_served(
    address: str, observed: Observed, siblings: Siblings | None = None
) -> AsyncIterator[None]:
    """While the body runs, serve metrics and health to `siblings` and, unless `address` is empty, at that HOST:PORT.

    Raises UserError if the address is malformed, and ListenError if the process cannot listen on it.
    """
    endpoints: list[Endpoint] = []
    try:
        if siblings is not None:
            endpoints.append(Endpoint(observed))
            await endpoints[-1].start_on_socket(siblings.socket)
        if address:
            host, port = parse_address(address)
            endpoints.append(Endpoint(observed, siblings))
            try:
                await endpoints[-1].start(host, port)
            except OSError as error:
                has_reason = error.errno is not None and error.errno > 0
                reason = os.strerror(error.errno) if has_reason and error.errno else str(error)
                raise ListenError(
                    f"cannot listen on {address}: {reason}; "
                    f"{advice_on(error, 'choose another address with --health')}"
                ) from error
        yield
    finally:
        for endpoint in endpoints:
            await endpoint.stop()
