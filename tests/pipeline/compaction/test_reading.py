"""Tests which aborted records between committed ones a compaction on S3 reports as read (S18, adr/0021)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest
from confluent_kafka import Producer

from lacuna.agent.produce.settings import ProduceSettings
from lacuna.logstore.objects.s3 import READ_GAP
from lacuna.pipeline.extents import PartitionLog
from lacuna.testing import Cluster
from tests.pipeline.compaction.conftest import Compactor, read_partition
from tests.pipeline.conftest import UNMERGED
from tests.shared_moto import moto_url

PRODUCERS = 24
RECORDS = [b"x" * 1000] * 20
SHARING = replace(UNMERGED, produce=ProduceSettings(flush_interval_ms=250, hot_bytes=0))
"""A flush waits for the other producers, since it is over too soon for them to come by chance."""


@pytest.fixture(scope="module", params=["directory"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    store = moto_url(request) if request.param == "moto" else ""
    with Cluster(store=store, parts=SHARING) as running:
        yield running


def write(cluster: Cluster, topic: str) -> None:
    """Write concurrent transactions of 20 kB that share segments. Every fourth is committed."""
    # Each is one batch, which leaves with all others.
    settings = {"bootstrap.servers": cluster.bootstrap, "linger.ms": 30_000}
    producers = [
        Producer({**settings, "transactional.id": f"{topic}-{number}"})
        for number in range(PRODUCERS)
    ]
    for producer in producers:
        producer.init_transactions(60)
        producer.begin_transaction()
    for producer in producers:
        for value in RECORDS:
            producer.produce(topic, value, partition=0)
    with ThreadPoolExecutor(PRODUCERS) as pool:
        assert not any(pool.map(lambda producer: producer.flush(60), producers))
    for number, producer in enumerate(producers):
        if number % 4:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def gaps(log: PartitionLog) -> int:
    """Return the bytes between neighbouring extents that reads from S3 include."""
    pieces = sorted(log.pieces(0, log.high_watermark))
    return sum(
        gap
        for one, two in pairwise(pieces)
        if one[:2] == two[:2] and (gap := two.position - one.position - one.size) <= READ_GAP
    )


def written(cluster: Cluster, compactor: Compactor) -> tuple[str, PartitionLog]:
    """A topic with gaps. How many transactions share a segment depends on the machine's speed."""
    for number in range(10):
        topic = cluster.create_topic(f"gaps-{number}")
        write(cluster, topic)
        (log,) = compactor.logs(topic)
        if gaps(log):
            return topic, log
    raise AssertionError("no two committed transactions have come to stand in one segment")


@pytest.mark.parametrize("cluster", ["directory", "moto"], indirect=True)
def test_s18_what_was_read_between_committed_records_is_told(
    cluster: Cluster, compactor: Compactor, request: pytest.FixtureRequest
) -> None:
    """On S3, a gap is read if that costs less than another request. A directory reads none."""
    topic, log = written(cluster, compactor)
    committed = sum(piece.size for piece in log.pieces(0, log.high_watermark))
    aborted = sum(log.extents.sizes) - committed
    assert len(log.extents) == PRODUCERS
    work = compactor.run(topic).work
    assert work.bytes_read == committed + work.bytes_between
    assert work.aborted_bytes_not_read == aborted - work.bytes_between
    if request.node.callspec.params["cluster"] == "directory":
        assert work.bytes_between == 0
    else:
        assert work.bytes_between == gaps(log)
    assert len(read_partition(cluster, topic)) == len(RECORDS) * PRODUCERS // 4
