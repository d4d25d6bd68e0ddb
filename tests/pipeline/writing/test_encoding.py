"""Tests the conversion of Arrow rows to records, and a task's records as a consumer reads them."""

import datetime as dt
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.records.layout import Codec
from lacuna.pipeline.datasource.writing.encoding import Encoder, row_sizes
from lacuna.pipeline.datasource.writing.rows import normalize
from lacuna.pipeline.datasource.writing.task import TaskSizes, write_task
from lacuna.pipeline.datasource.writing.topics import Target, Targets
from lacuna.testing import Cluster
from tests.pipeline.conftest import consumed

from .conftest import batch_of, commit, options

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
PAIRS = st.fixed_dictionaries(
    {"key": st.text(max_size=4), "value": st.none() | st.binary(max_size=4)}
)
ROW = st.fixed_dictionaries(
    {
        "key": st.none() | st.binary(max_size=6),
        "value": st.none() | st.binary(max_size=40),
        "headers": st.none() | st.lists(PAIRS, max_size=3),
        "timestamp": st.none() | st.integers(0, 10**15),
    }
)


def target(max_message_bytes: int = 400) -> Target:
    configs = {"max.message.bytes": str(max_message_bytes)}
    topic = Topic(topic_id=bytes(16), name="t", partition_count=1, configs=configs)
    return Targets({"t": topic}).of("t")


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=12), st.data(), st.sampled_from(list(Codec)))
def test_records_are_the_rows(
    rows: list[dict[str, Any]], data: st.DataObject, codec: Codec
) -> None:
    """The rows are a slice of a batch, in any order, and are written in batches of at most 400 bytes."""
    first = data.draw(st.integers(0, len(rows) - 1))
    end = data.draw(st.integers(first + 1, len(rows)))
    chosen = data.draw(st.permutations(range(end - first)))
    moments = [
        {
            **row,
            "timestamp": row["timestamp"] and EPOCH + dt.timedelta(microseconds=row["timestamp"]),
        }
        for row in rows
    ]
    batch = normalize(batch_of(moments), None, 77).slice(first, end - first)
    encoded = Encoder(batch, codec).encode(np.array(chosen, np.int64), target(), 0)
    assert max(len(each.data) for each in encoded) <= 400
    found = [
        (record.key, record.value, record.headers, record.timestamp)
        for each in encoded
        for batch_read in read_batches(each.data)
        for record in batch_read.records()
    ]
    wanted = [
        (
            row["key"],
            row["value"],
            tuple((pair["key"].encode(), pair["value"]) for pair in row["headers"] or ()),
            row["timestamp"] // 1000 if row["timestamp"] else 77 if row["timestamp"] is None else 0,
        )
        for row in (rows[first + index] for index in chosen)
    ]
    assert found == wanted
    assert sum(each.record_count for each in encoded) == len(chosen)
    assert max(each.max_timestamp for each in encoded) == max(row[3] for row in wanted)
    plain = Encoder(batch, Codec.NONE)
    for index, size in enumerate(row_sizes(batch)):
        (alone,) = plain.encode(np.array([index], np.int64), target(), 0)
        assert len(alone.data) - 61 <= size


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_texts_and_large_arrays_are_taken(kind: pa.DataType) -> None:
    """Spark sends them with spark.sql.execution.arrow.useLargeVarTypes."""
    values = pa.array(["one", None, "drei"], kind)
    batch = pa.record_batch([values, values, values], names=["other", "value", "key"])
    rows = normalize(batch, "t", 5)
    assert rows.column("value").to_pylist() == [b"one", None, b"drei"]
    assert rows.column("key").to_pylist() == [b"one", None, b"drei"]
    assert rows.column("timestamp").to_pylist() == [5, 5, 5]


@pytest.mark.parametrize("microseconds", [-1, -1000, -1001, 0, 999, 1000])
def test_timestamps_are_rounded_down(microseconds: int) -> None:
    moment = EPOCH + dt.timedelta(microseconds=microseconds)
    rows = normalize(batch_of([{"value": b"", "timestamp": moment}]), "t", 5)
    assert rows.column("timestamp").to_pylist() == [microseconds // 1000]


def put(cluster: Cluster, topic: str, rows: list[dict[str, Any]], **given: str) -> None:
    half = len(rows) // 2
    batches = [batch_of(rows[:half]), batch_of(rows[half:])]
    task = write_task(options(cluster, topic=topic, **given), batches)
    assert commit(cluster, [task], transactional_id=topic)


@pytest.mark.slow
def test_keys_go_where_librdkafka_sends_them(cluster: Cluster) -> None:
    ours, theirs = cluster.create_topic("hashed", 7), cluster.create_topic("produced", 7)
    keys = [b"", *(b"x" * size for size in range(1, 20)), *(b"%d" % n for n in range(300))]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(theirs, b"", key)
    assert producer.flush(60) == 0
    put(cluster, ours, [{"key": key, "value": b""} for key in keys])
    found, wanted = (
        {m.key(): m.partition() for m in consumed(cluster, topic, range(7))}
        for topic in (ours, theirs)
    )
    assert found == wanted
    assert len(found) == len(keys)
    assert set(found.values()) == set(range(7))


def test_a_partition_that_a_row_asks_for_wins(cluster: Cluster) -> None:
    topic = cluster.create_topic("asked", 5)
    rows = [
        {"key": b"k%d" % n, "value": b"%d" % n, "partition": None if n % 3 else n % 5}
        for n in range(100)
    ]
    put(cluster, topic, rows)
    for message in consumed(cluster, topic, range(5)):
        number = int(message.value() or b"")
        if number % 3 == 0:
            assert message.partition() == number % 5


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_consumer_reads_every_codec(cluster: Cluster, codec: str) -> None:
    """Batches are at most 20 kB in size."""
    topic = cluster.create_topic(f"codec-{codec}", 1, {"max.message.bytes": "20000"})
    values = [b"a value that repeats itself %d" % n for n in range(2000)]
    put(cluster, topic, [{"value": value} for value in values], compression=codec)
    assert [message.value() for message in consumed(cluster, topic)] == values


def test_rows_without_a_key_are_spread(cluster: Cluster) -> None:
    topic = cluster.create_topic("spread", 4)
    put(cluster, topic, [{"key": None, "value": b"x" * 100}] * 4000)
    counts = Counter(message.partition() for message in consumed(cluster, topic, range(4)))
    assert sum(counts.values()) == 4000
    assert min(counts[partition] for partition in range(4)) > 800


def test_append_time_is_the_time_of_writing(cluster: Cluster) -> None:
    """S11: the time is chosen before the object is written."""
    topic = cluster.create_topic("append-time", 1, {"message.timestamp.type": "LogAppendTime"})
    early = dt.datetime(2020, 2, 29, tzinfo=dt.UTC)
    before = dt.datetime.now(dt.UTC).timestamp()
    put(cluster, topic, [{"value": b"a", "timestamp": early}, {"value": b"b", "timestamp": early}])
    messages = consumed(cluster, topic)
    assert len(messages) == 2
    for message in messages:
        kind, milliseconds = message.timestamp()
        assert kind == 2
        assert before - 1 < milliseconds / 1000 < before + 300


@pytest.mark.slow
def test_rows_larger_than_a_chunk(cluster: Cluster) -> None:
    """A chunk holds at least one row of any size, and rows stay in order."""
    topic = cluster.create_topic("chunks")
    values = [b"%d" % n * (1 + 97 * (n % 5)) for n in range(200)]
    batch = batch_of([{"value": value} for value in values])
    sizes = TaskSizes(chunk_bytes=300, segment_bytes=500)
    task = write_task(options(cluster, topic=topic), [batch, batch], sizes=sizes)
    assert commit(cluster, [task], transactional_id=topic)
    assert [message.value() for message in consumed(cluster, topic)] == values * 2
