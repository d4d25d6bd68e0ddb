"""A DataFrame of a topic, the same without Spark, and what a Kafka client reads of it."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import Filter
from pyspark.sql.types import StructType

from lacuna.pipeline.datasource.batch import BatchReader
from lacuna.pipeline.datasource.options import Options
from lacuna.pipeline.datasource.planning import ReadTask
from lacuna.pipeline.datasource.source import LacunaDataSource
from lacuna.testing import Cluster

Load = Callable[..., DataFrame]


def options_of(cluster: Cluster, topic: str, **options: Any) -> dict[str, str]:
    """Options that read `topic`, unless others say what to read."""
    found = {"data": str(cluster.data), **{name: str(value) for name, value in options.items()}}
    if not {"assign", "subscribePattern", "subscribe"} & options.keys():
        found["subscribe"] = topic
    return found


@pytest.fixture
def load(spark: SparkSession, cluster: Cluster) -> Load:
    """load(topic, columns=None, **options) -> DataFrame, of a batch."""

    def load_topic(topic: str, columns: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("lacuna")
        if columns is not None:
            reader = reader.schema(columns)
        return reader.options(**options_of(cluster, topic, **options)).load()

    return load_topic


class Planned:
    """A batch as Spark would read it, without Spark: its tasks, and the rows that they give."""

    def __init__(
        self, options: dict[str, str], filters: list[Filter], schema: StructType | None = None
    ) -> None:
        schema = schema or LacunaDataSource(options).schema()
        self.reader = BatchReader(Options(options), schema)
        self.left = self.reader.push(filters)
        self.tasks = [each for each in self.reader.partitions() if isinstance(each, ReadTask)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Of all tasks in their order."""
        for task in self.tasks:
            yield from self.reader.read(task)

    def rows(self) -> list[dict[str, Any]]:
        """Of all batches."""
        return [row for batch in self.batches() for row in batch.to_pylist()]

    def offsets(self) -> list[int]:
        """Of all rows."""
        return [row["offset"] for row in self.rows()]

    def records(self, partition: int = 0) -> dict[int, tuple[bytes | None, bytes | None]]:
        """(key, value) by offset."""
        return {
            row["offset"]: (row["key"], row["value"])
            for row in self.rows()
            if row["partition"] == partition
        }

    @property
    def stored_bytes(self) -> int:
        """What the tasks read."""
        return sum(sum(task.pieces.sizes) for task in self.tasks)


@pytest.fixture
def plan(cluster: Cluster) -> Callable[..., Planned]:
    """plan(topic, *filters, **options) -> Planned."""

    def plan_topic(topic: str, *filters: Filter, **options: Any) -> Planned:
        return Planned(options_of(cluster, topic, **options), list(filters))

    return plan_topic


def consume(cluster: Cluster, topic: str, partition: int) -> list[Any]:
    """The committed messages that librdkafka gives."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reading",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Any] = []
    try:
        while True:
            message = consumer.poll(60)
            assert message is not None, "no answer for 30 s"
            if message.error() is not None:
                return found
            found.append(message)
    finally:
        consumer.close()
