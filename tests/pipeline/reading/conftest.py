"""Reads a topic as a DataFrame, without Spark, and with a Kafka client."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import Filter
from pyspark.sql.types import StructType

from lacuna.pipeline.datasource.batch import BatchReader
from lacuna.pipeline.datasource.options import Options
from lacuna.pipeline.datasource.planning import ReadTask
from lacuna.pipeline.datasource.schema import RECORD_COLUMNS
from lacuna.pipeline.datasource.source import LacunaDataSource
from lacuna.pipeline.datasource.spark_api import UnlimitedReader
from lacuna.pipeline.datasource.stream import Json, StreamReader
from lacuna.testing import Cluster

Load = Callable[..., DataFrame]


def options_of(cluster: Cluster, topic: str, **options: Any) -> dict[str, str]:
    """Return options that read `topic` by default."""
    found = {"data": str(cluster.data), **{name: str(value) for name, value in options.items()}}
    if not {"assign", "subscribePattern", "subscribe"} & options.keys():
        found["subscribe"] = topic
    return found


@contextmanager
def stream_reader(cluster: Cluster, topic: str, **options: Any) -> Iterator[StreamReader]:
    """Yield a stream reader, by default from the earliest offset, and stop it at the end."""
    given = options_of(cluster, topic, **{"startingOffsets": "earliest", **options})
    reader = StreamReader(Options(given), RECORD_COLUMNS)
    try:
        yield reader
    finally:
        reader.stop()


def values_of(reader: StreamReader | UnlimitedReader, start: Json, end: Json) -> list[bytes]:
    """Return the values of a micro-batch."""
    tasks = reader.partitions(start, end)
    batches = [batch for task in tasks for batch in reader.read(task)]
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@pytest.fixture
def load(spark: SparkSession, cluster: Cluster) -> Load:
    """load(topic, columns=None, **options) -> DataFrame of a batch."""

    def load_topic(topic: str, columns: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("lacuna")
        if columns is not None:
            reader = reader.schema(columns)
        return reader.options(**options_of(cluster, topic, **options)).load()

    return load_topic


class Planned:
    """A batch as Spark would read it, but without Spark: its tasks and their rows."""

    def __init__(
        self, options: dict[str, str], filters: list[Filter], schema: StructType | None = None
    ) -> None:
        schema = schema or LacunaDataSource(options).schema()
        self.reader = BatchReader(Options(options), schema)
        self.left = self.reader.push(filters)
        self.tasks = [each for each in self.reader.partitions() if isinstance(each, ReadTask)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the batches of all tasks in order."""
        for task in self.tasks:
            yield from self.reader.read(task)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all batches."""
        return [row for batch in self.batches() for row in batch.to_pylist()]

    def offsets(self) -> list[int]:
        """Return the offsets of all rows."""
        return [row["offset"] for row in self.rows()]

    def records(self, partition: int = 0) -> dict[int, tuple[bytes | None, bytes | None]]:
        """Return (key, value) by offset."""
        return {
            row["offset"]: (row["key"], row["value"])
            for row in self.rows()
            if row["partition"] == partition
        }

    @property
    def stored_bytes(self) -> int:
        """Return the number of bytes that the tasks read."""
        return sum(sum(task.pieces.sizes) for task in self.tasks)


@pytest.fixture
def plan(cluster: Cluster) -> Callable[..., Planned]:
    """plan(topic, *filters, **options) -> Planned."""

    def plan_topic(topic: str, *filters: Filter, **options: Any) -> Planned:
        return Planned(options_of(cluster, topic, **options), list(filters))

    return plan_topic
