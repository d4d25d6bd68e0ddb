"""Serves the console in the event loop of its process, which keeps its own signal handlers."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from lacuna.base.addresses import is_loopback, join_address
from lacuna.console.app import make_app
from lacuna.console.doorkeeper import Doorkeeper, Quiet
from lacuna.console.limits import CONNECTIONS, VIEWS
from lacuna.console.sources import Sources, of_others
from lacuna.controlplane.client import ControlPlace, SessionLimits
from lacuna.observing.endpoint import Shown
from lacuna.operating.control import client_of
from lacuna.operating.kafka import Agents

log = logging.getLogger("lacuna")

_HEAD_BYTES: Final = 16 << 10
_IDLE_SECONDS: Final = 30
#: An event stream may wait a second for a Fetch before it notices the end.
_END_SECONDS: Final = 2


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Make `serve` return."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Wait for `end`, and renew the Date header once a second. uvicorn does so ten times a second."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._ending.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield


@asynccontextmanager
async def console_served(
    listener: socket.socket,
    sources: Sources,
    *,
    names: Sequence[str] = (),
    may_write: bool = False,
) -> AsyncIterator[str]:
    """Serves the console on a socket during the block, to which it gives HOST:PORT. Closes the socket.

    `names` are further host names by which browsers may call it. It can change the cluster only if it `may_write`.
    """
    host, port = listener.getsockname()[:2]
    app = make_app(sources, {"localhost", *map(str.lower, names)}, may_write=may_write)
    if app.asks_for_passwords and not is_loopback(host):
        log.warning(
            "the console at %s requires passwords and has no TLS, so anyone that sees the traffic can read them: put a "
            "proxy with TLS before it, or listen on 127.0.0.1",
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
    shown: Shown | None = None,
) -> AsyncIterator[str]:
    """Serves as `console_served` does, for control planes at a place and agents in other processes."""
    async with client_of(place, SessionLimits(max_partitions=VIEWS)) as client:
        sources = of_others(client, place, agents, shown)
        async with console_served(listener, sources, names=names, may_write=may_write) as served:
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
        limit_concurrency=CONNECTIONS + 1,  # so that the doorkeeper's bound comes first
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_END_SECONDS,
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )
