"""Intervals that suit tests: fast consumer groups, and leases that a busy machine cannot end.

Clients get the heartbeat interval of consumer groups from the coordinator. Kafka's defaults (a heartbeat every 5 s, a
session of 45 s) suit a cluster but are long for a test. Sessions keep Kafka's length unless a test waits for their end,
so that a client stays a member even if a busy machine delays it.
"""

from __future__ import annotations

import dataclasses

from lacuna.testing import Cluster
from tests.leases import lengthen

HEARTBEAT_MS = 100
SESSION_MS = 45_000
SHORT_SESSION_MS = 3_000


def hurry(cluster: Cluster, session_ms: int = SESSION_MS) -> None:
    """Sets the heartbeat interval to HEARTBEAT_MS and the session to `session_ms`, until the cluster is restarted."""

    async def change() -> None:
        groups = cluster.embedded.running.plane._state.groups
        groups.settings = dataclasses.replace(
            groups.settings,
            consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            consumer_session_timeout_ms=session_ms,
        )

    cluster.run(change())


def keep_leases(cluster: Cluster) -> None:
    """Makes the leases of all agents last (tests/leases.py), until the cluster is restarted."""
    leases = [agent.context.lease for agent in cluster.embedded.agents]
    cluster.run(lengthen(cluster.embedded.running.plane, leases))
