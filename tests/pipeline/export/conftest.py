"""Exports real topics, and reads the results."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql import SparkSession

from lacuna.operating.moto import CREDENTIALS
from lacuna.pipeline.export.bucket import BucketDestination
from lacuna.pipeline.export.folder import FolderDestination
from lacuna.pipeline.export.job import ExportSettings
from lacuna.pipeline.export.layout import Layout
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.report import TopicFailure, TopicReport
from lacuna.pipeline.export.running import export_topics
from lacuna.pipeline.export.runs import RunLog, RunRecord
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.workers import Workers
from lacuna.testing import Cluster
from tests.shared_moto import moto_url

#: partition, offset, timestamp in ms, key, value, headers
Row: TypeAlias = tuple[int, int, int | None, Any, Any, Any]

_numbers = count(1)


@pytest.fixture
def topic(cluster: Cluster) -> Callable[..., str]:
    """topic(partitions=1, **configs): creates a topic that no other test uses."""

    def make(partitions: int = 1, **configs: str) -> str:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        return cluster.create_topic(f"exported-{next(_numbers)}", partitions, named)

    return make


@pytest.fixture
def export(cluster: Cluster) -> Callable[..., TopicReport]:
    """export(topic, **settings): runs once in this process. Raises the error of a failed topic."""
    return exporting(cluster, Workers())


@pytest.fixture
def export_on_spark(spark: SparkSession, cluster: Cluster) -> Callable[..., TopicReport]:
    """The same on Spark."""
    return exporting(cluster, Workers(lambda: spark))


@pytest.fixture
def export_all(cluster: Cluster) -> Callable[..., list[TopicReport | TopicFailure]]:
    """export_all(topics, **settings): runs once over several topics."""

    def run(names: Sequence[str], **settings: Any) -> list[TopicReport | TopicFailure]:
        location = find_cluster(data=str(cluster.data))
        return export_topics(Workers(), location, ExportSettings(**settings), names)

    return run


def exporting(cluster: Cluster, workers: Workers) -> Callable[..., TopicReport]:
    """run(topic, **settings): runs once on these workers."""

    def run(name: str, **settings: Any) -> TopicReport:
        location = find_cluster(data=str(cluster.data))
        (found,) = export_topics(workers, location, ExportSettings(**settings), [name])
        if isinstance(found, TopicFailure):
            raise found.error
        return found

    return run


@dataclass(frozen=True, slots=True)
class Place:
    """A destination, as an exporter and as a reader sees it."""

    url: str

    def rows(self, topic: str) -> list[Row]:
        """Return the rows of a topic that a reader finds by listing the place, in order."""
        destination = open_destination(self.url)
        root, files = destination.uri(f"topic={topic}"), None
        if isinstance(destination, BucketDestination):
            root, files = root.removeprefix("s3://"), destination.files
        try:
            import pyarrow.dataset as pads  # and with it pandas, which every worker would import

            table = pads.dataset(root, filesystem=files, partitioning="hive").to_table()
        except FileNotFoundError:
            return []
        return [] if table.num_columns == 0 else rows_of(table)

    def names(self, folder: str) -> list[str]:
        """Return all names below."""
        return open_destination(self.url).names(folder)


def rows_of(table: Any) -> list[Row]:
    """Return the rows of an Arrow table with the untyped columns."""
    return sorted(
        (
            (
                row["partition"],
                row["offset"],
                None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000),
                row["key"],
                row["value"],
                tuple((header["key"], header["value"]) for header in row["headers"] or ()),
            )
            for row in table.to_pylist()
        ),
        key=lambda row: row[:2],
    )


@pytest.fixture(scope="session")
def moto(request: pytest.FixtureRequest) -> str:
    """The URL of an S3 bucket."""
    return moto_url(request)


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A destination for exports."""
    if request.param == "folder":
        return Place(str(tmp_path / "lake"))
    bucket, query = request.getfixturevalue("moto").split("?")
    return Place(f"{bucket}/lake-{next(_numbers)}?{query}")


@pytest.fixture
def consume(cluster: Cluster) -> Callable[..., list[Row]]:
    """consume(topic, partitions=1): returns what a read_committed consumer gets, in order."""

    def read(name: str, partitions: int = 1) -> list[Row]:
        return sorted(
            (row for number in range(partitions) for row in _read(cluster, name, number)),
            key=lambda row: row[:2],
        )

    return read


def _read(cluster: Cluster, topic: str, partition: int) -> Iterator[Row]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        while True:
            message: Any = consumer.poll(60)
            assert message is not None
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                return
            yield (
                partition,
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
            )
    finally:
        consumer.close()


@pytest.fixture
def killed(cluster: Cluster) -> Callable[..., None]:
    """killed(stage, topic, **settings): runs an export in a process that is killed (SIGKILL) at the stage."""

    forks = multiprocessing.get_context("forkserver")
    # Imports take longer than the export.
    forks.set_forkserver_preload([__name__, "lacuna.pipeline.export.tables"])

    def run(stage: str, topic: str, to: str, format: str = "parquet", by: str = "day") -> None:  # noqa: A002
        arguments = (stage, str(cluster.data), topic, to, format, by)
        process = forks.Process(target=export_and_die, args=arguments, daemon=True)
        process.start()
        process.join(280)
        assert process.exitcode == -signal.SIGKILL

    return run


# In the process that is killed.


def export_and_die(stage: str, data: str, topic: str, to: str, format: str, by: str) -> None:  # noqa: A002
    """Export in this process, which is killed at the stage. Spark's behaviour is not under test here."""
    os.environ.update(CREDENTIALS)
    if stage in ("prepared", "committed"):
        replace(RunLog, "append", dying_append(stage))
    elif stage == "before-publishing":
        replace(FolderDestination, "publish", die)
        replace(BucketDestination, "publish", die)
    elif stage == "publishing":
        for kind, name in ((FolderDestination, "_gather"), (BucketDestination, "_copy")):
            replace(kind, name, dying_after_one(getattr(kind, name)))
    elif stage == "snapshot":
        from lacuna.pipeline.export import tables  # pyiceberg, which takes long to import

        replace(tables, "_append", die)
    elif stage == "second-snapshot":
        from lacuna.pipeline.export import tables

        replace(tables, "_append", dying_after_one(tables._append))
    elif stage == "noting":
        from lacuna.pipeline.export import together

        replace(together.CutsTable, "note", die)
    settings = ExportSettings(to=to, format=format, layout=Layout(partition_by=by), task_bytes=1)
    list(export_topics(Workers(), find_cluster(data=data), settings, topic.split(",")))


def replace(where: Any, name: str, new: Any) -> None:
    """Replace a file that must exist, so that a rename is noticed here."""
    assert hasattr(where, name)
    setattr(where, name, new)


def die(*_: object) -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def dying_append(kind: str) -> Callable[[RunLog, RunRecord], None]:
    """Die instead of appending a record of the kind."""
    append = RunLog.append

    def appending(log: RunLog, record: RunRecord) -> None:
        if record.kind == kind:
            die()
        append(log, record)

    return appending


def dying_after_one(function: Callable[..., None]) -> Callable[..., None]:
    """Die at the second call. S3's copies run in many threads, of which one succeeds."""
    from threading import Lock

    calls: list[int] = []
    lock = Lock()

    def calling(*arguments: Any) -> None:
        with lock:
            if calls:
                die()
            function(*arguments)
            calls.append(1)

    return calling
