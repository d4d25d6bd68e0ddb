"""A Spark session for all tests of the pipeline, and real transactions to read."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from agent.housekeeping import HousekeepingSettings
from lacuna.agents import AgentParts
from lacuna.moto import CREDENTIALS
from lacuna.testing import Cluster
from pipeline.session import spark_session

#: Agents that merge nothing by themselves: extents are as they were written, however long Spark takes to start.
UNMERGED = AgentParts(housekeeping=HousekeepingSettings(merge_interval_seconds=1e9))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """local[2], small: one for the whole session."""
    os.environ.update(CREDENTIALS)  # of moto, for Spark's Python workers
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
    }
    with spark_session("tests", "local[2]", settings) as session:
        yield session


@pytest.fixture(autouse=True)
def active_session(request: pytest.FixtureRequest) -> None:
    """Spark finds data sources of Python by the active session, which is the JVM thread's own: where the
    thread was replaced meanwhile, after minutes in which nobody asked the JVM, there is none.
    """
    if "spark" in request.fixturenames:
        session = request.getfixturevalue("spark")
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)


@pytest.fixture(scope="module", params=["directory"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster for the module's tests; parametrize it indirectly with "moto" for S3."""
    with Cluster(moto=request.param == "moto", parts=UNMERGED) as running:
        yield running


@dataclass(slots=True)
class Written:
    """What was produced to a partition, by offset. `committed` is what read_committed gets."""

    committed: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)
    aborted: dict[int, tuple[bytes | None, bytes | None]] = field(default_factory=dict)


@pytest.fixture(scope="session")
def transact() -> Callable[..., Written]:
    """transact(cluster, topic, [(is_committed, records), ...], partition=0, **client) -> Written.

    One transaction each, in order, of records (key, value), by one producer; all are durable when it
    returns.
    """
    return _transact


def _transact(
    cluster: Cluster,
    topic: str,
    transactions: list[tuple[bool, list[tuple[bytes | None, bytes | None]]]],
    partition: int = 0,
    **client: Any,
) -> Written:
    written = Written()
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": f"{topic}-{partition}",
            "linger.ms": 0,
            **client,
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
