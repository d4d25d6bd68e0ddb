"""Tests that an audit of a cluster in use finds nothing, and that jobs leave a valid state behind."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Event

import pytest
from pyspark.sql import SparkSession

from lacuna.agent.housekeeping import HousekeepingSettings, MergeSettings
from lacuna.operating.agents import AgentParts
from lacuna.pipeline.audit import AuditOptions, Kind, audit
from lacuna.pipeline.audit.keys import compacted_offsets, count_keys
from lacuna.pipeline.errors import StaleMetadataError
from lacuna.pipeline.holding import ReadHold
from lacuna.testing import Cluster
from tests.pipeline.audit.conftest import PARTS, Bucket, open_bucket
from tests.pipeline.conftest import at_work, transactional

BUSY = AgentParts(
    housekeeping=HousekeepingSettings(
        merge_interval_ms=50,
        collect_interval_ms=50,
        merge=MergeSettings(min_extents=4, min_age_ms=0),
    )
)


class Load:
    """Transactions over several partitions from several producers, a third of them aborted."""

    def __init__(self, cluster: Cluster, topics: list[str]) -> None:
        self.ended = [0, 0, 0]  # by producer
        self._cluster = cluster
        self._topics = topics

    def under_way(self) -> AbstractContextManager[None]:
        return at_work([partial(self._produce, number) for number in range(len(self.ended))])

    def await_one_after(self, ended: list[int]) -> None:
        """Wait until each producer has ended more transactions, which shows that the load is continuing."""
        deadline = time.monotonic() + 60
        while any(now <= then for now, then in zip(self.ended, ended, strict=True)):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def _produce(self, number: int, is_over: Event) -> None:
        # Its timeout is longer than the time that is jumped over.
        producer = transactional(self._cluster, f"load-{number}")
        count = 0
        while not is_over.is_set():
            producer.begin_transaction()
            for topic in self._topics:
                for partition in range(2):
                    producer.produce(topic, b"v" * 100, b"k%d" % (count % 50), partition)
            producer.flush(60)
            (producer.abort_transaction if count % 3 else producer.commit_transaction)(60)
            count += 1
            self.ended[number] += 1


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [2, 20])
def test_a_live_cluster_gives_no_false_alarm(seconds: float) -> None:
    """Producers, merges and collection continue, topics come and go, and time jumps past the grace period."""
    with Cluster(agents=2, parts=BUSY) as cluster, open_bucket(cluster) as bucket:
        topics = [cluster.create_topic(name, partitions=2) for name in ("one", "two")]
        load = Load(cluster, topics)
        with load.under_way():
            deadline = time.monotonic() + seconds
            rounds = 0
            while time.monotonic() < deadline or rounds < 4:
                before = list(load.ended)
                report = bucket.audit(reads_records=rounds % 2 == 0)
                assert report.errors == [], report.errors
                assert report.notes == []
                assert report.objects_checked > 0
                if rounds % 2:
                    load.await_one_after(before)  # no transaction sees two of the jumps
                    cluster.advance(310_000)
                rounds += 1
            load.await_one_after(before)
        report = bucket.audit()
        assert report.is_sound
        assert report.unsettled == 0
        assert {each.undecided for each in report.partitions} == {0}


@pytest.mark.slow
def test_ongoing_transactions_are_undecided_and_no_finding(bucket: Bucket) -> None:
    """Tests rule S3."""
    topic = bucket.cluster.create_topic("ongoing", partitions=2)
    first, second = (transactional(bucket.cluster, name) for name in ("first", "second"))
    for producer in (first, second):
        producer.begin_transaction()
        producer.produce(topic, b"open", partition=0)
        producer.flush(60)
    second.abort_transaction(60)
    report = bucket.audit(topics=(topic,))
    assert report.errors == []
    pictures = [each.picture for each in report.partitions]
    assert pictures == ["UA", ""]
    first.commit_transaction(60)
    report = bucket.audit(topics=(topic,))
    assert [each.picture for each in report.partitions] == ["CA", ""]
    assert report.is_sound


@pytest.mark.slow
def test_a_pin_that_was_lost_fails_the_audit(bucket: Bucket) -> None:
    with bucket.control() as control, ReadHold(control, 600.0) as kept:
        kept.check()
    with bucket.control() as control, ReadHold(control, 0.4) as lost:
        bucket.cluster.advance(10_000)  # longer than the pin
        assert lost.lost.wait(60)
        with pytest.raises(StaleMetadataError, match="start the job again"):
            lost.check()


@pytest.fixture(scope="module")
def compacting() -> Iterator[Bucket]:
    with Cluster(parts=PARTS) as cluster, open_bucket(cluster) as bucket:
        yield bucket


def test_what_spark_compacted_and_wrote_is_sound(compacting: Bucket, spark: SparkSession) -> None:
    """Below the compacted offset, there is one record per key, and no aborted record."""
    from lacuna.pipeline.compaction.job import Compaction
    from lacuna.pipeline.compaction.settings import CompactionSettings
    from lacuna.pipeline.workers import Workers

    cluster = compacting.cluster
    keyed = cluster.create_topic("keyed", 2, {"cleanup.policy": "compact"})
    plain = cluster.create_topic("unkeyed", 2)
    for topic in (keyed, plain):
        compacting.produce(topic, [True, False, True, True, False], records=6)
    with compacting.control() as control:
        settings = CompactionSettings(rewrites_all=True)
        job = Compaction(control, cluster.store_url, settings, Workers(lambda: spark))
        job.run([keyed, plain])
        topic_id = control.topics()[keyed].topic_id
        logs = control.partition_logs([(topic_id, 0), (topic_id, 1)])
        # What follows was aborted, and nothing of it is left.
        assert set(compacted_offsets(control, logs).values()) == {24}
    compacting.produce(plain, [True], records=6)
    report = audit(compacting.location, AuditOptions(counts_keys=True), lambda: nullcontext(spark))
    assert report.findings == []
    by_name = {(each.topic, each.partition): each for each in report.partitions}
    for partition in range(2):
        each = by_name[keyed, partition]
        assert each.aborted == 0
        assert each.keys is not None
        assert (each.keys.records, each.keys.distinct_keys) == (6, 6)
        each = by_name[plain, partition]
        assert each.keys is not None
        assert (each.keys.records, each.keys.distinct_keys) == (24, 6)
        assert set(each.picture) <= {"M", "C", "."}
        assert each.committed == 6
    assert report.unreferenced.of_the_living >= 10  # replaced, of an agent that still runs


def test_what_spark_wrote_is_sound(compacting: Bucket, spark: SparkSession) -> None:
    topic = compacting.cluster.create_topic("written", 2)
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "CAST(id % 7 AS STRING) AS key",
        "CAST(id AS STRING) AS value",
        "CAST(id % 2 AS INT) AS partition",
    )
    writer = rows.write.format("lacuna").mode("append")
    writer.option("data", str(compacting.cluster.data)).option("topic", topic).save()
    report = compacting.audit(topics=(topic,))
    assert report.findings == []
    assert [each.committed_records for each in report.partitions] == [500, 500]


def test_a_key_with_two_values_where_it_has_one(compacting: Bucket, spark: SparkSession) -> None:
    topic = compacting.cluster.create_topic("twice", 2, {"cleanup.policy": "compact"})
    compacting.produce(topic, [True, True], records=3)
    with compacting.control() as control:
        topic_id = control.topics()[topic].topic_id
        logs = control.partition_logs([(topic_id, 0), (topic_id, 1)])
        assert set(compacted_offsets(control, logs).values()) == {0}
        cluster_id = control.cluster_id
    url = compacting.cluster.store_url
    lie = {(topic_id, 0): 3, (topic_id, 1): 5}
    counts, findings = count_keys(spark, url, cluster_id, logs, lie)
    assert {(each.records, each.distinct_keys) for each in counts.values()} == {(6, 3)}
    (finding,) = findings
    assert finding.kind is Kind.KEYS
    assert "5 records with 3 distinct keys are below offset 5" in finding.reason
    assert finding.hits[0].partition == 1


def test_what_is_damaged_is_told_and_keys_are_not_counted(
    compacting: Bucket, spark: SparkSession
) -> None:
    """Counting keys would read the damaged bytes again and fail with a less precise error."""
    topic = compacting.cluster.create_topic("flipped")
    compacting.produce(topic, [True], partitions=1)
    (key,) = compacting.live_segments(topic)
    data = bytearray(compacting.store.get_all(key))
    position = data.index(b"v" * 40)
    data[position] ^= 1
    before = compacting.replace(key, data)
    options = AuditOptions(topics=(topic,), counts_keys=True)
    try:
        report = audit(compacting.location, options, lambda: nullcontext(spark))
    finally:
        compacting.replace(key, before)
    (finding,) = report.findings
    assert (finding.kind, finding.key, finding.position) == (Kind.DAMAGE, key, position)
    assert [each.keys for each in report.partitions] == [None]
    (remark,) = report.remarks
    assert remark.startswith("keys were not counted")
