"""Tests that Spark reads records that are still in the journal: in a batch, in a stream, and to count keys."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lacuna.agent.hot import is_hot_key
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.pipeline.audit import AuditOptions, audit
from lacuna.pipeline.datasource.bounds import TopicPartition
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.stores import shared_store
from lacuna.testing import Cluster
from tests.pipeline.conftest import UNMERGED, transact
from tests.pipeline.reading.conftest import Load, options_of
from tests.pipeline.reading.sinks import Sink


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster without merges, whose journal contains all records."""
    with Cluster(
        parts=replace(
            UNMERGED, produce=ProduceSettings(hot_bytes=65_536, hot_copy_interval_ms=3_600_000)
        )
    ) as running:
        yield running


def copies(cluster: Cluster) -> int:
    """Return how many hot segments jobs have put into the bucket."""
    return sum(is_hot_key(info.key) for info in shared_store(cluster.store_url).list())


def test_a_batch_and_the_count_of_keys(cluster: Cluster, load: Load, spark: SparkSession) -> None:
    topic = cluster.create_topic("hot-batch")
    written = transact(cluster, topic, [(each, [(b"a", b"1")]) for each in (True, False, True)])
    rows = {row.offset: (bytes(row.key), bytes(row.value)) for row in load(topic).collect()}
    assert rows == written.committed
    assert copies(cluster) == 2
    options = AuditOptions(topics=(topic,), counts_keys=True)
    report = audit(find_cluster(data=str(cluster.data)), options, lambda: nullcontext(spark))
    assert report.findings == []
    (found,) = report.partitions
    assert found.keys is not None
    assert (found.keys.records, found.keys.distinct_keys) == (2, 1)


def test_a_stream_copies_each_segment_once(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic, sink = cluster.create_topic("hot-stream"), Sink(spark, tmp_path)
    committed: dict[int, tuple[bytes | None, bytes | None]] = {}
    given = options_of(cluster, topic, startingOffsets="earliest")
    before = copies(cluster)
    for number in range(2):
        records = [(b"k%d" % number, b"v")]
        committed |= transact(cluster, topic, [(True, records), (False, records)]).committed
        sink.run(spark.readStream.format("lacuna").options(**given).load())
        assert sink.records() == {TopicPartition(topic, 0): committed}
        assert copies(cluster) == before + number + 1
