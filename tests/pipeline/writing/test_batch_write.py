"""Tests `df.write` to a directory and to S3: a consumer receives the rows unchanged, in the topic's codec."""

import datetime as dt
import os

import pytest
from pyspark.sql import DataFrame, SparkSession

from lacuna.agent.produce.recompress import compression_of
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.records.compression import compress
from lacuna.logstore.records.layout import HEADER_SIZE, Codec
from lacuna.pipeline.datasource.writing.task import write_task
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster
from tests.pipeline.conftest import consumed, control_of

from .conftest import batch_of, commit, options

COLUMNS = """
    key binary, value binary, headers array<struct<key: string, value: binary>>, topic string,
    partition int, timestamp timestamp, offset bigint
"""
EARLY = dt.datetime(2020, 2, 29, 12, 30, 0, 123999, tzinfo=dt.UTC)


def save(frame: DataFrame, cluster: Cluster, **options: str) -> None:
    writer = frame.write.format("lacuna").mode("append")
    writer.option("data", str(cluster.data)).options(**options).save()


def test_every_column_arrives(spark: SparkSession, cluster: Cluster) -> None:
    """Keys, values, headers, topics, partitions and timestamps, including nulls and empty ones."""
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
    first = {(m.partition(), m.key(), m.value()): m for m in consumed(cluster, one, range(4))}
    assert first.keys() == {(3, b"k", b"v"), (3, b"k", None), (2, None, b"")}
    full = first[3, b"k", b"v"]
    assert full.headers() == [("h", b"1"), ("h", None), ("", b"")]
    assert full.timestamp() == (1, int(EARLY.timestamp() * 1000))
    assert first[3, b"k", None].headers() is None
    second = consumed(cluster, two)
    assert [(m.key(), m.value(), m.headers()) for m in second] == [
        (b"", bytes(range(256)), None),
        (None, None, [("only", b"header")]),
    ]
    age = dt.datetime.now(dt.UTC).timestamp() - second[0].timestamp()[1] / 1000
    assert -1 < age < 600


def test_sql_inserts_into_a_view(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create_topic("inserted")
    columns, options = "(key STRING, value STRING)", f"data '{cluster.data}', topic '{topic}'"
    spark.sql(f"CREATE TEMPORARY VIEW inserted {columns} USING lacuna OPTIONS ({options})")
    spark.sql("INSERT INTO inserted VALUES ('a', '1'), ('b', NULL)")
    found = {(message.key(), message.value()) for message in consumed(cluster, topic)}
    assert found == {(b"a", b"1"), (b"b", None)}


def test_a_write_with_a_number_is_done_once(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create_topic("numbered")
    for number in (3, 3, 2, 4):
        frame = spark.range(1).selectExpr(f"'{number}' AS value")
        save(frame, cluster, topic=topic, transactionalId="numbered", batchId=str(number))
    assert [message.value() for message in consumed(cluster, topic)] == [b"3", b"4"]


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create_topic("failed", 2)
    frame = spark.range(1000).selectExpr(
        "if(id = 900, raise_error('no more'), cast(id AS string)) AS value"
    )
    with pytest.raises(Exception, match="no more"):
        save(frame.repartition(2), cluster, topic=topic)
    assert consumed(cluster, topic, range(2)) == []


VALUES = [b"a value that repeats itself %d" % number for number in range(2000)]


def stored(cluster: Cluster, topic: str) -> bytes:
    with control_of(cluster) as control:
        key = (control.topics()[topic].topic_id, 0)
        (log,) = control.partition_logs([key])
        store = shared_store(cluster.store_url)
        pieces = log.pieces(0, log.high_watermark)
        return b"".join(
            bytes(store.get(each.key(control.cluster_id), each.position, each.size))
            for each in pieces
        )


@pytest.mark.parametrize(
    ("configs", "given", "codec"),
    [
        ({}, {}, Codec.LZ4),
        ({"compression.type": "producer"}, {"compression": "snappy"}, Codec.SNAPPY),
        ({"compression.type": "uncompressed"}, {}, Codec.NONE),
        ({"compression.type": "gzip", "compression.gzip.level": "1"}, {}, Codec.GZIP),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, {}, Codec.GZIP),
        ({"compression.type": "snappy"}, {"compression": "none"}, Codec.SNAPPY),
        ({"compression.type": "lz4", "compression.lz4.level": "17"}, {}, Codec.LZ4),
        ({"compression.type": "zstd"}, {"compression": "gzip"}, Codec.ZSTD),
        ({"compression.type": "zstd", "compression.zstd.level": "-5"}, {}, Codec.ZSTD),
    ],
)
def test_s11_the_topics_codec_wins(
    cluster: Cluster, configs: dict[str, str], given: dict[str, str], codec: Codec
) -> None:
    """This includes the codec's level: an agent that recompressed the batch would write the same bytes."""
    topic = cluster.create_topic(f"codec-{os.urandom(4).hex()}", 1, configs)
    task = write_task(
        options(cluster, topic=topic, **given), [batch_of([{"value": value} for value in VALUES])]
    )
    assert commit(cluster, [task], transactional_id=topic)
    batches = list(read_batches(stored(cluster, topic)))
    assert [record.value for batch in batches for record in batch.records()] == VALUES
    assert {batch.header.codec for batch in batches} == {codec}
    wanted = compression_of(configs)
    level = None if wanted is None else wanted.level
    for batch in batches:
        assert batch.data[HEADER_SIZE:] == compress(codec, batch.section(), level)


def test_topics_of_one_write_have_their_own(cluster: Cluster) -> None:
    codecs = {"one-zstd": "zstd", "one-gzip": "gzip", "one-producer": "producer"}
    for topic, name in codecs.items():
        cluster.create_topic(topic, 1, {"compression.type": name})
    rows = [{"value": VALUES[number], "topic": topic} for number in range(9) for topic in codecs]
    task = write_task(options(cluster, compression="snappy"), [batch_of(rows)])
    assert commit(cluster, [task], transactional_id="one")
    found = {
        topic: {batch.header.codec for batch in read_batches(stored(cluster, topic))}
        for topic in codecs
    }
    assert found == {
        "one-zstd": {Codec.ZSTD},
        "one-gzip": {Codec.GZIP},
        "one-producer": {Codec.SNAPPY},
    }


@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["moto"], indirect=True)
def test_a_write_to_s3(spark: SparkSession, cluster: Cluster) -> None:
    topic = cluster.create_topic("on-s3", 2)
    frame = spark.range(500).selectExpr("string(id) AS key", "string(id) AS value").repartition(2)
    save(frame, cluster, topic=topic)
    found = sorted(int(m.value() or b"") for m in consumed(cluster, topic, range(2)))
    assert found == list(range(500))
