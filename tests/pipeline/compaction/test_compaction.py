"""Tests compaction end to end with real transactions, Spark tasks and consumers."""

from collections.abc import Callable
from typing import Any

import pytest

from lacuna.testing import Cluster
from tests.pipeline.compaction.conftest import Compactor, read_partition

_TRANSACTIONS = [
    (True, [(b"a", b"1" * 100), (b"b", b"2" * 100)]),
    (False, [(b"c", b"x" * 1000)] * 50),
    (True, [(b"d", None)]),
    (False, [(b"e", b"y" * 1000)] * 20),
]


@pytest.mark.parametrize(
    "cluster", ["directory", pytest.param("moto", marks=pytest.mark.smoke)], indirect=True
)
def test_s14_s19_a_consumer_reads_the_same_before_and_after(
    cluster: Cluster, compactor: Compactor, transact: Callable[..., Any]
) -> None:
    """S14, S16, S19: offsets, keys, values, headers and timestamps stay, and aborted payload is not read."""
    topic = cluster.create_topic("same", partitions=3)
    for partition in range(3):
        transact(cluster, topic, _TRANSACTIONS * 5, partition)
    before = [read_partition(cluster, topic, partition) for partition in range(3)]
    assert [len(records) for records in before] == [15, 15, 15]
    logs = compactor.logs(topic)
    committed = sum(piece.size for log in logs for piece in log.pieces(0, log.high_watermark))
    report = compactor.run(topic)
    assert not report.refused
    assert not report.failed
    assert report.work.partitions == 3
    assert report.work.bytes_read == committed
    assert report.work.bytes_between == 0
    assert report.work.aborted_bytes_not_read == report.total.before.bytes - committed > 0
    assert report.total.after.dead_ranges == 0 < report.total.before.dead_ranges
    assert report.total.after.extents == 3
    assert report.total.after.objects == report.work.puts == 1
    assert report.total.after.metadata_bytes < report.total.before.metadata_bytes / 5
    assert [read_partition(cluster, topic, partition) for partition in range(3)] == before
    assert compactor.run(topic).work.tasks == 0  # nothing is left to do
