"""Tests a task's records as a consumer reads them, without Spark: partitions, codecs, times."""

import datetime as dt
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from lacuna.pipeline.datasource.writing.task import TaskSizes, write_task
from lacuna.testing import Cluster

from .tasks import batch_of, commit, options

Consume = Callable[..., list[Message]]


def put(cluster: Cluster, topic: str, rows: list[dict[str, Any]], **given: str) -> None:
    """Write two batches of rows in one task."""
    half = len(rows) // 2
    batches = [batch_of(rows[:half]), batch_of(rows[half:])]
    task = write_task(options(cluster, topic=topic, **given), batches)
    assert commit(cluster, [task], transactional_id=topic)


def test_keys_go_where_librdkafka_sends_them(cluster: Cluster, consume: Consume) -> None:
    ours, theirs = cluster.create_topic("hashed", 7), cluster.create_topic("produced", 7)
    keys = [b"", *(b"x" * size for size in range(1, 20)), *(b"%d" % n for n in range(300))]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(theirs, b"", key)
    assert producer.flush(60) == 0
    put(cluster, ours, [{"key": key, "value": b""} for key in keys])
    found, wanted = (
        {m.key(): m.partition() for m in consume(cluster, topic, 7)} for topic in (ours, theirs)
    )
    assert found == wanted
    assert len(found) == len(keys)
    assert set(found.values()) == set(range(7))


def test_a_partition_that_a_row_asks_for_wins(cluster: Cluster, consume: Consume) -> None:
    topic = cluster.create_topic("asked", 5)
    rows = [
        {"key": b"k%d" % n, "value": b"%d" % n, "partition": None if n % 3 else n % 5}
        for n in range(100)
    ]
    put(cluster, topic, rows)
    for message in consume(cluster, topic, 5):
        number = int(message.value() or b"")
        if number % 3 == 0:
            assert message.partition() == number % 5


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_consumer_reads_every_codec(cluster: Cluster, consume: Consume, codec: str) -> None:
    """Batches have at most 20 kB."""
    topic = cluster.create_topic(f"codec-{codec}", 1, {"max.message.bytes": "20000"})
    values = [b"a value that repeats itself %d" % n for n in range(2000)]
    put(cluster, topic, [{"value": value} for value in values], compression=codec)
    assert [message.value() for message in consume(cluster, topic)] == values


def test_rows_without_a_key_are_spread(cluster: Cluster, consume: Consume) -> None:
    topic = cluster.create_topic("spread", 4)
    put(cluster, topic, [{"key": None, "value": b"x" * 100}] * 4000)
    counts = Counter(message.partition() for message in consume(cluster, topic, 4))
    assert sum(counts.values()) == 4000
    assert min(counts[partition] for partition in range(4)) > 800


def test_append_time_is_the_time_of_writing(cluster: Cluster, consume: Consume) -> None:
    """S11: the time is chosen before the object is written."""
    topic = cluster.create_topic("append-time", 1, {"message.timestamp.type": "LogAppendTime"})
    early = dt.datetime(2020, 2, 29, tzinfo=dt.UTC)
    before = dt.datetime.now(dt.UTC).timestamp()
    put(cluster, topic, [{"value": b"a", "timestamp": early}, {"value": b"b", "timestamp": early}])
    messages = consume(cluster, topic)
    assert len(messages) == 2
    for message in messages:
        kind, milliseconds = message.timestamp()
        assert kind == 2
        assert before - 1 < milliseconds / 1000 < before + 300


def test_rows_larger_than_a_chunk(cluster: Cluster, consume: Consume) -> None:
    """A chunk holds at least one row of any size, and rows stay in order."""
    topic = cluster.create_topic("chunks")
    values = [b"%d" % n * (1 + 97 * (n % 5)) for n in range(200)]
    batch = batch_of([{"value": value} for value in values])
    sizes = TaskSizes(chunk_bytes=300, segment_bytes=500)
    task = write_task(options(cluster, topic=topic), [batch, batch], sizes=sizes)
    assert commit(cluster, [task], transactional_id=topic)
    assert [message.value() for message in consume(cluster, topic)] == values * 2
