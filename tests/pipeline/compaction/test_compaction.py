"""Tests compaction end to end: by key like a dict, and past the retention of records."""

import random
import time
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from lacuna.pipeline.audit.logs import check_log
from lacuna.testing import Cluster
from tests.pipeline.compaction.conftest import Compactor, Read, consumer_of, read_partition
from tests.pipeline.conftest import transact

_TRANSACTIONS = [
    (True, [(b"a", b"1" * 100), (b"b", b"2" * 100)]),
    (False, [(b"c", b"x" * 1000)] * 50),
    (True, [(b"d", None)]),
    (False, [(b"e", b"y" * 1000)] * 20),
]


@pytest.mark.parametrize("cluster", ["moto"], indirect=True)
def test_s14_s19_a_consumer_reads_the_same_before_and_after(
    cluster: Cluster, compactor: Compactor
) -> None:
    """S14, S16, S19: offsets, keys, values, headers and timestamps are unchanged, and aborted data is not read."""
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


DAY_MS = 24 * 3_600_000
_CONFIGS = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY_MS)}


@dataclass(slots=True)
class Writer:
    """Writes random transactions and remembers the last committed record of each key."""

    cluster: Cluster
    topic: str
    partition: int
    random: random.Random
    last: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)
    begun: dict[bytes, tuple[int, bytes | None]] = field(default_factory=dict)
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "transactional.id": f"{self.topic}-{self.partition}",
                "compression.type": self.random.choice(["none", "lz4", "zstd"]),
                "linger.ms": 0,
            }
        )
        self.producer.init_transactions(60)

    def write(self, transactions: int, keys: int = 8) -> None:
        """Write some transactions that include tombstones, and abort a third of them."""
        for _ in range(transactions):
            self.begin(keys)
            if self.random.random() < 1 / 3:
                self.producer.abort_transaction(60)
            else:
                self.commit()

    def begin(self, keys: int = 8) -> None:
        self.begun = {}
        self.producer.begin_transaction()
        for _ in range(self.random.randint(1, 12)):
            key = b"key-%d" % self.random.randrange(keys)
            is_gone = self.random.random() < 0.25
            value = None if is_gone else self.random.randbytes(self.random.randint(0, 200))
            self.producer.produce(
                self.topic, value, key, self.partition, on_delivery=self._delivered
            )
            self.producer.poll(0)
        self.producer.flush(60)

    def commit(self) -> None:
        self.producer.commit_transaction(60)
        self.last.update(self.begun)

    def _delivered(self, error: object, message: object) -> None:
        assert error is None, error
        self.begun[message.key()] = (message.offset(), message.value())  # type: ignore[attr-defined]


def _by_key(records: list[Read]) -> dict[bytes, tuple[int, bytes | None]]:
    """Return the records by key. Each key occurs once."""
    assert len({record.key for record in records}) == len(records)
    return {record.key: (record.offset, record.value) for record in records if record.key}


@pytest.mark.parametrize("seed", [1, 2])
def test_s14_the_last_committed_record_of_each_key_stays(
    cluster: Cluster, compactor: Compactor, seed: int
) -> None:
    """Aborted values supersede nothing, tombstones are kept, and remaining records keep their offsets and bytes."""
    chance = random.Random(seed)
    topic = cluster.create_topic(f"keys-{seed}", 2, _CONFIGS)
    writers = [Writer(cluster, topic, partition, chance) for partition in range(2)]
    for _ in range(3):
        for writer in writers:
            writer.write(chance.randint(3, 8))
        before = [read_partition(cluster, topic, writer.partition) for writer in writers]
        report = compactor.run(topic, batch_bytes=chance.choice([1024, 1 << 18]))
        assert not report.refused
        assert not report.failed
        for writer, old in zip(writers, before, strict=True):
            found = read_partition(cluster, topic, writer.partition)
            assert _by_key(found) == writer.last
            assert set(found) <= set(old)  # as they were, timestamps and all
    assert compactor.run(topic).work.tasks == 0


def test_what_is_ongoing_and_behind_it_is_left_alone(
    cluster: Cluster, compactor: Compactor
) -> None:
    """S3: the range ends at the last stable offset."""
    topic = cluster.create_topic("ongoing", 1, _CONFIGS)
    writer = Writer(cluster, topic, 0, random.Random(5))
    writer.write(6)
    stable = dict(writer.last)
    writer.begin()
    tail = Producer({"bootstrap.servers": cluster.bootstrap})
    tail.produce(topic, b"behind", b"key-0", 0)
    tail.flush(60)
    assert not compactor.run(topic).failed
    assert _by_key(read_partition(cluster, topic)) == stable
    writer.commit()
    before = read_partition(cluster, topic)
    assert before[-1].value == b"behind"
    compactor.run(topic)
    expected = {**writer.last, b"key-0": (before[-1].offset, b"behind")}
    assert _by_key(read_partition(cluster, topic)) == expected


def _produce(cluster: Cluster, topic: str, age_ms: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(10):
        stamp = int(time.time() * 1000) - age_ms
        producer.produce(topic, b"%d" % number, timestamp=stamp, partition=0)
    producer.flush(60)


def test_s13_what_expired_is_out_of_range_at_once(cluster: Cluster, compactor: Compactor) -> None:
    topic = cluster.create_topic("expired")
    _produce(cluster, topic, 8 * DAY_MS)
    _produce(cluster, topic, 0)
    report = compactor.run(topic, rewrites_all=True)
    assert report.work.expired_bytes_not_read > 0
    (log,) = compactor.logs(topic)
    assert (log.log_start_offset, log.high_watermark) == (10, 20)
    assert check_log(log) == []
    for first in (0, 3):
        with (
            consumer_of(cluster, topic, 0, first) as consumer,
            pytest.raises(KafkaException) as raised,
        ):
            _poll(consumer)
        assert raised.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET
    assert [read.offset for read in read_partition(cluster, topic)] == list(range(10, 20))


def _poll(consumer: Consumer) -> None:
    message = consumer.poll(60)
    if message is not None and message.error() is not None:
        raise KafkaException(message.error())
