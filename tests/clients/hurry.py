"""Makes the coordinator of consumer groups quick: clients take the heartbeat interval that they are told.

Kafka's defaults, 5 s and 45 s, are the right ones for a cluster and long for a test. A session is as long as Kafka's
unless a test waits for its end: a client that a busy machine holds up for seconds stays a member.
"""

from __future__ import annotations

import dataclasses

from lacuna.testing import Cluster

HEARTBEAT_MS = 100
SESSION_MS = 45_000
SHORT_SESSION_MS = 3_000


def hurry(cluster: Cluster, session_ms: int = SESSION_MS) -> None:
    """Until the cluster is restarted, consumer groups have this heartbeat interval and this session."""

    async def change() -> None:
        groups = cluster.embedded.running.plane._state.groups
        groups.settings = dataclasses.replace(
            groups.settings,
            consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            consumer_session_timeout_ms=session_ms,
        )

    cluster.run(change())
