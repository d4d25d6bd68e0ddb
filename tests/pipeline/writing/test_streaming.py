"""Tests `df.writeStream`: each micro-batch is a transaction, and a repeated one is recognized."""

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lacuna.testing import Cluster
from tests.pipeline.conftest import consumed, transact

ROWS = 50
"""In each micro-batch."""


def numbers(spark: SparkSession) -> DataFrame:
    """A stream of 0, 1, 2, ... whose micro-batches contain ROWS numbers each."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    return source.load().selectExpr("cast(value % 7 as string) key", "cast(value as string) value")


def to_topic(frame: DataFrame, cluster: Cluster, topic: str, checkpoint: Path) -> DataStreamWriter:
    """Return a stream's writer that has not been started."""
    writer = frame.writeStream.format("lacuna").option("data", str(cluster.data))
    return writer.option("topic", topic).option("checkpointLocation", str(checkpoint))


def run(writer: DataStreamWriter, batches: int) -> None:
    """Run a query until this many micro-batches are complete."""
    query = writer.start()
    await_batches(query, batches)
    query.stop()


def await_batches(query: StreamingQuery, batches: int) -> None:
    """Wait until this many micro-batches are complete. Raises the query's error."""
    while (query.lastProgress or {"batchId": -1})["batchId"] < batches - 1:
        query.awaitTermination(1)


def values(messages: list[Message]) -> list[int]:
    return sorted(int(message.value() or b"") for message in messages)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def test_a_query_that_is_started_again_neither_loses_nor_repeats(
    spark: SparkSession, cluster: Cluster, checkpoint: Path
) -> None:
    topic = cluster.create_topic("numbers", 2)
    for batches in (2, 4):
        run(to_topic(numbers(spark), cluster, topic, checkpoint), batches)
    found = values(consumed(cluster, topic, range(2)))
    assert found == list(range(len(found)))
    assert len(found) >= 4 * ROWS
    assert len(found) % ROWS == 0


def test_a_batch_that_spark_forgot_is_not_written_again(
    spark: SparkSession, cluster: Cluster, checkpoint: Path
) -> None:
    """A driver that dies between the sink's commit and the entry in Spark's own commit log leaves this state."""
    topic = cluster.create_topic("forgotten", 2)
    run(to_topic(numbers(spark), cluster, topic, checkpoint), 2)
    before = values(consumed(cluster, topic, range(2)))
    forget_last_batch(checkpoint)
    run(to_topic(numbers(spark), cluster, topic, checkpoint), len(before) // ROWS + 1)
    found = values(consumed(cluster, topic, range(2)))
    assert len(found) > len(before)
    assert found == list(range(len(found)))


def test_from_topic_to_topic_and_back(
    spark: SparkSession, cluster: Cluster, checkpoint: Path
) -> None:
    """Each run ends as if its driver had died before Spark's commit log had the last micro-batch."""
    source, sink = cluster.create_topic("pipe-in"), cluster.create_topic("pipe-out", 3)
    wanted: list[bytes] = []
    for turn in range(3):
        some = [b"%d" % (100 * turn + n) for n in range(100)]
        transact(
            cluster,
            source,
            [(True, [(value, value) for value in some]), (False, [(b"no", b"no")] * 20)],
        )
        wanted += some
        stream = spark.readStream.format("lacuna").option("data", str(cluster.data))
        frame = stream.option("subscribe", source).option("startingOffsets", "earliest").load()
        query = to_topic(frame.select("key", "value"), cluster, sink, checkpoint)
        query.trigger(availableNow=True).start().awaitTermination(100)
        forget_last_batch(checkpoint)
    assert sorted(m.value() or b"" for m in consumed(cluster, sink, range(3))) == sorted(wanted)
    back = spark.read.format("lacuna").option("data", str(cluster.data)).option("subscribe", sink)
    assert sorted(bytes(row.value) for row in back.load().collect()) == sorted(wanted)


def test_foreach_batch_with_a_number_writes_once(
    spark: SparkSession, cluster: Cluster, checkpoint: Path
) -> None:
    topic = cluster.create_topic("for-each")

    def write(frame: DataFrame, batch_id: int) -> None:
        for _ in range(2):  # as after a driver died
            writer = frame.write.format("lacuna").mode("append").option("topic", topic)
            writer.option("data", str(cluster.data)).option("transactionalId", "for-each").option(
                "batchId", batch_id
            ).save()

    writer = numbers(spark).writeStream.foreachBatch(write)
    run(writer.option("checkpointLocation", str(checkpoint)), 2)
    found = values(consumed(cluster, topic))
    assert found == list(range(len(found)))
    assert len(found) >= 2 * ROWS
    run(writer.option("checkpointLocation", f"{checkpoint}-new"), 1)
    found = values(consumed(cluster, topic))[: 2 * ROWS]
    assert found == sorted(2 * list(range(ROWS)))  # another query's numbers begin anew


def test_complete_mode_adds_the_whole_result_each_time(
    spark: SparkSession, cluster: Cluster, checkpoint: Path
) -> None:
    topic = cluster.create_topic("complete")
    counts = numbers(spark).groupBy("key").count().selectExpr("key", "string(count) AS value")
    run(to_topic(counts, cluster, topic, checkpoint).outputMode("complete"), 2)
    found = consumed(cluster, topic)
    assert sum(int(m.value() or b"") for m in found[:7]) == ROWS
    assert sum(int(m.value() or b"") for m in found[7:14]) == 2 * ROWS


def test_a_new_checkpoint_under_an_old_transactional_id_begins_anew(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic("chosen")
    for name in ("one", "two"):
        writer = to_topic(numbers(spark), cluster, topic, tmp_path / name)
        run(writer.option("transactionalId", "chosen"), 1)
    found = Counter(values(consumed(cluster, topic)))
    assert all(found[number] == 2 for number in range(ROWS))


@pytest.mark.slow
def test_a_query_goes_on_when_the_control_plane_is_back(
    spark: SparkSession, checkpoint: Path
) -> None:
    """The control plane is killed and restarted at arbitrary moments of tasks and commits."""
    with Cluster() as cluster:
        topic = cluster.create_topic("outages", 2)
        query = to_topic(numbers(spark), cluster, topic, checkpoint).start()
        for batches in (1, 3, 5, 7):
            await_batches(query, batches)
            cluster.kill()
            cluster.start()
        await_batches(query, 9)
        query.stop()
        found = values(consumed(cluster, topic, range(2)))
    assert found == list(range(len(found)))
    assert len(found) >= 9 * ROWS


def forget_last_batch(checkpoint: Path) -> None:
    """Remove the last entry from Spark's commit log."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
