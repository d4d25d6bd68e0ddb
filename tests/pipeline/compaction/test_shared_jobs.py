"""Tests units that share a Spark job: each is swapped separately, independently of the others."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer

from lacuna.logstore.records.layout import Codec
from lacuna.testing import Cluster
from tests.pipeline.compaction.conftest import Compactor, Meanwhile, read_partition

#: A unit a topic.
_AS_UNITS: dict[str, Any] = {"rewrites_all": True, "codec": Codec.ZSTD, "task_bytes": 100_000}


def _fill(cluster: Cluster, compactor: Compactor, topics: list[str]) -> None:
    """Fill each topic with its own object, as large as a unit."""
    chance = Random(8)
    for topic in topics:
        cluster.create_topic(topic)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for _ in range(10):
            producer.produce(topic, chance.randbytes(9000), partition=0)
        assert producer.flush(60) == 0
        compactor.run(topic, rewrites_all=True)


def _object_of(cluster: Cluster, compactor: Compactor, topic: str) -> Path:
    (log,) = compactor.logs(topic)
    with compactor.control() as control:
        key: str = next(log.pieces(0, 1)).key(control.cluster_id)
    return Path(cluster.data) / "objects" / key


@pytest.mark.parametrize("workers", ["spark"], indirect=True)
def test_a_unit_is_swapped_while_others_of_its_job_are_at_work(
    compactor: Compactor, cluster: Cluster
) -> None:
    """The second one's object is a pipe that blocks a task until the first unit has been swapped."""
    topics = ["done", "waiting"]
    _fill(cluster, compactor, topics)
    before = [read_partition(cluster, topic) for topic in topics]
    path = _object_of(cluster, compactor, "waiting")
    data, pipe = path.with_name("data"), path.with_name("pipe")
    path.rename(data)
    os.mkfifo(path)

    def release() -> None:
        """Fail the blocked task, since a pipe is no file. A later attempt finds the file."""
        path.rename(pipe)
        data.rename(path)
        with suppress(OSError):  # nobody waits there yet
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        pipe.unlink()

    report = replace(compactor, progress=Meanwhile(at_first=release)).run(*topics, **_AS_UNITS)
    assert not report.failed
    assert report.work.partitions == 2
    assert [read_partition(cluster, topic) for topic in topics] == before


@pytest.mark.parametrize("workers", ["spark"], indirect=True)
def test_a_task_that_fails_costs_its_unit_alone(compactor: Compactor, cluster: Cluster) -> None:
    """Spark ends the job with the task, and each remaining unit runs again in a separate job."""
    topics = [f"shared-{number}" for number in range(4)]
    _fill(cluster, compactor, topics)
    before = [read_partition(cluster, topic) for topic in topics]
    path = _object_of(cluster, compactor, topics[2])
    data = path.read_bytes()
    path.unlink()
    path.symlink_to(path)
    report = compactor.run(*topics, **_AS_UNITS)
    (failed,) = report.failed
    assert (failed.topic, failed.partition) == (topics[2], 0)
    assert "(offsets 0 to 9) could not be read" in failed.reason
    assert report.work.partitions == 3
    path.unlink()
    path.write_bytes(data)
    assert [read_partition(cluster, topic) for topic in topics] == before
