"""Tests that partitions move between agents that join and leave under load, with requests in flight (S10, S12)."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lacuna.controlplane.client import InProcessClient
from lacuna.logstore.objects import DirectoryStore
from lacuna.logstore.objects.store import Part
from lacuna.operating.agents import RunningAgent, start_agent
from lacuna.testing import Cluster
from tests.clients.librd import read
from tests.simulation.stage import PARTS

from .history import transaction_violations
from .load import PlainClient, Progress, TransactionalClient

PARTITIONS = 4
ROUNDS = 8
SECONDS = 60.0
#: Clients that ask for Metadata all the time never fall silent at an agent that sends them elsewhere.
HAND_OVER_MS = 500


class UnevenStore(DirectoryStore):
    """PUTs take up to 30 ms, so that the first one sent often arrives last."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        super().__init__(root)
        self._rng = rng

    def put(self, key: str, parts: Sequence[Part]) -> None:
        time.sleep(self._rng.random() * 0.03)
        super().put(key, parts)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_order_holds_while_partitions_move(tmp_path: Path) -> None:
    """S10, S12: there is no fatal error, loss, duplicate or reordering, and transactions are whole."""
    progress, rng = Progress(), random.Random(4)
    with Cluster(
        tmp_path / "lacuna",
        parts=PARTS,
        open_store=lambda: UnevenStore(tmp_path / "objects", rng),
    ) as cluster:
        topic = cluster.create_topic("t", PARTITIONS)
        args = (cluster.bootstrap, topic, progress, PARTITIONS)
        plain = [PlainClient(*args, topic_metadata_refresh_interval_ms=20) for _ in range(2)]
        transactional = TransactionalClient(*args, number=1, topic_metadata_refresh_interval_ms=20)
        for each in (*plain, transactional):
            each.start()
        served = []
        for _ in range(ROUNDS):
            agents = [cluster.run(_join(cluster)) for _ in range(2)]
            assert progress.wait_for(progress.count + 300, SECONDS)
            for agent in agents:
                cluster.run(agent.stop())
                cluster.run(agent.context.control.close())
                served.append(agent.context.produce.flusher.metrics.batches)
            assert progress.wait_for(progress.count + 300, SECONDS)
        for each in (*plain, transactional):
            each.stop()
        found = {p: read(cluster.bootstrap, topic, partition=p) for p in range(PARTITIONS)}
    assert sum(count > 0 for count in served) >= ROUNDS / 2, "partitions have moved"
    assert [got.errors for got in found.values()] == [[]] * PARTITIONS
    rows = {partition: got.records for partition, got in found.items()}
    for client in plain:
        for partition, acknowledged in client.acknowledged.items():
            assert acknowledged == sorted(acknowledged), "order"
            assert set(acknowledged) <= set(rows[partition])
    counts = [sum(map(len, client.acknowledged.values())) for client in plain]
    plain_rows = [value for each in rows.values() for _, value in each if value[:5] == b"plain"]
    assert len(plain_rows) == sum(counts)
    assert transaction_violations(transactional.transactions, rows) == []


async def _join(cluster: Cluster) -> RunningAgent:
    """Start another agent of the cluster."""
    embedded = cluster.embedded
    control = InProcessClient(embedded.running.plane)
    await control.cluster.ready()
    return await start_agent(
        control=control,
        store=embedded.store,
        parts=replace(
            PARTS.without_housekeeping(), agent=replace(PARTS.agent, hand_over_ms=HAND_OVER_MS)
        ),
        clock=embedded.clock,
        randomness=random.SystemRandom(),
    )
