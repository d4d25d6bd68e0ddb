"""Shortcuts for tests: short intervals of consumer groups, raised epochs, and long leases.

Clients get the heartbeat interval of consumer groups from the coordinator. Kafka's defaults (a heartbeat every 5 s, a
session of 45 s) suit a cluster but are long for a test. Sessions keep Kafka's length unless a test waits for their end,
so that a client remains a member even if a busy machine delays it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lacuna.agent.lease import AgentLease
    from lacuna.controlplane.runtime import Runtime
    from lacuna.testing import Cluster

HEARTBEAT_MS = 100
SESSION_MS = 45_000
SHORT_SESSION_MS = 3_000
LEASE_MS = 600_000


def hurry(cluster: Cluster, session_ms: int = SESSION_MS) -> None:
    """Sets the heartbeat interval to HEARTBEAT_MS and the session to `session_ms`, until the cluster is restarted."""

    async def change() -> None:
        groups = cluster.embedded.running.runtime._state.groups
        groups.settings = dataclasses.replace(
            groups.settings,
            consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            consumer_session_timeout_ms=session_ms,
        )

    cluster.run(change())


def raise_epoch(cluster: Cluster, transactional_id: str, epoch: int) -> None:
    """Sets the producer epoch of a transactional id, which would take thousands of requests."""

    async def change() -> None:
        ids = cluster.embedded.running.runtime._state.transactional_ids
        ids[transactional_id].producer_epoch = epoch

    cluster.run(change())


def keep_leases(cluster: Cluster) -> None:
    """Makes the leases of all agents last (`lengthen`), until the cluster is restarted."""
    leases = [agent.context.lease for agent in cluster.embedded.agents]
    cluster.run(lengthen(cluster.embedded.running.runtime, leases))


async def lengthen(runtime: Runtime, leases: Iterable[AgentLease]) -> None:
    """Make all leases of a control plane last LEASE_MS, until it is restarted. `leases` are those of its agents.

    A machine may delay a process for longer than a lease. Its agents then reject requests and close connections until
    they have registered again. A test that sends requests itself would see these errors.
    """
    for held in runtime._state.leases.values():
        held.duration_ms = LEASE_MS
    for lease in leases:
        lease._duration_seconds = lease.trust.lasts = LEASE_MS / 1000
        await lease.renew()
