"""The listener of one agent process, and the life of its connections.

    server = AgentServer(context)
    await server.start("127.0.0.1", 9092)     # port 0: any; server.port says which
    ...
    await server.stop()                       # what was read is answered, within shutdown_grace_ms

Whoever starts an agent starts its lease after the listener (`context.lease.start(server.port)`), so
that nobody is sent to a port that does not answer yet. At the end: `lease.stop_renewing()`, `stop()`,
let produce write what it holds, `lease.release()`.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agent.budget import ByteBudget
from agent.client_connection import ClientConnection
from agent.connection import SCRATCH_BYTES
from agent.context import AgentContext
from agent.descriptors import room_for_connections

log = logging.getLogger("lacuna.agent")

_BACKLOG = 1024
_MAX_SWEEP_SECONDS = 15.0
T = TypeVar("T")


class AgentServer:
    """Accepts Kafka clients and keeps the bounds that they share. All in one event loop."""

    def __init__(self, context: AgentContext) -> None:
        self.context = context
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.budget = ByteBudget(context.settings.max_agent_bytes)
        self._most = min(context.settings.max_connections, room_for_connections())
        self._is_crowded = False
        self._connections: set[ClientConnection] = set()
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self.host = ""
        self.port = 0

    async def start(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        listener: socket.socket | None = None,
        reuse_port: bool = False,
    ) -> None:
        """Listen on `host`:`port`, or on a socket that is bound already.

        `reuse_port` lets several workers listen on one port. Raises OSError where that is not
        possible.
        """
        loop = asyncio.get_running_loop()
        make: Callable[[], ClientConnection] = lambda: ClientConnection(self)  # noqa: E731
        if listener is not None:
            self._listener = await loop.create_server(make, sock=listener, backlog=_BACKLOG)
        else:
            self._listener = await loop.create_server(
                make, host, port, reuse_port=reuse_port or None, backlog=_BACKLOG
            )
        address = self._listener.sockets[0].getsockname()
        self.host, self.port = str(address[0]), int(address[1])
        self._plan_sweep()

    async def stop(self) -> None:
        """Accept nothing more, answer what was read for at most shutdown_grace_ms, close."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._listener is not None:
            self._listener.close()
        connections = list(self._connections)
        if connections:
            finishing = [asyncio.ensure_future(each.finish()) for each in connections]
            grace = self.context.settings.shutdown_grace_ms / 1000
            _, late = await asyncio.wait(finishing, timeout=grace)
            for task in late:
                task.cancel()
        for connection in list(self._connections):
            connection.abort()
        if self._listener is not None:
            await self._listener.wait_closed()

    def abort(self) -> None:
        """Close everything at once, as a crash would."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._listener is not None:
            self._listener.close()
        self.drop_clients()

    def drop_clients(self) -> None:
        """Close every connection with what was sent on it and not read: clients connect again and repeat it.

        For an agent that has slept past its lease: others have answered meanwhile.
        """
        for connection in list(self._connections):
            connection.abort()

    # What connections ask.

    def admit(self, connection: ClientConnection) -> bool:
        """Count a new connection in. False: there are too many."""
        metrics = self.context.metrics
        if len(self._connections) >= self._most:
            metrics.connections_refused += 1
            if not self._is_crowded:
                self._is_crowded = True
                log.warning("connections are refused: %s", self._why_crowded())
            return False
        self._is_crowded = False
        metrics.connections_accepted += 1
        self._connections.add(connection)
        metrics.connections_now = len(self._connections)
        return True

    def _why_crowded(self) -> str:
        if self._most == self.context.settings.max_connections:
            return f"there are {self._most}, as max.connections says"
        return f"there are {self._most}; raise the limit of open files (ulimit -n) for more"

    def forget(self, connection: ClientConnection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)
        self.context.metrics.connections_now = len(self._connections)

    # Idle connections, and those that keep others waiting.

    def _plan_sweep(self) -> None:
        settings = self.context.settings
        shortest_ms = min(settings.max_idle_ms, settings.max_stall_ms)
        seconds = min(shortest_ms / 4000, _MAX_SWEEP_SECONDS)
        self._sweep = asyncio.get_running_loop().call_later(seconds, self._close_unused)

    def _close_unused(self) -> None:
        settings = self.context.settings
        now = asyncio.get_running_loop().time()
        idle_since = now - settings.max_idle_ms / 1000
        stalled_since = now - settings.max_stall_ms / 1000
        for connection in list(self._connections):
            if connection.last_active < idle_since and not connection.is_busy:
                self.context.metrics.connections_closed_idle += 1
                connection.abort()
            elif self.budget.is_full and connection.last_active < stalled_since:
                connection.close_stalled()
        self._plan_sweep()


def run(main: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run, on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
