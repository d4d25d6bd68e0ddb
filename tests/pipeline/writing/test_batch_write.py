"""Tests `df.write`: a consumer gets the rows unchanged."""

import datetime as dt
from collections.abc import Callable

import pytest
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession

from lacuna.testing import Cluster

Consume = Callable[..., list[Message]]

COLUMNS = """
    key binary, value binary, headers array<struct<key: string, value: binary>>, topic string,
    partition int, timestamp timestamp, offset bigint
"""
EARLY = dt.datetime(2020, 2, 29, 12, 30, 0, 123999, tzinfo=dt.UTC)


def save(frame: DataFrame, cluster: Cluster, **options: str) -> None:
    writer = frame.write.format("lacuna").mode("append")
    writer.option("data", str(cluster.data)).options(**options).save()


def test_every_column_arrives(spark: SparkSession, cluster: Cluster, consume: Consume) -> None:
    """Keys, values, headers, topics, partitions and timestamps, null or not, empty or not."""
    for_ever = {"retention.ms": "-1"}
    one = cluster.create_topic("columns-one", 4, for_ever)
    two = cluster.create_topic("columns-two", 1, for_ever)
    rows = [
        (b"k", b"v", [("h", b"1"), ("h", None), ("", b"")], one, 3, EARLY, 17),
        (b"k", None, [], one, 3, EARLY, 18),
        (None, b"", None, one, 2, EARLY, None),
        (b"", bytes(range(256)), None, two, None, None, None),
        (None, None, [("only", b"header")], two, None, EARLY, None),
    ]
    save(spark.createDataFrame(rows, COLUMNS).coalesce(1), cluster)
    first = {(m.partition(), m.key(), m.value()): m for m in consume(cluster, one, 4)}
    assert first.keys() == {(3, b"k", b"v"), (3, b"k", None), (2, None, b"")}
    full = first[3, b"k", b"v"]
    assert full.headers() == [("h", b"1"), ("h", None), ("", b"")]
    assert full.timestamp() == (1, int(EARLY.timestamp() * 1000))
    assert first[3, b"k", None].headers() is None
    second = consume(cluster, two)
    assert [(m.key(), m.value(), m.headers()) for m in second] == [
        (b"", bytes(range(256)), None),
        (None, None, [("only", b"header")]),
    ]
    age = dt.datetime.now(dt.UTC).timestamp() - second[0].timestamp()[1] / 1000
    assert -1 < age < 600


def test_sql_inserts_into_a_view(spark: SparkSession, cluster: Cluster, consume: Consume) -> None:
    topic = cluster.create_topic("inserted")
    columns, options = "(key STRING, value STRING)", f"data '{cluster.data}', topic '{topic}'"
    spark.sql(f"CREATE TEMPORARY VIEW inserted {columns} USING lacuna OPTIONS ({options})")
    spark.sql("INSERT INTO inserted VALUES ('a', '1'), ('b', NULL)")
    found = {(message.key(), message.value()) for message in consume(cluster, topic)}
    assert found == {(b"a", b"1"), (b"b", None)}


def test_a_write_with_a_number_is_done_once(
    spark: SparkSession, cluster: Cluster, consume: Consume
) -> None:
    topic = cluster.create_topic("numbered")
    for number in (3, 3, 2, 4):
        frame = spark.range(1).selectExpr(f"'{number}' AS value")
        save(frame, cluster, topic=topic, transactionalId="numbered", batchId=str(number))
    assert [message.value() for message in consume(cluster, topic)] == [b"3", b"4"]


def test_a_job_that_fails_leaves_nothing(
    spark: SparkSession, cluster: Cluster, consume: Consume
) -> None:
    topic = cluster.create_topic("failed", 2)
    frame = spark.range(1000).selectExpr(
        "if(id = 900, raise_error('no more'), cast(id AS string)) AS value"
    )
    with pytest.raises(Exception, match="no more"):
        save(frame.repartition(2), cluster, topic=topic)
    assert consume(cluster, topic, 2) == []
