"""Connections to the other agents, each of which breaks as soon as the other agent's process dies (adr/0018).

The control plane hides an agent one second after its session has broken. When an agent dies, however, its clients
immediately query another agent, and franz-go then waits five seconds before it repeats the query. An agent therefore
does not advertise another one if the connection between them has just broken. Any agent serves any partition, so a
wrong guess does no harm.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from lacuna.agent.lease import AgentLease
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.v1.cluster_pb2 import Agent

#: After this time, the control plane's information is more reliable: it hides an agent that has gone, and lists one
#: that only this agent cannot reach.
_DOUBT_SECONDS: Final = 3.0
_PAUSE_SECONDS: Final = 1.0

ConnectPeer: TypeAlias = Callable[[Agent], Awaitable["asyncio.Future[None]"]]
"""Connects to another agent, and returns a future that is done once the connection has broken. Raises OSError if it
cannot connect."""


class LineCounts(NamedTuple):
    """How many connections are open, and how many there should be: one for each other agent."""

    open: int
    wanted: int


class PeerLines:
    """Keeps a connection to each agent that the control plane lists, and reports which connections have just broken."""

    def __init__(self, control: ControlClient, lease: AgentLease, connect: ConnectPeer) -> None:
        self._control = control
        self._lease = lease
        self._connect = connect
        self._lines: dict[int, tuple[Agent, asyncio.Task[None]]] = {}
        #: node id -> the loop time until which the node is not advertised, because its connection has broken
        self._doubted: dict[int, float] = {}
        self._open = 0

    def start(self) -> None:
        self._control.cluster.add_listener(self._keep_lines)
        self._keep_lines()

    async def stop(self) -> None:
        """Close the connections."""
        self._control.cluster.remove_listener(self._keep_lines)
        tasks = [task for _, task in self._lines.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def is_broken(self, node_id: int) -> bool:
        """Whether the connection to an agent has just broken and has not been restored."""
        until = self._doubted.get(node_id)
        return until is not None and asyncio.get_running_loop().time() < until

    def counts(self) -> LineCounts:
        return LineCounts(self._open, len(self._lines))

    def _keep_lines(self) -> None:
        wanted = {
            agent.node_id: agent
            for agent in self._control.cluster.agents
            if agent.node_id != self._lease.node_id
        }
        for node_id, (agent, task) in list(self._lines.items()):
            if wanted.get(node_id) != agent:
                task.cancel()
                del self._lines[node_id]
                self._doubted.pop(node_id, None)
        loop = asyncio.get_running_loop()
        for node_id, agent in wanted.items():
            if node_id not in self._lines:
                self._lines[node_id] = (agent, loop.create_task(self._keep_line(agent)))

    async def _keep_line(self, agent: Agent) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                broken = await self._connect(agent)
            except OSError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._doubted.pop(agent.node_id, None)
            made = loop.time()
            self._open += 1
            try:
                await broken
            finally:
                self._open -= 1
            self._doubted[agent.node_id] = loop.time() + _DOUBT_SECONDS
            if loop.time() - made < _PAUSE_SECONDS:
                # An agent that closes the connection immediately is not retried in a loop.
                await asyncio.sleep(_PAUSE_SECONDS)
