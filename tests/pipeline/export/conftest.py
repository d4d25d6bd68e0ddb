"""Exports real topics and reads the results."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
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
from tests.pipeline.conftest import consumed, transact
from tests.shared_moto import moto_url

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

#: partition, offset, timestamp in ms, key, value, headers
Row: TypeAlias = tuple[int, int, int | None, Any, Any, Any]

#: 31 committed records in 41 offsets.
MIXED = [(True, [(b"a", b"1")] * 30), (False, [(b"x", b"never")] * 10), (True, [(b"b", None)])]

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Lake:
    """Topics of a cluster and their exports, which go to `folder` unless the test names another place."""

    cluster: Cluster
    folder: Path
    workers: Workers = field(default_factory=Workers)

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic that no other test uses."""
        named = {name.replace("_", "."): value for name, value in configs.items()}
        return self.cluster.create_topic(f"exported-{next(_numbers)}", partitions, named)

    def written(self, transactions: Iterable[tuple[bool, Any]] = MIXED) -> str:
        topic = self.topic()
        self.write(topic, transactions)
        return topic

    def write(
        self, topic: str, transactions: Iterable[tuple[bool, Any]], partition: int = 0
    ) -> None:
        transact(self.cluster, topic, transactions, partition)

    def consume(self, topic: str, partitions: int = 1) -> list[Row]:
        """Return the rows that a read_committed consumer receives, in order."""
        return sorted(
            (_row(each) for each in consumed(self.cluster, topic, range(partitions))),
            key=lambda row: row[:2],
        )

    def export(self, topic: str, **settings: Any) -> TopicReport:
        """Run once. Raises the error of a topic that fails."""
        found: TopicReport | TopicFailure
        (found,) = self.export_all([topic], **settings)
        if isinstance(found, TopicFailure):
            raise found.error
        return found

    def export_all(self, topics: Sequence[str], **settings: Any) -> list[Any]:
        """Run once over several topics. Return the reports and failures."""
        location = find_cluster(data=str(self.cluster.data))
        given = ExportSettings(**{"to": str(self.folder), **settings})
        return export_topics(self.workers, location, given, topics)

    def kill(
        self, stage: str, topic: str, to: str = "", kind: str = "parquet", by: str = "day"
    ) -> None:
        """Run an export in a process that is killed by SIGKILL at the stage."""
        forks = multiprocessing.get_context("forkserver")
        # Imports take longer than the export.
        forks.set_forkserver_preload([__name__, "lacuna.pipeline.export.tables"])
        arguments = (stage, str(self.cluster.data), topic, to or str(self.folder), kind, by)
        process = forks.Process(target=export_and_die, args=arguments, daemon=True)
        process.start()
        process.join(280)
        assert process.exitcode == -signal.SIGKILL

    def catalog(self) -> Catalog:
        return catalog_of(self.folder)

    def table(self, topic: str) -> Table:
        return self.catalog().load_table(("lacuna", topic))


def catalog_of(folder: Path) -> Catalog:
    from pyiceberg.catalog import load_catalog  # which takes as long as the other tests

    uri = f"sqlite:///{folder}/catalog.db"
    return load_catalog("lacuna", uri=uri, warehouse=f"file://{folder}")


def _row(message: Any) -> Row:
    return (
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


@pytest.fixture
def lake(cluster: Cluster, tmp_path: Path) -> Lake:
    return Lake(cluster, tmp_path)


@pytest.fixture
def export_on_spark(spark: SparkSession, lake: Lake) -> Callable[..., TopicReport]:
    return dataclasses.replace(lake, workers=Workers(lambda: spark)).export


@dataclass(frozen=True, slots=True)
class Place:
    """A destination, as seen by an exporter and by a reader."""

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
    return moto_url(request)


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return Place(str(tmp_path / "lake"))
    bucket, query = request.getfixturevalue("moto").split("?")
    return Place(f"{bucket}/lake-{next(_numbers)}?{query}")


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
    """Replace an attribute that must exist, so that a renamed one is noticed here."""
    assert hasattr(where, name)
    setattr(where, name, new)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_append(kind: str) -> Callable[[RunLog, RunRecord], None]:
    append = RunLog.append

    def appending(log: RunLog, record: RunRecord) -> None:
        if record.kind == kind:
            die()
        append(log, record)

    return appending


def dying_after_one(function: Callable[..., None]) -> Callable[..., None]:
    """Die on the second call. S3's copies run in many threads, and one of them succeeds."""
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
