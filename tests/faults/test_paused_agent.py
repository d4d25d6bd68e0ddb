"""An agent that sleeps past its lease in the middle of requests, and wakes up (S2, S7, S10, S12)."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.librd import eventually, read

from .history import Rows, log_violations, transaction_violations
from .load import PlainClient, Progress, TransactionalClient
from .processes import Deployment

TOPIC = "t"
PARTITIONS = 4
SECONDS = 60.0


def live_agents(bootstrap: str) -> int:
    """How many an agent's Metadata names."""
    return len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).brokers)


def rows_of(bootstrap: str) -> Rows:
    """What a read_committed consumer of this agent finds."""
    found = {}
    for partition in range(PARTITIONS):
        got = read(bootstrap, TOPIC, partition=partition)
        assert got.errors == []
        found[partition] = got.records
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_a_sleeper_had_in_flight(tmp_path: Path) -> None:
    """S10, S12: clients go to the other agent; what the sleeper still commits is refused or known already."""
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
