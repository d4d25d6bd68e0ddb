"""A cluster with everything that an audit examines, and audits run in this process."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from confluent_kafka import Producer

from lacuna.agent.housekeeping import MergeSettings
from lacuna.logstore.objects import ObjectStore, open_store
from lacuna.pipeline.audit import AuditOptions, Report, audit
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.location import ClusterLocation, find_cluster
from lacuna.testing import Cluster
from tests.pipeline.conftest import MERGES, MERGING, control_of, publish_snapshot
from tests.shared_moto import moto_url

_MERGE = MergeSettings(min_extents=4, min_age_ms=0)
PARTS = replace(MERGING, housekeeping=replace(MERGES, merge=_MERGE))


@dataclass(slots=True)
class Bucket:
    """A running cluster, and how many committed and aborted records it has, by (topic, partition)."""

    cluster: Cluster
    store: ObjectStore
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    aborted: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def location(self) -> ClusterLocation:
        return find_cluster(data=str(self.cluster.data))

    def audit(self, **options: Any) -> Report:
        """Run an audit without Spark, and check that every finding converts to JSON."""
        report = audit(self.location, AuditOptions(**options), None)
        assert json.loads(json.dumps(report.as_json()))["is_sound"] == report.is_sound
        return report

    def control(self) -> JobClient:
        return control_of(self.cluster)

    def segments(self) -> list[str]:
        return [info.key for info in self.store.list() if info.key.endswith(".seg")]

    def live_segments(self, topic: str) -> list[str]:
        """Return the keys of segments that contain a partition of the topic."""
        with self.control() as control:
            found = control.topics()[topic]
            keys = [(found.topic_id, number) for number in range(found.partition_count)]
            return sorted(
                {
                    log.piece(index).key(control.cluster_id)
                    for log in control.partition_logs(keys)
                    for index in range(len(log.extents))
                }
            )

    def replace(self, key: str, data: bytes | bytearray | None) -> bytes:
        """Store other bytes under a key, or delete it if `data` is None. Return the old bytes."""
        before = bytes(self.store.get_all(key))
        self.store.delete([key])
        if data is not None:
            self.store.put(key, [data])
        return before

    def merge(self) -> None:
        for agent in self.cluster.embedded.agents:
            assert agent.housekeeping is not None
            self.cluster.run(agent.housekeeping.merge())

    def publish(self) -> None:
        publish_snapshot(self.cluster)

    def produce(
        self, topic: str, transactions: list[bool], records: int = 4, partitions: int = 2
    ) -> None:
        """Write one transaction for each entry, with this many records per partition. False aborts it."""
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "transactional.id": f"to-{topic}",
                "linger.ms": 30_000,  # so that `flush` sends each transaction at once
            }
        )
        producer.init_transactions(60)
        for is_committed in transactions:
            producer.begin_transaction()
            for number in range(records):
                for partition in range(partitions):
                    producer.produce(topic, b"v" * 40, b"k%d" % number, partition)
            producer.flush(60)
            (producer.commit_transaction if is_committed else producer.abort_transaction)(60)
            found = self.committed if is_committed else self.aborted
            for partition in range(partitions):
                found[topic, partition] = found.get((topic, partition), 0) + records


@contextmanager
def open_bucket(cluster: Cluster) -> Iterator[Bucket]:
    """Open a bucket with its own store, to which a test can add objects."""
    with closing(open_store(cluster.store_url)) as store:
        yield Bucket(cluster, store)


def fill(bucket: Bucket) -> None:
    """Write transactions, both merged and unmerged, append times, compressed batches, and a metadata snapshot."""
    cluster = bucket.cluster
    merged = cluster.create_topic("merged", partitions=2)
    bucket.produce(merged, [True, False, True, False, False, True, True, False])
    bucket.merge()
    bucket.produce(merged, [True, False])
    plain = cluster.create_topic("plain", partitions=2)
    bucket.produce(plain, [False, True, False, True])
    times = cluster.create_topic("times", 1, {"message.timestamp.type": "LogAppendTime"})
    for codec in ("lz4", "zstd", "snappy", "gzip"):
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "compression.type": codec,
                "linger.ms": 30_000,
                "enable.idempotence": codec != "gzip",
            }
        )
        for number in range(20):
            producer.produce(times, b"v" * 200, b"k%d" % number)
        producer.flush(60)
    bucket.committed[times, 0] = 80
    bucket.publish()


@pytest.fixture(scope="module", params=["directory"])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    """The bucket. Parametrize it indirectly with "moto" for S3, and leave it unchanged."""
    with (
        Cluster(store=moto_url(request) if request.param == "moto" else "", parts=PARTS) as cluster,
        open_bucket(cluster) as bucket,
    ):
        fill(bucket)
        yield bucket


@pytest.fixture
def damaged(bucket: Bucket) -> Iterator[Callable[[str, bytes | bytearray | None], bytes]]:
    """damaged(key, bytes) stores other bytes for the duration of the test."""
    before: dict[str, bytes] = {}

    def damage(key: str, data: bytes | bytearray | None) -> bytes:
        found = bucket.replace(key, data)
        return before.setdefault(key, found)

    yield damage
    for key, data in before.items():
        bucket.store.delete([key])
        bucket.store.put(key, [data])
