"""Compacts the test's cluster, and reads it as a consumer would."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from lacuna.controlplane.v1.cluster_pb2 import DeleteTopics
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.operating.moto import CREDENTIALS
from lacuna.pipeline.compaction.job import Compaction
from lacuna.pipeline.compaction.report import CompactionReport
from lacuna.pipeline.compaction.settings import CompactionSettings, RewriteSettings
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.workers import Progress, Workers
from lacuna.testing import Cluster
from tests.pipeline.conftest import UNMERGED, consumed, control_of


class Read(NamedTuple):
    """A record as a consumer receives it."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_record(message: Any) -> Read:
    headers = tuple(message.headers() or ())
    return Read(message.offset(), message.timestamp(), message.key(), message.value(), headers)


@contextmanager
def consumer_of(
    cluster: Cluster, topic: str, partition: int, first: int = OFFSET_BEGINNING, **settings: Any
) -> Iterator[Consumer]:
    """Yield a consumer that is assigned one partition from an offset. `settings` are librdkafka's."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            **settings,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, first)])
        yield consumer
    finally:
        consumer.close()


def read_partition(
    cluster: Cluster, topic: str, partition: int = 0, first: int = OFFSET_BEGINNING
) -> list[Read]:
    return [read_record(each) for each in consumed(cluster, topic, [partition], first)]


@dataclass(slots=True)
class Compactor:
    """Compacts topics of the cluster, with settings for small tests."""

    cluster: Cluster
    workers: Workers
    progress: Progress = field(default_factory=Progress)

    def job(self, control: JobClient, **settings: Any) -> Compaction:
        """Return a job. `settings` are fields of CompactionSettings and RewriteSettings."""
        names = RewriteSettings.__dataclass_fields__
        rewrite = {name: settings.pop(name) for name in list(settings) if name in names}
        return Compaction(
            control,
            self.cluster.store_url,
            CompactionSettings(rewrite=RewriteSettings(**rewrite), **settings),
            self.workers,
            self.progress,
        )

    def run(self, *topics: str, **settings: Any) -> CompactionReport:
        with self.control() as control:
            return self.job(control, **settings).run(topics)

    def control(self) -> JobClient:
        return control_of(self.cluster)

    def logs(self, topic: str) -> list[Any]:
        with self.control() as control:
            found = control.topics()[topic]
            return control.partition_logs(
                [(found.topic_id, partition) for partition in range(found.partition_count)]
            )


class Meanwhile(Progress):
    """Runs an action once: between the plan and the rewrite, or after the first completed unit."""

    def __init__(
        self,
        at_begin: Callable[[], object] | None = None,
        at_first: Callable[[], object] | None = None,
    ) -> None:
        self._at_begin = at_begin
        self._at_first = at_first

    def expect(self, amount: int) -> None:
        work, self._at_begin = self._at_begin, None
        if work is not None:
            work()

    def advance(self, amount: int) -> None:
        work, self._at_first = self._at_first, None
        if work is not None:
            work()


@pytest.fixture(params=["here", pytest.param("spark", marks=pytest.mark.slow)])
def workers(request: pytest.FixtureRequest) -> Workers:
    os.environ.update(CREDENTIALS)
    if request.param == "here":
        return Workers()
    session = request.getfixturevalue("spark")
    return Workers(lambda: session)


@pytest.fixture
def compactor(cluster: Cluster, workers: Workers) -> Compactor:
    """A compactor for the module's cluster, without the previous test's topics, which may have the same names."""
    control = cluster.embedded.control
    topic_ids = [*control.cluster.topics_by_id]
    cluster.run(control.call(Command(delete_topics=DeleteTopics(topic_ids=topic_ids))))
    return Compactor(cluster, workers)


@pytest.fixture
def timed(workers: Workers) -> Iterator[Compactor]:
    """A compactor for a separate cluster whose time a test may set."""
    with Cluster(parts=UNMERGED) as cluster:
        yield Compactor(cluster, workers)
