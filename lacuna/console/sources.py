"""What the console shows: the cluster's parts, wherever they run."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from lacuna.agent.api import Peer
from lacuna.agent.clock import SystemWallClock
from lacuna.console import limits
from lacuna.controlplane.client import ControlClient, ControlPlace, made_of
from lacuna.controlplane.shared_service import RunningNode, ask_status
from lacuna.controlplane.v1.control_pb2 import ControlPlaneStatus
from lacuna.embedded import EmbeddedCluster
from lacuna.kafka import Agents
from lacuna.observing.endpoint import Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the pages come from.

    `control` is asked for the metadata and `agents` for records. `status` asks the control
    planes, where there may be several. `observed` is what the process itself shows, and `peers` are the clients that
    are connected to it, if it is part of the cluster.
    """

    control: ControlClient
    agents: Callable[[], Agents]
    now_ms: Callable[[], int]
    seconds: Callable[[], float]
    status: Callable[[], Awaitable[Sequence[ControlPlaneStatus]]]
    observed: Observed | None = None
    peers: Callable[[], Sequence[Peer]] | None = None


async def of_embedded(cluster: EmbeddedCluster, observed: Observed | None) -> Sources:
    """Return what an embedded cluster has, whose process shows `observed`."""

    async def status() -> Sequence[ControlPlaneStatus]:
        running = cluster.running
        if isinstance(running, RunningNode):
            return [running.node.status()]
        position = running.plane.load().durable_position
        return [ControlPlaneStatus(is_leader=True, leader=running.address, position=position)]

    return Sources(
        control=await cluster.connect(limits.VIEWS),
        agents=lambda: _agents_of(cluster),
        now_ms=cluster.clock.now_ms,
        seconds=time.monotonic,
        status=status,
        observed=observed,
        peers=lambda: [peer for agent in cluster.agents for peer in agent.server.peers()],
    )


def _agents_of(cluster: EmbeddedCluster) -> Agents:
    """Return how to connect to its agents, as whoever logs in if they ask."""
    access = cluster.agents[0].context.access
    security = access.to_peers(asyncio.get_running_loop().time())
    return Agents(cluster.bootstraps, replace(security, credentials=None))


def of_others(control: ControlClient, place: ControlPlace, agents: Agents) -> Sources:
    """Return what processes elsewhere have: control planes at a place, and agents."""
    tls = made_of(place.tls)

    async def status() -> Sequence[ControlPlaneStatus]:
        for each in place.address.split(","):
            found = await ask_status(each, tls=tls)
            if found is not None and found.leader:
                return [found]
        return []

    return Sources(
        control=control,
        agents=lambda: agents,
        now_ms=SystemWallClock().now_ms,
        seconds=time.monotonic,
        status=status,
    )
