"""Tests that agents in a zone read each chunk of an object from S3 at most twice, for any number of leading agents."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.housekeeping import HousekeepingSettings
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.settings import AgentSettings
from lacuna.operating.agents import AgentParts
from lacuna.testing import Cluster
from tests.clients.probing import Target

AGENTS, PARTITIONS, RECORDS, A_FLUSH = 4, 32, 4_000, 500
TOPIC = "t"
PARTS = AgentParts(
    produce=ProduceSettings(hot_bytes=0),
    # An agent that gave up on a busy machine would read the bucket itself.
    fetch=FetchSettings(zone_patience_ms=60_000),
    agent=AgentSettings(zone="a", num_partitions=PARTITIONS),
    # Only fetches may read the bucket.
    housekeeping=HousekeepingSettings(merge_interval_ms=3_600_000, collect_interval_ms=3_600_000),
)
ALONE = dataclasses.replace(PARTS, fetch=FetchSettings(zone_reads="off"))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One agent wrote everything, so its objects contain slices of partitions that other agents will lead later."""
    running = Cluster(moto=True, agents=AGENTS, parts=PARTS)
    running._agents = 1
    with running:
        running.create_topic(TOPIC, PARTITIONS)
        producer = Producer({"bootstrap.servers": running.bootstrap, "linger.ms": 20})
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%05d" % number * 400, partition=number % PARTITIONS)
            if number % A_FLUSH == 0:
                assert producer.flush(60) == 0
        assert producer.flush(60) == 0
        yield running


def gets_while_read(cluster: Cluster, parts: AgentParts) -> int:
    """Return the number of GETs while librdkafka reads everything once through cold agents."""
    cluster.stop()
    cluster._parts, cluster._agents = parts, AGENTS
    cluster.start()
    before = cluster.embedded.store.metrics.gets
    for agent in range(AGENTS):
        # Each consumer first knows a different agent; all then go to the leaders.
        read(cluster.bootstrap.split(",")[agent])
    return cluster.embedded.store.metrics.gets - before


def read(bootstrap: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    ended: set[int | None] = set()
    count, deadline = 0, time.monotonic() + 60
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, f"{count} records"
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is None:
                count += 1
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    consumer.close()
    assert count == RECORDS


def gets_apart(cluster: Cluster) -> int:
    """Return the minimum number of GETs for every leader to read each object with records in its partitions: one per
    pair.
    """
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(TOPIC, 60)
    leaders = {index: each.leader for index, each in metadata.topics[TOPIC].partitions.items()}

    async def pairs() -> set[tuple[int, int, int]]:
        partitions = cluster.embedded.running.runtime._state.partitions
        return {
            (leaders[index], *segment)
            for (_, index), each in partitions.items()
            for segment in zip(each.extents.lease_ids, each.extents.sequences, strict=True)
        }

    return len(cluster.run(pairs()))


@pytest.mark.slow
def test_the_agents_of_a_zone_read_the_bucket_together(cluster: Cluster) -> None:
    embedded = cluster.embedded
    objects = sum(1 for each in embedded.store.list() if each.key.endswith(".seg"))
    alone = gets_while_read(cluster, ALONE)
    apart = gets_apart(cluster)
    together = gets_while_read(cluster, PARTS)
    assert objects >= RECORDS // A_FLUSH
    # There are enough partitions that three of the agents lead some of them.
    assert alone >= apart > 2 * objects
    # A small first range is read alone; the rest of its chunk is read with the second one.
    assert together <= 2 * objects
    # Clients that fetch from an agent that is not the leader cause no further reads.
    before = cluster.embedded.store.metrics.gets
    for bootstrap in cluster.bootstrap.split(","):
        target = Target(bootstrap)
        for index in range(PARTITIONS):
            assert target.fetch(TOPIC, 0, index=index)["records"]
        target.close()
    assert cluster.embedded.store.metrics.gets == before
