"""Tests that each bad input causes one clear message, and that nothing is written."""

import datetime as dt
import os
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lacuna.pipeline.datasource.writing import batch_writer, stream_writer
from lacuna.pipeline.datasource.writing.task import write_task
from lacuna.pipeline.errors import PipelineError
from lacuna.testing import Cluster
from tests.pipeline.conftest import consumed

from .conftest import batch_of, options

GOOD = "key binary, value binary"
NOW = dt.datetime.now(dt.UTC)


def schema_of(columns: str) -> StructType:
    """Parse a schema with Spark, which requires a session."""
    found = StructType.fromDDL(columns)
    assert isinstance(found, StructType)
    return found


@pytest.mark.parametrize(
    ("given", "columns", "message"),
    [
        ({"topic": "t"}, "key binary", "the required column 'value' is missing"),
        ({}, GOOD, "there is no topic to write to: set the `topic` option, or add a column"),
        ({"topic": ""}, GOOD, "option topic is empty"),
        ({"topic": "t"}, "value binary, value binary", "there are several columns named 'value'"),
        (
            {"topic": "t"},
            "value bigint",
            "column 'value' is bigint, but it must be binary or string",
        ),
        ({"topic": "t"}, "key int, value binary", "column 'key' is int, but it must be binary or"),
        ({}, "topic int, value binary", "column 'topic' is int, but it must be string"),
        (
            {"topic": "t"},
            "value binary, partition bigint",
            "'partition' is bigint, but it must be int",
        ),
        (
            {"topic": "t"},
            "value binary, timestamp bigint",
            "'timestamp' is bigint, but it must be time",
        ),
        (
            {"topic": "t"},
            "value binary, headers map<string, binary>",
            "'headers' is map<string,binary>, but it must be array<struct<key:string,value:binary>>",
        ),
        ({"topic": "t", "compression": "lzma"}, GOOD, "option compression=lzma: choose one of lz4"),
        ({"topic": "t", "kafka.bootstrap.servers": "x"}, GOOD, "Lacuna reads the bucket directly"),
        (
            {"topic": "t", "kafka.acks": "1"},
            GOOD,
            "it configures a Kafka client, which Lacuna does not use",
        ),
        ({"topic": "t", "topics": "x"}, GOOD, "there is no such option; the options are"),
        (
            {"topic": "t", "includeHeaders": "true"},
            GOOD,
            "headers are written if there is a col",
        ),
        ({"topic": "t", "batchId": "3"}, GOOD, "also specify a transactionalId that is unique"),
        ({"topic": "t", "transactionalId": "x", "batchId": "-1"}, GOOD, "the minimum is 0"),
        ({"topic": "t", "transactionalId": "x" * 300}, GOOD, "the maximum is 200 characters"),
    ],
)
def test_options_and_columns(
    spark: SparkSession, given: dict[str, str], columns: str, message: str
) -> None:
    place = {"control": "127.0.0.1:1", "store": "file:///nowhere"}
    with pytest.raises(PipelineError) as caught:
        batch_writer({**place, **given}, schema_of(columns), False)
    assert message in str(caught.value)


def test_overwrite_and_batch_ids_of_streams(spark: SparkSession) -> None:
    place = {"control": "127.0.0.1:1", "store": "file:///nowhere", "topic": "t"}
    with pytest.raises(PipelineError, match="a topic is a log, so records can only be added to it"):
        batch_writer(place, schema_of(GOOD), True)
    counted = {**place, "transactionalId": "x", "batchId": "1"}
    with pytest.raises(PipelineError, match="a streaming query numbers its own batches"):
        stream_writer(counted, schema_of(GOOD), False)
    assert stream_writer(place, schema_of(GOOD), True)  # complete mode adds, as in Kafka's sink


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"topic": None}, "a row has no topic"),
        (
            {"topic": "errors-plane"},
            r"no topic 'errors-plane' \(but 'errors-plain' exists\): create it",
        ),
        (
            {"partition": 2},
            "a row names partition 2 of topic 'errors-plain', which has 2 partitions: choose 0 to 1",
        ),
        ({"partition": -1}, "a row names partition -1"),
        ({"topic": "errors-compacted"}, "'errors-compacted' is compacted, so every record needs a"),
        (
            {"value": os.urandom(3000)},
            r"a record of \d+ bytes is too large for topic 'errors-plain'",
        ),
        ({"headers": [{"key": None, "value": b""}]}, "a row cannot be written as a record"),
        ({"headers": [None]}, "a row cannot be written as a record"),
        ({"timestamp": dt.datetime(1969, 12, 31, tzinfo=dt.UTC)}, "is 86400000 ms before 1970"),
        (
            {"timestamp": NOW + dt.timedelta(days=1)},
            "ms ahead of the time of writing, more than topic",
        ),
        (
            {"timestamp": NOW - dt.timedelta(days=3)},
            "ms behind the time of writing, more than topic",
        ),
    ],
)
def test_rows(cluster: Cluster, topics: None, row: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"value": b"x", "topic": "errors-plain"}
    with pytest.raises(PipelineError, match=message):
        write_task(options(cluster), [batch_of([good, {**good, **row}])])


@pytest.fixture(scope="module")
def topics(cluster: Cluster) -> None:
    cluster.create_topic(
        "errors-plain",
        2,
        {"max.message.bytes": "2000", "message.timestamp.before.max.ms": "86400000"},
    )
    cluster.create_topic("errors-compacted", 1, {"cleanup.policy": "compact"})


def test_spark_shows_the_message_alone(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create_topic("told", 1)
    frame = spark.createDataFrame([("x", topic), ("y", None)], "value string, topic string")
    writer = frame.coalesce(1).write.format("lacuna").option("data", str(cluster.data))
    with pytest.raises(PySparkException, match="a row has no topic") as of_a_task:
        writer.mode("append").save()
    with pytest.raises(PySparkException, match="a topic is a log") as of_the_driver:
        writer.mode("overwrite").save()
    with pytest.raises(PySparkException, match="there is no topic 'shewn'") as of_a_topic:
        writer.mode("append").option("topic", "shewn").save()
    for caught in (of_a_task, of_the_driver, of_a_topic):
        assert "transaction.py" not in str(caught.value)
        assert "writers.py" not in str(caught.value)
    assert consumed(cluster, topic) == []
