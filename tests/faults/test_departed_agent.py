"""Tests that tools which query every broker skip a departed agent that librdkafka's producers still know (adr/0058)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

from tests.clients.jvm import compiled, needs_jdk
from tests.clients.librd import consumer, eventually, producer

from .processes import Deployment, Process
from .test_lost_coordinator import create

NAMES = [f"name-{number}" for number in range(8)]  # so many that each of two agents has some
SECONDS = 60.0


@pytest.fixture(params=[Process.stop, Process.kill], ids=["stopped", "killed"])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A cluster with groups and transactional ids. One of its two agents has just left."""
    leave: Callable[[Process], None] = request.param
    with Deployment(tmp_path / "control", 2, [f"--objects={tmp_path / 'objects'}"]) as cluster:
        create(cluster, "t")
        for name in NAMES:
            producer(cluster.bootstrap, name)
            group = consumer(cluster.bootstrap, group_id=name)
            group.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
            group.close()
        leave(cluster.agents[1])
        yield cluster.agents[0].address
        cluster.agents[1].start()


def live(bootstrap: str) -> int:
    """Return the number of brokers that a newly started tool sees."""
    return len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=SECONDS).brokers)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tools_of_python_list_all_without_the_agent_that_has_gone(bootstrap: str) -> None:
    eventually(lambda: live(bootstrap), 1)
    by_kafka_python = KafkaAdminClient(bootstrap_servers=bootstrap)
    assert sorted(group["group_id"] for group in by_kafka_python.list_groups()) == NAMES
    by_kafka_python.close()
    by_librdkafka = AdminClient({"bootstrap.servers": bootstrap})
    listed = by_librdkafka.list_consumer_groups(request_timeout=SECONDS).result()
    assert (sorted(group.group_id for group in listed.valid), listed.errors) == (NAMES, [])
    writer = producer(bootstrap)
    assert len(writer.list_topics("t", timeout=SECONDS).brokers) == 2


@needs_jdk
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tools_of_java_list_all_without_the_agent_that_has_gone(bootstrap: str) -> None:
    eventually(lambda: live(bootstrap), 1)
    command = [*compiled(), "lacuna.Listing", bootstrap]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert [line.split() for line in listed.stdout.splitlines()] == [NAMES, NAMES]
