"""Tests streams: exactly once across restarts, never past the last stable offset, and across holes of any length."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lacuna.pipeline.datasource import pinning
from lacuna.pipeline.datasource.bounds import TopicPartition
from lacuna.pipeline.datasource.progress import lag
from lacuna.pipeline.errors import DataLossError
from lacuna.testing import Cluster
from tests.pipeline.conftest import (
    MERGES,
    MERGING,
    at_work,
    control_of,
    housekeeping_of,
    pins_of,
    publish_snapshot,
    transact,
    transactional,
)
from tests.pipeline.reading.conftest import options_of, stream_reader
from tests.pipeline.reading.sinks import Sink

Stream = Callable[..., DataFrame]


@pytest.fixture
def stream(spark: SparkSession) -> Stream:
    """stream(cluster, topic, **options) -> DataFrame, by default from the earliest offset."""

    def of_topic(cluster: Cluster, topic: str, **options: Any) -> DataFrame:
        given = options_of(cluster, topic, **{"startingOffsets": "earliest", **options})
        return spark.readStream.format("lacuna").options(**given).load()

    return of_topic


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    return Sink(spark, tmp_path)


@pytest.mark.parametrize("cluster", ["directory", "moto"], indirect=True)
def test_available_now_reads_committed_records_once(
    cluster: Cluster, stream: Stream, sink: Sink
) -> None:
    """Tests rules S13 and S14."""
    topic = cluster.create_topic("available")
    written = transact(cluster, topic, [(True, [(b"a", b"1")]), (False, [(b"b", b"2")] * 30)])
    sink.run(stream(cluster, topic))
    sink.run(stream(cluster, topic))
    assert sink.records() == {TopicPartition(topic, 0): written.committed}
    more = transact(cluster, topic, [(True, [(b"c", b"3")])])
    query = sink.run(stream(cluster, topic))
    assert sink.records() == {TopicPartition(topic, 0): written.committed | more.committed}
    found = lag(query.lastProgress)
    assert found is not None
    assert found.partitions == {TopicPartition(topic, 0): 0}


def test_available_now_from_a_time_reads_in_its_first_run(
    cluster: Cluster, stream: Stream, sink: Sink
) -> None:
    topic = cluster.create_topic("available-from")
    written = transact(cluster, topic, [(True, [(b"a", b"1")] * 3)])
    sink.run(stream(cluster, topic, startingTimestamp="1"))
    assert sink.records() == {TopicPartition(topic, 0): written.committed}


def test_metadata_from_the_bucket_goes_on_with_every_newer_snapshot(
    cluster: Cluster, stream: Stream, sink: Sink
) -> None:
    """Without a server, unpublished records are not visible yet."""
    topic = cluster.create_topic("published")
    where = {"data": "", "metadata": "bucket", "store": cluster.store_url}

    def run_after(*, publishes: bool) -> int:
        if publishes:
            publish_snapshot(cluster)
        sink.run(stream(cluster, topic, **where))
        return sum(map(len, sink.records().values()))

    for count in (3, 4):
        transact(cluster, topic, [(True, [(b"k", b"v")] * count), (False, [(b"k", b"w")])])
        before = 0 if count == 3 else run_after(publishes=False)
        assert run_after(publishes=True) == before + count


def test_limits_spread_over_partitions_and_jump_holes(
    cluster: Cluster, stream: Stream, sink: Sink
) -> None:
    """S16, S18: maxOffsetsPerTrigger counts only readable records, so holes do not count."""
    topic = cluster.create_topic("limited", 2)
    records = [(b"k", b"v")] * 10
    outcomes = [True, False, False, False, True]
    for partition, times in ((0, 3), (1, 1)):
        transact(cluster, topic, [(each, records) for each in outcomes * times], partition)
    query = sink.run(stream(cluster, topic, maxOffsetsPerTrigger="20"))
    rows = [progress.numInputRows for progress in query.recentProgress]
    assert rows == [20, 20, 20, 20]
    first = query.recentProgress[0].sources[0]
    assert '"0": 45' in first.endOffset  # 15 records, and the hole behind ten of them
    found = lag(query.recentProgress[0])
    assert found is not None
    assert found.max_offsets_behind_latest == 150 - 45
    assert sum(map(len, sink.records().values())) == 80


def test_a_trigger_of_holes_alone(cluster: Cluster, stream: Stream, sink: Sink) -> None:
    """S16: the trigger advances with zero rows."""
    topic = cluster.create_topic("hollow", 2)
    aborted = [(False, [(b"k", b"v")] * 50)] * 3
    transact(cluster, topic, aborted, 0)
    query = sink.run(stream(cluster, topic))
    progress = query.lastProgress
    assert progress is not None
    assert '"0": 150' in progress.sources[0].endOffset
    assert progress.numInputRows == 0
    transact(cluster, topic, aborted, 0)
    written = transact(cluster, topic, [*aborted, (True, [(b"a", b"b")])], 1)
    sink.run(stream(cluster, topic, maxOffsetsPerTrigger="1"))
    assert sink.records() == {TopicPartition(topic, 1): written.committed}


def test_s3_an_open_transaction_holds_the_stream_back(
    cluster: Cluster, stream: Stream, sink: Sink
) -> None:
    """Tests rules S3 and S13."""
    topic = cluster.create_topic("held-back")
    producer = transactional(cluster, "held")
    for value in (b"first", b"second"):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(60)
        sink.run(stream(cluster, topic))
        before = sink.records().get(TopicPartition(topic, 0), {})
        producer.commit_transaction(60)
        sink.run(stream(cluster, topic))
        after = sink.records()[TopicPartition(topic, 0)]
        assert {each for _, each in after.values()} - {each for _, each in before.values()} == {
            value
        }


class Writing:
    """Runs transactions over two partitions in a thread. Every third one is aborted."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._has_begun = Event()
        self.committed: dict[TopicPartition, dict[int, tuple[bytes | None, bytes | None]]] = {}
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "linger.ms": 0}
        )
        self._producer.init_transactions(60)

    def _run(self, is_over: Event) -> None:
        for number in itertools.count():
            if is_over.is_set():
                return
            self._transaction(number)

    def _transaction(self, number: int) -> None:
        found: list[Any] = []
        self._producer.begin_transaction()
        for index in range(10):
            self._producer.produce(
                self._topic,
                b"%d-%d" % (number, index),
                b"%d" % number,
                index % 2,
                on_delivery=lambda error, message: found.append(message),
            )
        self._producer.flush(60)
        if number % 3 == 1:
            self._producer.abort_transaction(60)
            return
        self._producer.commit_transaction(60)
        for message in found:
            partition = TopicPartition(self._topic, message.partition())
            self.committed.setdefault(partition, {})[message.offset()] = (
                message.key(),
                message.value(),
            )
        self._has_begun.set()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Run transactions during the block."""
        with at_work([self._run]):
            assert self._has_begun.wait(60)
            yield


@pytest.mark.parametrize("start", ["earliest", pytest.param("latest", marks=pytest.mark.slow)])
def test_s14_exactly_once_over_restarts_and_merges(
    spark: SparkSession, stream: Stream, sink: Sink, start: str
) -> None:
    """S14, S19: a query is stopped in mid-batch five times while segments are merged and transactions arrive. In the
    end, every committed record is there once.
    """
    often = replace(MERGES, merge_interval_ms=200, collect_interval_ms=200)
    with Cluster(parts=replace(MERGING, housekeeping=often)) as cluster:
        topic = cluster.create_topic("restarted", 2)
        writing = Writing(cluster, topic)
        options = {"startingOffsets": start, "maxOffsetsPerTrigger": "200"}
        sink.run(stream(cluster, topic, **options))
        with writing.under_way():
            for _ in range(5):
                query = sink.start(stream(cluster, topic, **options))
                sink.wait_for_batch(query, 1)
                query.stop()
        sink.run(stream(cluster, topic, startingOffsets=start))
        assert sink.records() == writing.committed


def test_the_beginning_is_kept_when_the_first_batch_fails(
    cluster: Cluster, stream: Stream, sink: Sink, spark: SparkSession, tmp_path: Path
) -> None:
    """From "latest", records that arrive after the query has begun are read, although its first batch failed."""
    topic = cluster.create_topic("late")
    transact(cluster, topic, [(True, [(b"k", b"before")])])
    frame = stream(cluster, topic, startingOffsets="latest")
    failing = frame.selectExpr("*", "raise_error('no')")
    query = sink.start(failing)
    sink.wait_for_batch(query, 1)
    written = transact(cluster, topic, [(True, [(b"k", b"after")])])
    with pytest.raises(StreamingQueryException, match="no"):
        query.awaitTermination(240)
    transact(cluster, topic, [(False, [(b"k", b"v")])])
    sink.run(frame)
    assert sink.records() == {TopicPartition(topic, 0): written.committed}


def test_a_first_batch_from_latest_is_empty(cluster: Cluster) -> None:
    """After a crash in it, the requested beginning is later, so nothing may depend on the first one."""
    topic = cluster.create_topic("first-batch")
    transact(cluster, topic, [(True, [(b"k", b"before")] * 2)])

    latest = {"startingOffsets": "latest"}
    with (
        stream_reader(cluster, topic, **latest) as first,
        stream_reader(cluster, topic, **latest) as restarted,
    ):
        initial = first.initialOffset()
        transact(cluster, topic, [(True, [(b"k", b"meanwhile")] * 3)])
        assert first.latestOffset(initial, ReadAllAvailable()) == initial
        assert initial[topic]["0"] == 2
        assert first.initialOffset() == initial
        later = restarted.initialOffset()
        assert later == {topic: {**initial[topic], "0": 5}}
        assert first.latestOffset(initial, ReadAllAvailable()) == later
        assert restarted.partitions(later, initial) == []
        assert restarted.latestOffset(initial, ReadAllAvailable()) == later
        (task,) = restarted.partitions(initial, later)
        assert sum(map(len, restarted.read(task))) == 3


@pytest.mark.parametrize("pin", ["1h", "0s"])
def test_a_batch_is_pinned_until_it_is_over(pin: str) -> None:
    """S19: after a merge and a collection, it can still be read as planned, but not without a pin."""
    with Cluster(parts=MERGING) as cluster:
        topic = cluster.create_topic("held")
        written = transact(cluster, topic, [(True, [(b"k", b"v" * 100)])] * 10)
        with stream_reader(cluster, topic, pin=pin) as reader:
            end = reader.latestOffset({topic: {"0": 0}}, ReadAllAvailable())
            tasks = reader.partitions({topic: {"0": 0}}, end)
            housekeeping = housekeeping_of(cluster)
            cluster.run(housekeeping.merge())
            for _ in range(30):
                cluster.advance(60_000)
                reader.prolong_pins()  # as its thread does
            cluster.run(housekeeping.collect())
            with nullcontext() if pin == "1h" else pytest.raises(DataLossError):
                batches = [batch for task in tasks for batch in reader.read(task)]
                assert sum(map(len, batches)) == len(written.committed)
            reader.commit(end)


def test_a_query_that_was_killed_pins_nothing_for_long() -> None:
    """It extends its pins only while it is running, and by the requested time at most."""
    with Cluster(parts=MERGING) as cluster:
        topic = cluster.create_topic("killed")
        transact(cluster, topic, [(True, [(b"k", b"v")])])
        pins = pins_of(cluster)
        before = set(pins)
        with (
            stream_reader(cluster, topic, pin="1h") as reader,
            stream_reader(cluster, topic, pin="1s") as brief,
        ):
            for each in (reader, brief):
                end = each.latestOffset({topic: {"0": 0}}, ReadAllAvailable())
                each.partitions({topic: {"0": 0}}, end)
            first = min(set(pins) - before)
            cluster.advance(100_000)
            reader.prolong_pins()
            cluster.advance(100_000)
            assert set(pins) - before == {first}
            cluster.advance(100_000)
            assert set(pins) <= before


def test_a_pin_that_has_ended_is_no_error() -> None:
    """A batch outlasts its pin, or a pin is released twice, as after a lost answer."""
    with Cluster(parts=MERGING) as cluster:
        topic = cluster.create_topic("outlived")
        transact(cluster, topic, [(True, [(b"k", b"v")])])
        with stream_reader(cluster, topic, pin="1m") as reader:
            end = reader.latestOffset({topic: {"0": 0}}, ReadAllAvailable())
            (task,) = reader.partitions({topic: {"0": 0}}, end)
            cluster.advance(2 * 60_000)
            assert sum(map(len, reader.read(task))) == 1
            reader.commit(end)
        with control_of(cluster) as control:
            pin_id = pinning.pin(control, 60)
            assert pin_id is not None
            pinning.unpin(control, pin_id)
            pinning.unpin(control, pin_id)


def test_topics_and_partitions_that_come_later(
    cluster: Cluster, stream: Stream, sink: Sink
) -> None:
    frame = stream(cluster, "", subscribePattern="later-.*", startingOffsets="latest")
    query = sink.start(frame)
    expected = {}
    try:
        sink.wait_for_batch(query, 1)
        for name in ("later-a", "later-b"):
            topic = cluster.create_topic(name)
            written = transact(cluster, topic, [(True, [(b"k", name.encode())])])
            expected[TopicPartition(topic, 0)] = written.committed
            query.processAllAvailable()
            assert sink.records() == expected
    finally:
        query.stop()


def test_the_control_plane_is_restarted(stream: Stream, sink: Sink) -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("survivor")
        expected: dict[int, Any] = {}
        query = sink.start(stream(cluster, topic))
        try:
            for value in (b"1", b"2", b"3"):
                written = transact(cluster, topic, [(True, [(b"k", value)])])
                expected |= written.committed
                query.processAllAvailable()
                assert sink.records() == {TopicPartition(topic, 0): expected}
                cluster.kill()
                cluster.start()
        finally:
            query.stop()


def test_what_is_gone_fails_a_stream_unless_it_may(
    cluster: Cluster, stream: Stream, sink: Sink
) -> None:
    """Retention passes the offset in the checkpoint."""
    configs = {"retention.ms": "600000", "message.timestamp.type": "LogAppendTime"}
    topic = cluster.create_topic("passed", configs=configs)
    written = transact(cluster, topic, [(True, [(b"k", b"1")])])
    sink.run(stream(cluster, topic))
    transact(cluster, topic, [(True, [(b"k", b"2")])])
    cluster.advance(3_600_000)
    rest = transact(cluster, topic, [(True, [(b"k", b"3")])])
    with pytest.raises(StreamingQueryException) as failed:
        sink.run(stream(cluster, topic))
    assert "DataLossError: passed-0 begins at offset 2, but the query is at 1" in str(failed.value)
    sink.run(stream(cluster, topic, failOnDataLoss="false"))
    assert sink.records() == {TopicPartition(topic, 0): written.committed | rest.committed}


def test_mistakes_of_a_stream(cluster: Cluster, stream: Stream, sink: Sink) -> None:
    cluster.create_topic("mistaken")
    for options, message in (
        ({"endingOffsets": "latest"}, "OptionError: option endingOffsets: a stream has no end"),
        ({"subscribe": "nowhere"}, "PipelineError: there is no topic nowhere"),
    ):
        with pytest.raises(StreamingQueryException) as failed:
            sink.run(stream(cluster, "mistaken", **options))
        assert message in str(failed.value)
        assert "Traceback" not in str(failed.value)
