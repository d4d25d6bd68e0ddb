"""A cluster with a topic, and member heartbeats, for tests of KIP-848 (S26)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from tests.agent.harness import RawClient
from tests.agent.plane import cluster, create_topic

HEARTBEAT, DESCRIBE, OFFSET_DELETE = 68, 69, 47


@asynccontextmanager
async def running() -> AsyncIterator[Any]:
    """A cluster with the topic `t`, which has two partitions, and a connection to it."""
    async with cluster() as started:
        await create_topic(started.control, "t", 2)
        client = await RawClient.connect(started.server.port)
        yield SimpleNamespace(client=client, control=started.control)
        assert started.context.metrics.requests_failed == 0


async def beat(client: RawClient, version: int, member_id: str, epoch: int, **more: Any) -> Any:
    """Send a heartbeat, which is complete if the epoch is 0."""
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": epoch,
        "topic_partitions": None,
    }
    if epoch == 0:
        fields |= {
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": ("t",),
            "topic_partitions": (),
        }
    return await client.ask(HEARTBEAT, version, **(fields | more))
