"""The listener of one agent process, and its connections.

    server = AgentServer(context, registry)
    await server.start()                      # on context.settings.listeners; server.ports are the actual ports
    ...
    await server.hand_over()                  # tells clients to go to other agents, within hand_over_ms
    await server.stop()                       # answers requests already read, within shutdown_grace_ms

Start an agent's lease after its listener (`context.lease.start(*server.ports)`), so that no client is sent to a port
that is not open yet. `RunningAgent.stop` (lacuna/operating/agents.py) defines the order in which an agent's parts are
stopped.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from lacuna.agent.budget import ByteBudget
from lacuna.agent.client import Peer
from lacuna.agent.client_connection import ClientConnection
from lacuna.agent.connection import SCRATCH_BYTES
from lacuna.agent.context import AgentContext
from lacuna.agent.descriptors import room_for_connections
from lacuna.agent.handshake import Handshake
from lacuna.agent.quotas.addresses import Addresses
from lacuna.agent.registry import Registry
from lacuna.agent.security.listeners import Listener
from lacuna.base.errors import MORE_FILES, ListenError, advice_on
from lacuna.base.setting import LARGEST_INT
from lacuna.controlplane.shared.broker_configs import (
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IP,
    stored_name,
)
from lacuna.controlplane.shared.complaints import Complaints

log = logging.getLogger("lacuna.agent")

_BACKLOG = 1024
_MAX_SWEEP_SECONDS = 15.0
_LOOK_SECONDS = 0.05
T = TypeVar("T")


class AgentServer:
    """Accepts Kafka clients, and enforces the bounds that their connections share. Belongs to one event loop."""

    def __init__(self, context: AgentContext, registry: Registry) -> None:
        self.context = context
        self.registry = registry
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.complaints = Complaints()
        self.budget = ByteBudget(context.settings.max_agent_bytes)
        self.large_requests = asyncio.Lock()
        self._most = min(context.settings.max_connections, room_for_connections())
        self._addresses = Addresses(context.quotas.limits)
        #: A dict as an ordered set, so that operations on all connections follow their order.
        self._connections: dict[ClientConnection, None] = {}
        self._handshakes: dict[Handshake, None] = {}
        self._listening: list[asyncio.Server] = []
        self._reuses_port = False
        self._sweep: asyncio.TimerHandle | None = None
        #: Whether clients are being sent to other agents.
        self.is_handing_over = False
        #: The port of each listener, in the order of the listeners. Empty before `start`.
        self.ports: list[int] = []

    async def start(self, *, reuse_port: bool = False) -> None:
        """Listen on the addresses of the listeners. Raises ListenError if that fails.

        `reuse_port` lets several workers listen on one port.
        """
        self._reuses_port = reuse_port
        await self._listen()
        self._plan_sweep()

    async def _listen(self) -> None:
        try:
            for number, listener in enumerate(self.context.settings.listeners):
                port = self.ports[number] if self.ports else listener.port
                self._listening.append(await self._listen_on(listener, port))
        except BaseException:
            self._close_listeners()
            raise
        self.ports = [each.sockets[0].getsockname()[1] for each in self._listening]

    async def _listen_on(self, listener: Listener, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        connect = partial(ClientConnection, self, listener)
        make: Callable[[], asyncio.BaseProtocol] = connect
        if listener.protocol.has_tls:
            make = partial(Handshake, self, listener, connect)
        try:
            return await loop.create_server(
                make, listener.host, port, reuse_port=self._reuses_port or None, backlog=_BACKLOG
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ListenError(
                f"cannot listen on {listener.host}:{port}: {reason}; "
                f"{advice_on(error, 'choose another address with --listen')}"
            ) from error

    def _close_listeners(self) -> None:
        for each in self._listening:
            each.close()
        self._listening.clear()

    @property
    def port(self) -> int:
        return self.ports[0] if self.ports else 0

    @property
    def is_listening(self) -> bool:
        return bool(self._listening)

    def suspend(self) -> None:
        """Abort every connection, and accept no more until `resume`."""
        self._close_listeners()
        self.drop_clients()

    async def resume(self) -> None:
        """Listen again at the same addresses. Raises ListenError if that fails."""
        await self._listen()

    async def hand_over(self) -> None:
        """Tell clients to move to other agents, until they have moved or hand_over_ms has passed.

        The control plane must be informed first (`AgentLease.leave`); otherwise, the clients would be sent back to this
        agent. A client that is told to move asks over its existing connection which agent to use, and connects to that
        agent. If its connection closed first, librdkafka would try to connect to this agent again, with pauses of up to
        ten seconds.
        """
        self.is_handing_over = True
        loop = asyncio.get_running_loop()
        most_ms = self.context.settings.hand_over_ms
        end = loop.time() + most_ms / 1000
        while remaining := self._remaining(loop.time()):
            if loop.time() >= end:
                log.warning(
                    "connections closed because their clients did not move to other agents "
                    "within %d ms: %d",
                    most_ms,
                    remaining,
                )
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _remaining(self, now: float) -> int:
        """Return the number of connections over which clients still send requests to this agent."""
        return sum(not connection.has_left(now) for connection in self._connections)

    async def stop(self) -> None:
        """Accept no more connections, spend at most shutdown_grace_ms answering requests already read, and close."""
        if self._sweep is not None:
            self._sweep.cancel()
        listening = list(self._listening)
        self._close_listeners()
        connections = list(self._connections)
        if connections:
            finishing = [asyncio.ensure_future(each.finish()) for each in connections]
            grace = self.context.settings.shutdown_grace_ms / 1000
            _, late = await asyncio.wait(finishing, timeout=grace)
            for task in [each for each in finishing if each in late]:
                task.cancel()
        self.drop_clients()
        for each in listening:
            await each.wait_closed()

    def abort(self) -> None:
        """Close all connections immediately, as a crash would."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._close_listeners()
        self.drop_clients()

    def drop_clients(self) -> None:
        """Abort every connection and discard its unread requests. Clients reconnect and repeat these requests.

        Used if the agent's lease has ended or the agent was hidden, since other agents have served its clients in the
        meantime.
        """
        for connection in list(self._connections):
            connection.abort()
        for handshake in list(self._handshakes):
            handshake.abort()

    def peers(self) -> list[Peer]:
        """Return the connected clients, one for each connection."""
        return [connection.peer for connection in self._connections]

    # Called by connections.

    def admit(self, connection: ClientConnection) -> bool:
        """Register a new connection. Return False if there are too many connections."""
        metrics = self.context.metrics
        address = connection.peer.host
        if not self._has_room(address):
            return False
        metrics.connections_accepted += 1
        self._connections[connection] = None
        if delay := self._addresses.opened(address, asyncio.get_running_loop().time()):
            metrics.connections_throttled += 1
            connection.mute(delay)
        metrics.connections_now = len(self._connections)
        return True

    def begin_handshake(self, handshake: Handshake) -> bool:
        """Register a connection whose TLS handshake begins. Return False if there are too many connections."""
        if not self._has_room(handshake.address):
            return False
        self._handshakes[handshake] = None
        self._addresses.began(handshake.address)
        return True

    def end_handshake(self, handshake: Handshake) -> None:
        """Unregister a connection whose TLS handshake has ended."""
        if handshake in self._handshakes:
            del self._handshakes[handshake]
            self._addresses.closed(handshake.address)

    def _has_room(self, address: str) -> bool:
        most = self._most_of_address()
        if self._addresses.open_now(address) >= most:
            self.context.metrics.connections_refused += 1
            why = f"it has {most} connections, the limit set by max.connections.per.ip"
            if self.complaints.is_new(address, why, asyncio.get_running_loop().time()):
                log.warning("%s: connection closed: %s", address, why)
            return False
        if len(self._connections) + len(self._handshakes) < self._most_connections():
            return True
        self.context.metrics.connections_refused += 1
        if self.complaints.is_new("", "crowded", asyncio.get_running_loop().time()):
            log.warning("new connections are refused: %s", self._why_crowded())
        return False

    def _most_connections(self) -> int:
        return min(self._most, self._limit(MAX_CONNECTIONS, LARGEST_INT))

    def _most_of_address(self) -> int:
        return self._limit(MAX_CONNECTIONS_PER_IP, LARGEST_INT)

    def _limit(self, name: str, fixed: int) -> int:
        """Return the value set for this broker or for all brokers, or else this agent's own setting."""
        configs = self.context.control.cluster.security.configs
        own = stored_name(str(self.context.lease.node_id), name)
        return int(configs.get(own) or configs.get(name) or fixed)

    def _why_crowded(self) -> str:
        most = self._most_connections()
        if most < self._most or most == self.context.settings.max_connections:
            return f"{most} are open, the limit set by max.connections"
        return f"{most} are open; to allow more, {MORE_FILES}"

    def forget(self, connection: ClientConnection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._addresses.closed(connection.peer.host)
        self.context.metrics.connections_now = len(self._connections)

    # Closing connections that are idle or keep others waiting.

    def _plan_sweep(self) -> None:
        settings = self.context.settings
        shortest_ms = min(settings.max_idle_ms, settings.max_stall_ms, settings.max_offsets_wait_ms)
        seconds = min(shortest_ms / 4000, _MAX_SWEEP_SECONDS)
        self._sweep = asyncio.get_running_loop().call_later(seconds, self._close_unused)

    def _close_unused(self) -> None:
        settings = self.context.settings
        now = asyncio.get_running_loop().time()
        for connection in list(self._connections):
            idle_ms = (
                settings.max_offsets_wait_ms if connection.owes_offsets else settings.max_idle_ms
            )
            if connection.last_active < now - idle_ms / 1000 and not connection.is_busy:
                self.context.metrics.connections_closed_idle += 1
                connection.abort()
            elif self.budget.is_full:
                connection.close_stalled(now, settings.max_stall_ms / 1000)
        self._plan_sweep()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` as asyncio.run does, on uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
