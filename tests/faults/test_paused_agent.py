"""Tests an agent that is suspended past its lease in mid-request, and then resumes (S2, S7, S10, S12)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.batch import batch
from tests.clients.librd import eventually, read
from tests.clients.probing import Target
from tests.clients.wire import ClosedError

from .history import Rows, log_violations, transaction_violations
from .load import PlainClient, Progress, TransactionalClient
from .processes import Deployment

TOPIC = "t"
PARTITIONS = 4
SECONDS = 60.0


def live_agents(bootstrap: str) -> int:
    """Return the number of agents in an agent's DescribeCluster."""
    asked = Target(bootstrap).call(
        "describe_cluster", 0, include_cluster_authorized_operations=False
    )
    return len(asked["brokers"])


def rows_of(bootstrap: str) -> Rows:
    """Return the rows that a read_committed consumer of this agent finds."""
    found = {}
    for partition in range(PARTITIONS):
        got = read(bootstrap, TOPIC, partition=partition)
        assert got.errors == []
        found[partition] = got.records
    return found


PAST_A_LEASE = 11.0
SLEEPERS = 16


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_s7_a_fetch_that_slept_tells_no_old_bounds(tmp_path: Path) -> None:
    """Fetches wait at an agent that is suspended past its lease. Requests sent during the suspension are answered as
    late.
    """
    with (
        Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as cluster,
        ThreadPoolExecutor(2 * SLEEPERS) as threads,
    ):
        sleeping, awake = map(Target, cluster.bootstrap.split(","))
        topic = sleeping.topic()
        targets = [Target(sleeping.bootstrap) for _ in range(2 * SLEEPERS)]

        def fetch(target: Target) -> dict[str, Any] | None:
            try:
                return target.fetch(topic, 0, max_wait_ms=2_000, min_bytes=1, isolation=1)
            except (ClosedError, ConnectionError):
                return None  # the agent knows that it has no lease

        for target in targets:
            target.fetch(topic, 0)  # no first fetch of a connection, which is confirmed anyway
        before = [threads.submit(fetch, target) for target in targets[:SLEEPERS]]
        time.sleep(0.5)  # until they wait
        cluster.agents[0].pause()
        assert awake.verdict(topic, batch()) == "NONE"
        meanwhile = [threads.submit(fetch, target) for target in targets[SLEEPERS:]]
        time.sleep(PAST_A_LEASE)
        cluster.agents[0].resume()
        answers = [future.result(60) for future in before + meanwhile]
    told = [answer for answer in answers if answer is not None and answer["error_code"] == 0]
    assert {answer["high_watermark"] for answer in told} <= {1}
    assert all(answer["records"] for answer in told)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_a_sleeper_had_in_flight(tmp_path: Path) -> None:
    """S10, S12: clients move to the other agent. The suspended agent's later commits are rejected or duplicates."""
    progress = Progress()
    with Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(SECONDS)
        args = (cluster.bootstrap, TOPIC, progress, PARTITIONS)
        plain = PlainClient(*args, socket_timeout_ms=2000)
        transactional = TransactionalClient(*args, number=1, socket_timeout_ms=2000)
        plain.start()
        transactional.start()
        sleeper = cluster.agents[0]
        assert progress.wait_for(500, SECONDS)
        sleeper.pause()
        awake = cluster.bootstrap.split(",")[1]
        while live_agents(awake) > 1:
            progress.wait_for(progress.count + 1, 1.0)
        assert progress.wait_for(progress.count + 1000, SECONDS), "the other one serves"
        sleeper.resume()
        assert progress.wait_for(progress.count + 1000, SECONDS)
        plain.stop()
        transactional.stop()
        eventually(lambda: live_agents(awake), 2, SECONDS)  # it has a lease again
        seen = [rows_of(address) for address in cluster.bootstrap.split(",")]
    assert seen[0] == seen[1]
    for partition, rows in seen[0].items():
        acknowledged = plain.acknowledged[partition]
        assert log_violations(partition, acknowledged, rows) == []
        mine = [value for _, value in rows if value.startswith(b"plain")]
        assert mine == [value for _, value in acknowledged], "order"
    assert transaction_violations(transactional.transactions, seen[0]) == []
