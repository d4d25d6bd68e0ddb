"""The agents in this agent's zone. For each chunk, one of them reads the bucket for all of them (adr/0039).

The owner of a chunk is chosen by rendezvous hashing among the live agents in the zone. If two agents temporarily see
different live agents, they choose different owners and the chunk is read twice, which does no harm.
"""

import asyncio
import logging
from typing import Final

from lacuna.agent.fetch.peer_requests import ConnectionCounts, PeerError, PeerRequests, ToPeers
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.lease import AgentLease
from lacuna.agent.peer_lines import PeerLines
from lacuna.agent.rendezvous import place_once
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.wire.peers import ReadChunkRequest

log = logging.getLogger("lacuna.agent.fetch")

#: How long an agent that failed to respond is not treated as an owner.
_DOUBT_SECONDS: Final = 3.0


class Zone:
    """Tracks the available agents in the zone `name`, and sends them requests."""

    def __init__(
        self,
        control: ControlClient,
        lease: AgentLease,
        lines: PeerLines,
        name: str,
        settings: FetchSettings,
        to_peers: ToPeers,
    ) -> None:
        self.name = name
        #: How long to wait for an answer, in seconds.
        self.patience = settings.zone_patience_ms / 1000
        self._control = control
        self._lease = lease
        self._lines = lines
        self._requests = PeerRequests(self.patience, settings.cache_bytes // 4, to_peers)
        #: node id -> the loop time until which the node owns nothing, because it did not respond
        self._doubted: dict[int, float] = {}

    @property
    def secret(self) -> bytes:
        """The secret that only the cluster's agents know. It is empty until the control plane sends one."""
        return self._control.cluster.peer_secret

    def connections(self) -> ConnectionCounts:
        return self._requests.connections()

    @property
    def bytes_under_way(self) -> int:
        """The total bytes of the ranges being requested from other agents."""
        return self._requests.bytes_under_way

    @property
    def has_others(self) -> bool:
        """Whether the zone has other live agents to share reads with, even if they currently do not respond."""
        own_id, name = self._lease.node_id, self.name
        return self.secret != b"" and any(
            agent.zone == name and agent.node_id != own_id for agent in self._control.cluster.agents
        )

    def owner(self, key: bytes) -> Agent | None:
        """Return the agent that reads the chunk with this key for the zone, or None if it is this agent."""
        agents = {
            agent.node_id: agent
            for agent in self._control.cluster.agents
            if agent.zone == self.name and self._answers(agent)
        }
        if not agents:
            return None
        node_id = place_once(key, sorted(agents))
        return agents[node_id] if node_id != self._lease.node_id else None

    async def ask(
        self, agent: Agent, request: ReadChunkRequest, deadline: float
    ) -> memoryview | None:
        """Return a range from another agent, or None if it does not arrive by `deadline` (loop time). The caller must
        copy the range immediately.

        An agent that closes the connection, or is silent for half of the usual waiting time, is not treated as an owner
        for three seconds.
        """
        try:
            return await self._requests.ask(agent, request, deadline)
        except PeerError as error:
            if self._answers(agent):
                log.warning(
                    "agent %d at %s:%d could not share a read, because %s; it will be sent no "
                    "more requests for %g s",
                    agent.node_id,
                    agent.host,
                    agent.port,
                    error,
                    _DOUBT_SECONDS,
                )
            self._doubted[agent.node_id] = asyncio.get_running_loop().time() + _DOUBT_SECONDS
            return None

    def close(self) -> None:
        self._requests.close()

    def _answers(self, agent: Agent) -> bool:
        until = self._doubted.get(agent.node_id)
        if until is not None:
            if asyncio.get_running_loop().time() < until:
                return False
            del self._doubted[agent.node_id]
        return not self._lines.is_broken(agent.node_id)
