"""Tests consumers and other clients while the log is being rewritten, and units that share a Spark job."""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.logstore.records.layout import Codec
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.workers import Workers
from lacuna.testing import Cluster
from tests.pipeline.compaction.conftest import (
    Compactor,
    Meanwhile,
    Read,
    consumer_of,
    read_partition,
    read_record,
)
from tests.pipeline.conftest import MERGING, delete_records, delete_topic, housekeeping_of, transact

SWAPS = 50
#: A unit a topic.
_AS_UNITS: dict[str, Any] = {"rewrites_all": True, "codec": Codec.ZSTD, "task_bytes": 100_000}
_CODECS = [Codec.LZ4, Codec.ZSTD, Codec.NONE, Codec.SNAPPY, Codec.GZIP]


def _transactions(count: int) -> list[tuple[bool, list[tuple[bytes | None, bytes | None]]]]:
    """Return transactions, every third of which is aborted."""
    return [
        (index % 3 != 1, [(b"k%d" % index, b"%d" % record * 40) for record in range(4)])
        for index in range(count)
    ]


@pytest.mark.parametrize(
    "cluster", ["directory", pytest.param("moto", marks=pytest.mark.slow)], indirect=True
)
def test_s14_s19_consumers_read_on_through_fifty_swaps(
    cluster: Cluster, compactor: Compactor
) -> None:
    """S14, S15, S19: one consumer reads slowly and another repeatedly, and each sees every record once, unchanged."""
    topic = cluster.create_topic("fifty")
    transact(cluster, topic, _transactions(60), client={"compression.type": "lz4"})
    before = read_partition(cluster, topic)
    assert len(before) == 160
    passes: list[bool] = []
    is_over = threading.Event()

    def read_again_and_again() -> None:
        while not is_over.is_set():
            passes.append(read_partition(cluster, topic) == before)

    reader = threading.Thread(target=read_again_and_again)
    reader.start()
    slow: list[Read] = []
    small_steps = {"fetch.message.max.bytes": 300, "queued.min.messages": 1}
    try:
        with consumer_of(cluster, topic, 0, **small_steps) as consumer:
            for swap in range(SWAPS):
                codec = _CODECS[swap % len(_CODECS)]
                report = compactor.run(topic, rewrites_all=True, codec=codec, batch_bytes=1024)
                assert report.work.partitions == 1, report
                slow += [read_record(consumer.poll(60)) for _ in range(len(before) // SWAPS)]
            slow += [read_record(consumer.poll(60)) for _ in range(len(before) - len(slow))]
    finally:
        is_over.set()
        reader.join()
    assert slow == before
    assert passes
    assert all(passes)


def test_a_partition_that_changed_meanwhile_is_refused_alone(
    cluster: Cluster, compactor: Compactor
) -> None:
    topics = [cluster.create_topic(name) for name in ("steady", "moving")]
    for topic in topics:
        transact(cluster, topic, _transactions(12))
    before = [read_partition(cluster, topic) for topic in topics]
    other = replace(compactor, progress=Meanwhile(lambda: compactor.run("moving")))
    report = other.run(*topics, attempts=1)
    assert [(each.topic, each.partition) for each in report.refused] == [("moving", 0)]
    assert "it changed during compaction" in report.refused[0].reason
    assert not report.failed
    assert report.work.partitions == 1
    assert [read_partition(cluster, topic) for topic in topics] == before
    assert [len(compactor.logs(topic)[0].extents) for topic in topics] == [1, 1]


def test_what_was_refused_is_planned_and_tried_again(
    cluster: Cluster, compactor: Compactor
) -> None:
    topics = [cluster.create_topic(name) for name in ("steady-2", "moving-2")]
    for topic in topics:
        transact(cluster, topic, _transactions(12))
    before = [read_partition(cluster, topic) for topic in topics]
    other = replace(compactor, progress=Meanwhile(lambda: compactor.run(topics[1])))
    report = other.run(*topics)
    assert not report.refused
    assert [len(compactor.logs(topic)[0].extents) for topic in topics] == [1, 1]
    assert [read_partition(cluster, topic) for topic in topics] == before


def test_what_changes_at_one_end_of_a_huge_partition_costs_that_piece_alone(
    cluster: Cluster, compactor: Compactor
) -> None:
    topic = cluster.create_topic("front")
    transact(cluster, topic, [(True, [(b"k", bytes(500))])] * 30)
    deleting = Meanwhile(lambda: delete_records(cluster, topic, 2))
    report = replace(compactor, progress=deleting).run(topic, task_bytes=6000, attempts=1)
    assert [(each.topic, each.partition) for each in report.refused] == [(topic, 0)]
    (log,) = compactor.logs(topic)
    assert 4 <= len(log.extents) < 16  # the first piece is as it was
    assert [record.offset for record in read_partition(cluster, topic)] == list(range(2, 30))


def test_a_topic_that_is_deleted_meanwhile_is_refused_alone(
    cluster: Cluster, compactor: Compactor
) -> None:
    """S6: only the deleted topic is rejected."""
    topics = [cluster.create_topic(name) for name in ("stays", "goes")]
    for topic in topics:
        transact(cluster, topic, _transactions(6))
    deleting = Meanwhile(lambda: delete_topic(cluster, "goes"))
    report = replace(compactor, progress=deleting).run(*topics)
    assert [(each.topic, each.reason) for each in report.refused] == [
        ("goes", "its topic was deleted during compaction")
    ]
    assert len(compactor.logs("stays")[0].extents) == 1


class _Deleting(JobClient):
    """Deletes a topic before the `at`-th request for partitions."""

    def __init__(self, cluster: Cluster, topic: str, at: int) -> None:
        super().__init__(find_cluster(data=str(cluster.data)).require_control())
        self._cluster, self._topic, self._left = cluster, topic, at

    def partition_logs(self, keys: Iterable[PartitionKey]) -> list[PartitionLog]:
        self._left -= 1
        if not self._left:
            delete_topic(self._cluster, self._topic)
        return super().partition_logs(keys)


@pytest.mark.parametrize("at", [1, 2])
def test_a_topic_that_is_deleted_while_sizes_are_looked_at_costs_nothing_else(
    at: int, cluster: Cluster, compactor: Compactor
) -> None:
    """S6: it is deleted before the work, or after it, when the report could be lost."""
    stays, goes = (cluster.create_topic(f"{name}-{at}") for name in ("sized", "unsized"))
    for topic in (stays, goes):
        transact(cluster, topic, _transactions(6))
    with _Deleting(cluster, goes, at) as control:
        report = compactor.job(control).run([stays, goes])
    assert report.work.partitions == at
    assert report.total.after.extents == 1
    assert not report.failed
    assert not report.refused


def test_the_embedded_merge_and_a_compaction_at_a_time(workers: Workers) -> None:
    """The second one is rejected, nothing is lost, and everything is compact in the end."""
    with Cluster(parts=MERGING) as cluster:
        compactor = Compactor(cluster, workers)
        topic = cluster.create_topic("both", 2)
        housekeeping = housekeeping_of(cluster)
        refused = 0
        for _ in range(3):
            for partition in range(2):
                transact(cluster, topic, _transactions(12), partition)
            before = [read_partition(cluster, topic, partition) for partition in range(2)]
            merging = Meanwhile(lambda: cluster.run(housekeeping.merge()))
            job = replace(compactor, progress=merging)
            refused += len(job.run(topic, attempts=1).refused)
            assert [read_partition(cluster, topic, partition) for partition in range(2)] == before
        assert refused > 0
        assert not compactor.run(topic, rewrites_all=True).refused
        assert [len(log.extents) for log in compactor.logs(topic)] == [1, 1]


def test_records_that_come_meanwhile_are_no_reason_to_refuse(
    cluster: Cluster, compactor: Compactor
) -> None:
    topic = cluster.create_topic("growing")
    transact(cluster, topic, _transactions(6))
    producer = Producer({"bootstrap.servers": cluster.bootstrap})

    def produce() -> None:
        producer.produce(topic, b"later", partition=0)
        producer.flush(60)

    report = replace(compactor, progress=Meanwhile(produce)).run(topic)
    assert not report.refused
    assert report.work.partitions == 1
    assert read_partition(cluster, topic)[-1].value == b"later"


def _fill(cluster: Cluster, compactor: Compactor, topics: list[str]) -> None:
    """Fill each topic with an object of its own, as large as a unit."""
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
    """The second unit's object is a pipe that blocks a task until the first unit has been swapped."""
    topics = ["done", "waiting"]
    _fill(cluster, compactor, topics)
    before = [read_partition(cluster, topic) for topic in topics]
    path = _object_of(cluster, compactor, "waiting")
    data, pipe = path.with_name("data"), path.with_name("pipe")
    path.rename(data)
    os.mkfifo(path)

    def release() -> None:
        """Make the blocked task fail, since a pipe is not a regular file. A later attempt finds the file."""
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
    """Spark ends the job when the task fails, and each remaining unit runs again in a separate job."""
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
