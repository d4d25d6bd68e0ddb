"""Fixtures for tests of the pipeline: a Spark session, clusters, and real transactions to read."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from lacuna.agent.housekeeping import Housekeeping, HousekeepingSettings, MergeSettings
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.operating.agents import AgentParts
from lacuna.operating.moto import CREDENTIALS
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.metadata.publish import publish_metadata
from lacuna.pipeline.session import spark_session
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster, ProcessCluster
from tests.pipeline.forked_python import forked_python
from tests.shared_moto import moto_endpoint, moto_url

__all__ = ["moto_endpoint"]

#: Agents that put every flush and do not merge by themselves, so that extents stay as written however long Spark takes
#: to start.
UNMERGED = AgentParts(
    produce=ProduceSettings(hot_bytes=0),
    housekeeping=HousekeepingSettings(merge_interval_ms=1 << 40),
)

#: Agents that merge all they can and collect what was replaced, when a test says so.
MERGES = HousekeepingSettings(
    merge_interval_ms=1 << 40,
    collect_interval_ms=1 << 40,
    merge=MergeSettings(min_age_ms=0, min_extents=2),
)
MERGING = replace(UNMERGED, housekeeping=MERGES)

#: Tests that kill processes or import pyiceberg.
_SLOW = ("test_crashes.py", "test_iceberg.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use Spark or are in _SLOW as slow."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "quick_python" in fixtures or "workers" in fixtures or item.path.name in _SLOW:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def quick_python() -> Iterator[str]:
    """The path of a Python that has already imported the modules that our commands and Spark's workers need."""
    with forked_python() as program:
        yield program


@pytest.fixture(scope="session")
def spark(quick_python: str) -> Iterator[SparkSession]:
    """A small Spark session on local[2], shared by all tests."""
    os.environ.update(CREDENTIALS)  # moto's, for Spark's Python workers
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.pyspark.python": quick_python,
        # A fifth of the CPU time of a JVM that lives for two minutes.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions "
        "-XX:-BytecodeVerificationRemote",
    }
    with spark_session("tests", "local[2]", settings) as session:
        yield session


@pytest.fixture(autouse=True)
def active_session(request: pytest.FixtureRequest) -> None:
    """Makes the Spark session active again before each test that uses it.

    Spark finds Python data sources through the active session, which belongs to a thread of the JVM. After minutes
    without a call to the JVM, that thread may have been replaced, and then no session is active.
    """
    if "spark" in request.fixturenames:
        session = request.getfixturevalue("spark")
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)


@pytest.fixture(scope="module", params=["directory"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster for the tests of a module. Parametrize it indirectly with "moto" to use S3."""
    store = moto_url(request) if request.param == "moto" else ""
    with Cluster(store=store, parts=UNMERGED) as running:
        yield running


@dataclass(slots=True)
class Written:
    """The (key, value) of each record produced to a partition, by offset, with committed and aborted ones separate."""

    committed: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    aborted: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)


def transact(
    cluster: Cluster | ProcessCluster,
    topic: str,
    transactions: Iterable[tuple[bool, Any]],
    partition: int = 0,
    client: Mapping[str, str] | None = None,
) -> Written:
    """Write transactions (is_committed, [(key, value), ...]) in order, with one producer, until all are durable."""
    written = Written()
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": f"{topic}-{partition}",
            "linger.ms": 30_000,  # so that `flush` sends each transaction at once, as one batch
            **(client or {}),
        }
    )
    producer.init_transactions(60)
    for is_committed, records in transactions:
        found = written.committed if is_committed else written.aborted
        producer.begin_transaction()
        for key, value in records:

            def delivered(error: Any, message: Any, at: Any = found) -> None:
                assert error is None, error
                at[message.offset()] = (message.key(), message.value())

            producer.produce(topic, value, key, partition, on_delivery=delivered)
            producer.poll(0)
        producer.flush(60)
        if is_committed:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    return written


def transactional(cluster: Cluster, name: str) -> Producer:
    """Return a producer whose transactions may stay open, however long Spark takes to start."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 900_000,
        }
    )
    producer.init_transactions(60)
    return producer


def delete_topic(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics([topic])[topic].result(60)


def delete_records(cluster: Cluster, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (future,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    future.result(60)


def control_of(cluster: Cluster) -> JobClient:
    return JobClient(find_cluster(data=str(cluster.data)).require_control())


def publish_snapshot(cluster: Cluster, later_ms: int = 0) -> None:
    """Publish a metadata snapshot that is valid for an hour."""
    store, now_ms = shared_store(cluster.store_url), wall_clock_ms() + later_ms
    with control_of(cluster) as control:
        publish_metadata(control, store, keep_ms=3_600_000, now_ms=now_ms)


def pins_of(cluster: Cluster) -> Mapping[int, Any]:
    """Return a live view of the pins, by id."""
    return cluster.embedded.running.runtime._state.segments.pins


def housekeeping_of(cluster: Cluster) -> Housekeeping:
    found = cluster.embedded.agents[0].housekeeping
    assert found is not None
    return found


def consumed(
    cluster: Cluster | ProcessCluster,
    topic: str,
    partitions: Iterable[int] = (0,),
    first: int = OFFSET_BEGINNING,
) -> list[Message]:
    """Return the committed messages of partitions from an offset onwards, as a new consumer receives them."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
        }
    )
    left = set(partitions)
    consumer.assign([TopicPartition(topic, partition, first) for partition in left])
    found: list[Message] = []
    try:
        while left:
            message: Any = consumer.poll(60)
            assert message is not None, "no answer for a minute"
            if message.error() is None:
                found.append(message)
                continue
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            left.discard(message.partition())
    finally:
        consumer.close()
    return found


@contextmanager
def at_work(jobs: Sequence[Callable[[Event], None]]) -> Iterator[None]:
    """Run jobs in threads during the block, then set their event. Raises the error of a job that failed."""
    is_over = Event()
    with ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(job, is_over) for job in jobs]
        try:
            yield
        finally:
            is_over.set()
            for each in running:
                each.result()
