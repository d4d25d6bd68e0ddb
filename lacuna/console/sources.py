"""Where the console's data comes from: a cluster in this process or in others."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lacuna.agent.clock import SystemWallClock
from lacuna.console import limits
from lacuna.controlplane.client import ControlClient, ControlPlace, made_of
from lacuna.controlplane.shared_service import ask_status
from lacuna.controlplane.v1.cluster_pb2 import AgentReport, ClusterDescribed, DescribeCluster
from lacuna.controlplane.v1.control_pb2 import Command, ControlPlaneStatus
from lacuna.observing.endpoint import Shown
from lacuna.operating.embedded import EmbeddedCluster
from lacuna.operating.kafka import Agents


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of the pages' data.

    `control` supplies metadata, `agents` supply records, and `status` supplies the state of all control planes.
    `has_acls` is false if every user may do anything. `reports` contains, by lease id, reports from the agents in this
    process, which are newer than the control plane's. `shown` serves /metrics if this process is part of the cluster.
    """

    control: ControlClient
    agents: Callable[[], Agents]
    now_ms: Callable[[], int]
    seconds: Callable[[], float]
    status: Callable[[], Awaitable[Sequence[ControlPlaneStatus]]]
    has_acls: bool = True
    reports: Callable[[], Mapping[int, AgentReport]] = dict
    shown: Shown | None = None

    async def describe_cluster(self) -> ClusterDescribed:
        """Return the reports of all agents, and totals over all partitions. Raises ControlPlaneUnavailable."""
        reply = await self.control.call(Command(describe_cluster=DescribeCluster()))
        newer = self.reports()
        for each in reply.cluster_described.agents:
            if each.lease_id in newer:
                each.report.CopyFrom(newer[each.lease_id])
        return reply.cluster_described


async def of_embedded(cluster: EmbeddedCluster, shown: Shown | None) -> Sources:
    """Return the sources for an embedded cluster, with `shown` to serve its process's metrics."""

    async def status() -> Sequence[ControlPlaneStatus]:
        return [cluster.running.status()]

    return Sources(
        control=await cluster.connect(limits.VIEWS),
        agents=lambda: _agents_of(cluster),
        now_ms=cluster.clock.now_ms,
        seconds=time.monotonic,
        status=status,
        has_acls=cluster.agents[0].context.access.authorizer is not None,
        reports=lambda: {agent.context.lease.lease_id: agent.report() for agent in cluster.agents},
        shown=shown,
    )


def _agents_of(cluster: EmbeddedCluster) -> Agents:
    """Return the agents' addresses, with the security of the first listener."""
    access = cluster.agents[0].context.access
    security = access.to_peers(asyncio.get_running_loop().time())
    return Agents(cluster.bootstraps, replace(security, credentials=None))


def of_others(
    control: ControlClient, place: ControlPlace, agents: Agents, shown: Shown | None = None
) -> Sources:
    """Return the sources for control planes and agents in other processes."""
    tls = made_of(place.tls)

    async def status() -> Sequence[ControlPlaneStatus]:
        for each in place.address.split(","):
            answer = await ask_status(each, tls=tls)
            if answer is not None and answer.leader:
                return [answer]
        return []

    return Sources(
        control=control,
        agents=lambda: agents,
        now_ms=SystemWallClock().now_ms,
        seconds=time.monotonic,
        status=status,
        shown=shown,
    )
