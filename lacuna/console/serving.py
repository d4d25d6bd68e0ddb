"""Serves the console in its process's event loop, without replacing signal handlers.

Adds limits that uvicorn lacks: the head of a request must arrive before a deadline, and the number of connections is
limited, both per address and in total. A connection beyond the limit replaces the one that has been idle for longest,
so incomplete heads and idle connections cannot block others.
"""

import asyncio
import itertools
import logging
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from lacuna.base.addresses import is_loopback, join_address
from lacuna.console import limits
from lacuna.console.app import make_app
from lacuna.console.decoding import Decoding
from lacuna.console.sources import Sources, of_others
from lacuna.controlplane.client import ControlPlace, SessionLimits
from lacuna.controlplane.shared.complaints import Complaints
from lacuna.observing.endpoint import Shown
from lacuna.operating.control import client_of
from lacuna.operating.kafka import Agents

log = logging.getLogger("lacuna")

_HEAD_BYTES: Final = 16 << 10
_IDLE_SECONDS: Final = 30
#: An event stream may wait a second for a Fetch before it notices that the server is stopping.
_END_SECONDS: Final = 2
_numbers: Final = itertools.count(1)


class Doorkeeper(H11Protocol):
    """A connection with a deadline for the head of each request."""

    #: Closes the connection if the head of a request does not arrive; None during a request.
    _due: asyncio.TimerHandle | None = None
    #: The sequence number of the client's last data, counted over all connections.
    _last_heard = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline for a request, and close another connection if there are too many."""
        super().connection_made(transport)
        self._last_heard = next(_numbers)
        self._await_head()
        others = [each for each in self.connections if isinstance(each, Doorkeeper)]
        of_address = [each for each in others if each._address == self._address]
        if len(of_address) > limits.CONNECTIONS_OF_ADDRESS:
            _close_one(of_address)
        elif len(others) > limits.CONNECTIONS:
            _close_one(others)

    def data_received(self, data: bytes) -> None:
        """Start the deadline for the next head between requests, and stop it during a request."""
        self._last_heard = next(_numbers)
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _address(self) -> str:
        return "" if self.client is None else self.client[0]

    def _await_head(self) -> None:
        if self._due is None:
            self._due = self.loop.call_later(limits.HEAD_SECONDS, self._close)

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _close(self) -> None:
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()


def _close_one(connections: Iterable[Doorkeeper]) -> None:
    """Close the connection that has been idle for longest. There is always one: the newest has sent nothing yet."""
    idle = (each for each in connections if not each.is_busy)
    min(idle, key=lambda each: each._last_heard)._close()


class Quiet(logging.Filter):
    """Limits uvicorn's messages about requests to one per minute, because any client can cause many."""

    def __init__(self) -> None:
        super().__init__()
        self._complaints = Complaints()

    def filter(self, record: logging.LogRecord) -> bool:
        return self._complaints.is_new("", record.getMessage(), record.created)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Wait for `end`, and update the Date header once a second, instead of ten times as uvicorn does."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._ending.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signal handling to the process."""
        yield


@asynccontextmanager
async def console_served(
    listener: socket.socket,
    sources: Sources,
    *,
    names: Sequence[str] = (),
    may_write: bool = False,
    decoding: Decoding | None = None,
) -> AsyncIterator[str]:
    """Serves the console on a socket during the block, and then closes the socket. Yields HOST:PORT.

    `names` are additional host names that browsers may use; `decoding` decodes keys and values. The console is
    read-only unless `may_write`.
    """
    host, port = listener.getsockname()[:2]
    app = make_app(
        sources, {"localhost", *map(str.lower, names)}, may_write=may_write, decoding=decoding
    )
    if app.asks_for_passwords and not is_loopback(host):
        log.warning(
            "the console at %s requires passwords but does not use TLS, so anyone who sees the traffic "
            "can read them: put a proxy with TLS in front of it, or listen on 127.0.0.1",
            join_address(host, port),
        )
    server = _Server(_config(app.answers))
    quiet, logger = Quiet(), logging.getLogger("uvicorn.error")
    logger.addFilter(quiet)
    serving = asyncio.create_task(server.serve([listener]), name="console")
    lines = asyncio.create_task(app.history.run(), name="lines of the console")
    try:
        yield join_address(host, port)
    finally:
        lines.cancel()
        app.streams.end()
        server.end()
        await serving
        with suppress(asyncio.CancelledError):
            await lines
        logger.removeFilter(quiet)


@asynccontextmanager
async def console_of_others(
    listener: socket.socket,
    place: ControlPlace,
    agents: Agents,
    *,
    names: Sequence[str],
    may_write: bool,
    decoding: Decoding | None = None,
    shown: Shown | None = None,
) -> AsyncIterator[str]:
    """Like `console_served`, for control planes and agents in other processes."""
    async with client_of(place, SessionLimits(max_partitions=limits.VIEWS)) as client:
        sources = of_others(client, place, agents, shown)
        async with console_served(
            listener, sources, names=names, may_write=may_write, decoding=decoding
        ) as served:
            yield served


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Doorkeeper,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.CONNECTIONS + 1,  # the doorkeeper's limit comes first
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_END_SECONDS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )
