"""Tests that a batch reads what a read_committed consumer receives, using only the bucket."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.pipeline.datasource.spark_api import ReadAllAvailable
from lacuna.pipeline.errors import PipelineError
from lacuna.testing import Cluster
from tests.pipeline.conftest import consumed, publish_snapshot, transact, transactional
from tests.pipeline.reading.conftest import Load, Planned, stream_reader, values_of

Plan = Callable[..., Planned]

#: Headers with a key twice, a null value, an empty one, and one that is not ASCII.
_HEADERS = [("a", b"1"), ("a", None), ("b", b""), ("é", "ü".encode())]
_RECORDS: list[dict[str, Any]] = [
    {"key": b"k", "value": b"v", "headers": _HEADERS},
    {"key": None, "value": b"no key"},
    {"key": b"tombstone", "value": None},
    {"key": b"", "value": b""},
    {"key": None, "value": None, "headers": [("only", None)]},
    {"key": b"old", "value": b"x" * 5000, "timestamp": 1_000_000_000_123},
]


def _produce(cluster: Cluster, topic: str, partitions: int, codec: str) -> None:
    """Produce records in alternately aborted and committed transactions, and some without a transaction."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": f"{topic}-{codec}",
            "compression.type": codec,
        }
    )
    plain = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec})
    producer.init_transactions(60)
    for is_committed in (False, True, False, True):
        producer.begin_transaction()
        for partition in range(partitions):
            for record in _RECORDS:
                producer.produce(topic, partition=partition, **record)
        producer.flush(60)
        for partition in range(partitions):
            plain.produce(topic, b"between", b"plain", partition=partition)
        plain.flush(60)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(60)


def _row_of(message: Any) -> tuple[Any, ...]:
    headers = message.headers()
    timestamp_type, timestamp = message.timestamp()
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        timestamp,
        timestamp_type - 1,  # librdkafka counts from "not available"
        None if headers is None else [tuple(header) for header in headers],
    )


@pytest.mark.parametrize("cluster", ["moto"], indirect=True)
def test_s14_the_frame_is_what_a_read_committed_consumer_gets(cluster: Cluster, load: Load) -> None:
    """S13, S14, S19: keys, values, headers, timestamps and offsets match for every codec."""
    keeping, appending = {"retention.ms": "-1"}, {"message.timestamp.type": "LogAppendTime"}
    topics = {
        cluster.create_topic("frame", 2, keeping): 2,
        cluster.create_topic("frame-appended", 1, {**keeping, **appending}): 1,
    }
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for topic, partitions in topics.items():
            _produce(cluster, topic, partitions, codec)
    frame = load("", subscribe="frame,frame-appended", includeHeaders="true").selectExpr(
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "unix_millis(timestamp)",
        "timestampType",
        "headers",
    )
    found = [tuple(row) for row in frame.collect()]
    expected = [
        _row_of(message)
        for topic, partitions in topics.items()
        for partition in range(partitions)
        for message in consumed(cluster, topic, [partition])
    ]
    assert len(expected) == 3 * 5 * (2 * len(_RECORDS) + 4)
    assert sorted(found, key=lambda row: row[:3]) == expected
    assert {row[6] for row in found} == {0, 1}


def _next_second() -> int:
    """Wait until the next second has begun. Return its start in milliseconds."""
    second_ms = (wall_clock_ms() // 1000 + 1) * 1000
    while wall_clock_ms() < second_ms + 50:
        time.sleep(0.01)
    return second_ms


def _transfers(cluster: Cluster, name: str) -> tuple[str, Producer, Callable[[], None]]:
    """Create two topics, and block the second with an open transaction. Return them, its producer, and a transfer."""
    topics = [cluster.create_topic(f"{name}-{side}", 1) for side in ("debit", "credit")]
    holder, mover = (transactional(cluster, f"{name}-{role}") for role in ("holds", "moves"))

    def move() -> None:
        mover.begin_transaction()
        for topic in topics:
            mover.produce(topic, b"moved")
        mover.commit_transaction(60)

    holder.begin_transaction()
    holder.produce(topics[1], b"held")
    assert holder.flush(60) == 0
    return ",".join(topics), holder, move


@pytest.mark.slow
def test_s3_a_batch_with_a_cut_splits_no_transaction(cluster: Cluster, plan: Plan) -> None:
    topics, holder, move = _transfers(cluster, "cut-batch")
    move()

    def values(**options: Any) -> list[bytes]:
        return [row["value"] for row in plan(topics, **options).rows()]

    assert values() == [b"moved"]
    assert values(cut="transactions") == []
    publish_snapshot(cluster)
    then = str(_next_second())
    holder.commit_transaction(60)
    assert sorted(values(cut="transactions")) == [b"held", b"moved", b"moved"]
    assert values(asOf=then) == [b"moved"]
    assert values(asOf=then, cut="transactions") == []
    with pytest.raises(PipelineError, match="contains a cut only as of its own time"):
        values(metadata="bucket", asOf=then, cut="transactions")
    assert values(metadata="bucket") == [b"moved"]
    assert values(metadata="bucket", cut="transactions") == []


def test_s3_each_micro_batch_with_a_cut_has_whole_transactions(cluster: Cluster) -> None:
    topics, holder, move = _transfers(cluster, "cut-stream")
    with stream_reader(cluster, topics, cut="transactions") as reader:
        start = reader.initialOffset()
        move()
        held = reader.latestOffset(start, ReadAllAvailable())
        assert [parts["0"] for parts in held.values()] == [0, 0]
        holder.commit_transaction(60)
        end = reader.latestOffset(held, ReadAllAvailable())
        assert [parts["0"] for parts in end.values()] == [2, 1]
        assert sorted(values_of(reader, held, end)) == [b"held", b"moved", b"moved"]


def test_a_past_time_shows_what_a_consumer_could_see(
    cluster: Cluster, plan: Plan, load: Load
) -> None:
    """The later outcome of open transactions does not matter. A metadata snapshot gives the same result."""
    topic = cluster.create_topic("past", 2)
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    open_ones = [transactional(cluster, f"past-{end}") for end in ("commits", "aborts")]
    plain.produce(topic, b"before", partition=0)
    plain.flush(60)
    for producer in open_ones:
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, b"open", partition=partition)
        producer.flush(60)
    then = _next_second()
    commits, aborts = open_ones
    commits.commit_transaction(60)
    aborts.abort_transaction(60)
    plain.produce(topic, b"after", partition=1)
    plain.flush(60)
    now = _next_second()

    def values(**options: Any) -> list[tuple[int, int, bytes]]:
        rows = plan(topic, **options).rows()
        return [(row["partition"], row["offset"], row["value"]) for row in rows]

    before, after = [(0, 0, b"before")], [(0, 1, b"open"), (1, 0, b"open"), (1, 2, b"after")]
    assert values(asOf=then) == before
    assert values(asOf=now) == values() == before + after
    assert values(asOf=then, startingOffsets='{"past":{"0":1,"1":1}}') == []
    frame = load(topic, asOf=then)
    assert [tuple(row) for row in frame.select("partition", "offset").collect()] == [(0, 0)]
    with pytest.raises(PipelineError, match="the visible part of past is known only from"):
        values(asOf="2020-01-01T00:00Z")

    publish_snapshot(cluster)
    plain.produce(topic, b"later", partition=0)
    plain.flush(60)
    later = _next_second()
    assert values(asOf=then, metadata="bucket") == before
    assert values(asOf=now, metadata="bucket") == before + after
    assert values(asOf=later, metadata="bucket") == before + after
    assert len(values(asOf=later)) == len(before + after) + 1
    with pytest.raises(PipelineError, match="the visible part of past is known only from"):
        values(asOf="2020-01-01T00:00Z", metadata="bucket")


@pytest.mark.parametrize(
    "outcomes",
    [
        pytest.param([False, True, True], id="at the start"),
        pytest.param([True, False, False, True], id="in the middle"),
        pytest.param([True, True, False], id="at the end"),
        pytest.param([False, False], id="nothing else"),
        pytest.param([], id="empty"),
    ],
)
def test_s18_aborted_records_are_not_read(
    cluster: Cluster, plan: Plan, outcomes: list[bool], request: Any
) -> None:
    """Tests rules S14, S16 and S18."""
    topic = cluster.create_topic("holes" + "".join("AC"[each] for each in outcomes))
    records = [(b"k%d" % i, b"v" * 50) for i in range(20)]
    written = transact(cluster, topic, [(each, records) for each in outcomes])
    planned = plan(topic)
    assert planned.records() == written.committed
    committed = sum(outcomes)
    assert (planned.stored_bytes > 0) == (committed > 0)
    all_of_it = plan(topic, isolation="read_uncommitted")
    assert all_of_it.records() == written.committed | written.aborted
    if outcomes:
        assert planned.stored_bytes * len(outcomes) == all_of_it.stored_bytes * committed


def test_s13_an_ongoing_transaction_is_not_passed(cluster: Cluster, plan: Plan) -> None:
    """Tests rules S3 and S13."""
    topic = cluster.create_topic("ongoing")
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    producer = transactional(cluster, "ongoing")

    def produce(by: Producer, value: bytes) -> None:
        by.produce(topic, value)
        by.flush(60)

    produce(plain, b"before")
    producer.begin_transaction()
    produce(producer, b"open")
    produce(plain, b"behind")
    assert [value for _, value in plan(topic).records().values()] == [b"before"]
    all_of_it = plan(topic, isolation="read_uncommitted")
    assert [value for _, value in all_of_it.records().values()] == [b"before", b"open", b"behind"]
    producer.commit_transaction(60)
    assert plan(topic).offsets() == [0, 1, 2]


def test_some_columns_alone(cluster: Cluster, load: Load) -> None:
    """A user's schema selects columns, in its order. Omitted columns are not decoded."""
    topic = cluster.create_topic("columns")
    transact(cluster, topic, [(True, [(b"k", b"v"), (None, b"w")])])
    frame = load(topic, "offset long, topic string, key binary")
    assert frame.columns == ["offset", "topic", "key"]
    assert [tuple(row) for row in frame.collect()] == [(0, topic, b"k"), (1, topic, None)]
    assert load(topic, "value binary not null").count() == 2
    for columns, message in {
        "offset int": "column 'offset' has type bigint, but the schema specifies int",
        "ofset long": "the schema has a column 'ofset', but the source has key, value, topic",
        "headers array<string>": "a column 'headers', .* set includeHeaders=true",
    }.items():
        with pytest.raises(Exception, match=message):
            load(topic, columns).collect()


@pytest.mark.slow
def test_subscribe_pattern_and_assign(cluster: Cluster, plan: Plan) -> None:
    for name in ("pattern-a", "pattern-b", "pattern-other"):
        topic = cluster.create_topic(name, 2)
        for partition in range(2):
            transact(cluster, topic, [(True, [(None, f"{name}-{partition}".encode())])], partition)
    for pattern in ("pattern-[ab]$", "tern-[a-m]"):
        found = plan("", subscribePattern=pattern).rows()
        assert {row["topic"] for row in found} == {"pattern-a", "pattern-b"}
    found = plan("", assign='{"pattern-a":[1],"pattern-other":[0]}').rows()
    assert [row["value"] for row in found] == [b"pattern-a-1", b"pattern-other-0"]
    assert plan("", subscribePattern="nothing.*").rows() == []


def test_a_partition_is_split(cluster: Cluster, load: Load, plan: Plan) -> None:
    """minPartitions and maxRecordsPerPartition both divide the offsets evenly, even within an extent."""
    topic = cluster.create_topic("split", 2)
    records = [(b"k", b"v" * 500)] * 20
    for partition in range(2):
        transact(cluster, topic, [(True, records), (False, records)] * 8, partition)
    assert len(plan(topic).tasks) == 2
    split = plan(topic, minPartitions=8)
    assert len(split.tasks) == 8
    assert len(plan(topic, minPartitions=100).tasks) == 100  # of 16 extents
    sizes = [sum(task.pieces.sizes) for task in split.tasks]
    assert max(sizes) <= 2 * min(sizes)
    assert split.rows() == plan(topic).rows()
    capped = plan(topic, maxRecordsPerPartition=7)
    assert capped.rows() == plan(topic).rows()
    assert len(capped.tasks) == 2 * -(-160 // 7)
    assert all(sum(map(len, capped.reader.read(task))) <= 7 for task in capped.tasks)
    frame = load(topic, minPartitions="8")
    assert frame.rdd.getNumPartitions() == len(split.tasks)
    assert frame.count() == 320


def test_a_plain_session_reads_too(spark: SparkSession, cluster: Cluster, load: Load) -> None:
    """Without spark.sql.python.filterPushdown.enabled, Spark rejects a reader with pushFilters."""
    topic = cluster.create_topic("plain")
    transact(cluster, topic, [(True, [(b"k", b"%d" % i) for i in range(10)])])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        for pushdown in ("true", "false"):
            frame = load(topic, pushdown=pushdown)
            assert frame.filter("offset >= 8 and partition = 0").count() == 2
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
