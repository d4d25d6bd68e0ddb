"""Tests that `lacuna up` recovers from twenty SIGKILLs under load (S1-S5, S12, S16)."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.testing import ProcessCluster
from tests.clients.librd import COMMITTED, UNCOMMITTED, consumer, read

from .history import Rows, log_violations, transaction_violations
from .load import Client, PlainClient, Progress, Tail, TransactionalClient

TOPIC = "killed"
PARTITIONS = 3
KILLS = 20
SECONDS = 60.0
QUICK = {"reconnect_backoff_max_ms": 200}
"""librdkafka would wait longer after each broken connection, up to 10 s."""


def rows_of(bootstrap: str, isolation: str) -> Rows:
    """Return the rows that a consumer has read at the end."""
    found = {}
    for partition in range(PARTITIONS):
        got = read(bootstrap, TOPIC, isolation, partition=partition)
        assert got.errors == []
        found[partition] = got.records
    return found


def kill_again_and_again(
    cluster: ProcessCluster, records: Progress, transactions: Progress, rng: random.Random
) -> None:
    """Kill the cluster at random moments, each time after new acknowledgements of both kinds."""
    for number in range(KILLS):
        goals = [
            (records, records.count + rng.randint(1, 100)),
            (transactions, transactions.count + rng.randint(1, 4)),
        ]
        for progress, wanted in goals:
            assert progress.wait_for(wanted, SECONDS), f"nothing goes on after kill {number}"
        time.sleep(rng.random() * 0.1)
        cluster.kill()
        cluster.start()


def committed_position(bootstrap: str) -> int:
    """Return the committed position of the tailing group."""
    who = consumer(bootstrap, group_id="tail")
    try:
        offset: int = who.committed([TopicPartition(TOPIC, 0)], SECONDS)[0].offset
        return offset
    finally:
        who.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_and_nothing_is_half_visible(tmp_path: Path) -> None:
    """S1, S2, S3, S5, S12: producers, transactions and consumers run through twenty kills."""
    records, outcomes = Progress(), Progress()
    with ProcessCluster(tmp_path / "data") as cluster:
        bootstrap = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(SECONDS)
        plain = PlainClient(bootstrap, TOPIC, records, PARTITIONS, **QUICK)
        crew = [
            TransactionalClient(bootstrap, TOPIC, outcomes, PARTITIONS, number, **QUICK)
            for number in range(2)
        ]
        tail = Tail(bootstrap, TOPIC, Progress(), 0, **QUICK)
        clients: list[Client] = [plain, *crew, tail]
        for each in clients:
            each.start()
        kill_again_and_again(cluster, records, outcomes, random.Random(20))
        for each in [plain, *crew]:
            each.stop()
        committed, everything = rows_of(bootstrap, COMMITTED), rows_of(bootstrap, UNCOMMITTED)
        tail.finish(committed[0][-1][0] + 1)
        position = committed_position(bootstrap)

    for partition, rows in committed.items():
        acknowledged = plain.acknowledged[partition]
        assert log_violations(partition, acknowledged, rows) == []
        assert log_violations(partition, rows, everything[partition]) == []
        mine = [value for _, value in rows if value.startswith(b"plain")]
        assert mine == [value for _, value in acknowledged], "order"
    assert [text for client in crew for text in client.fatal] == []
    transactions = [each for client in crew for each in client.transactions]
    assert sum(each.is_committed is True for each in transactions) > KILLS
    assert sum(each.is_committed is False for each in transactions) > 0
    assert transaction_violations(transactions, committed) == []
    assert tail.rows == committed[0], "what was read has not un-happened"
    assert position == tail.committed
