"""The data in the source of an import: topics of every kind, and producers and groups that run until stopped."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.importing.cluster import Kafka
from lacuna.importing.transactions import HangingTransaction, hanging_transactions
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.operating.kafka import Agents
from lacuna.wire.messages import transactions as wire
from tests.compat.clients import KAFKAS
from tests.compat.clusters import fetch
from tests.golden.broker import Broker, broker

SECONDS: Final = 60.0
_CALL_SECONDS: Final = 10.0
PARTITIONS: Final = 16
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
#: Half of their transactions are aborted.
TRANSACTIONAL: Final = 8
#: Each topic, with its partitions and configs. Segments are short, so that the source's cleaner has something to clean.
TOPICS: Final[Mapping[str, tuple[int, Mapping[str, str]]]] = {
    "tx": (PARTITIONS, {}),
    "plain": (PARTITIONS, {}),
    "stamped": (2, {"message.timestamp.type": "LogAppendTime"}),
    "compacted": (
        4,
        {
            "cleanup.policy": "compact",
            "segment.ms": "2000",
            "min.cleanable.dirty.ratio": "0.01",
        },
    ),
}
COMPACTED: Final = "compacted"
#: A record as a consumer sees it, without its topic and partition.
Row = tuple[int, tuple[int, int], bytes | None, bytes | None, Any]
#: The end of a partition as consumers see it, and its records.
Log = tuple[int, list[Row]]
Place = tuple[str, int]


def apache_kafka(folder: Path, version: str, extra: str = "") -> AbstractContextManager[Broker]:
    """Return a broker of the Kafka with this name in KAFKAS, which runs within a `with` block."""
    folder.mkdir(parents=True)
    (folder / "libs").symlink_to(fetch(version))
    return broker(folder, heap="512M", version=KAFKAS[version], extra=extra)


def created(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic. Underscores in config names stand for dots."""
    named = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=named)])[name].result(SECONDS)


def places() -> list[Place]:
    return [(name, index) for name, (count, _) in TOPICS.items() for index in range(count)]


def read(bootstrap: str, topic: str, partition: int, level: str) -> Log:
    """Return the position at which a consumer ends in a partition, and each record with its offset."""
    place = (topic, partition)
    return read_all(bootstrap, [place], level)[place]


def read_all(bootstrap: str, places: Sequence[Place], level: str) -> dict[Place, Log]:
    """Return the position at which a consumer ends in each partition, and its records with their offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    given = [TopicPartition(*place) for place in places]
    for each in given:
        each.offset = consumer.get_watermark_offsets(each, SECONDS)[0]
    consumer.assign(given)
    rows: dict[Place, list[Row]] = {place: [] for place in places}
    unfinished = set(places)
    while unfinished:
        message = consumer.poll(SECONDS)
        assert message is not None
        place = (message.topic() or "", message.partition() or 0)
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            unfinished.discard(place)
            continue
        rows[place].append(
            (
                message.offset() or 0,
                message.timestamp(),
                message.key(),
                message.value(),
                message.headers(),
            )
        )
    ends = {(each.topic, each.partition): each.offset for each in consumer.position(given)}
    consumer.close()
    return {place: (ends[place], found) for place, found in rows.items()}


def group_offsets(bootstrap: str, group: str) -> dict[Place, tuple[int, str | None]]:
    """Return a group's committed offsets with their metadata."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(SECONDS)
    return {
        (each.topic, each.partition): (each.offset, each.metadata)
        for each in found.topic_partitions
        if each.offset >= 0
    }


async def end_hanging(bootstrap: str, where: Sequence[Place]) -> list[HangingTransaction]:
    """End the hanging transactions in these partitions, as Kafka's kafka-transactions.sh does, and return them."""
    async with Kafka(Agents(bootstrap), "the source") as source:
        found = await hanging_transactions(source, where, wall_clock_ms(), longest_ms=-1)
        topics = await source.topics()
        for each in found:
            name, index = each.place
            broker = await source.broker(topics[name].leaders[index])
            described = await broker.ask(
                wire.DESCRIBE_PRODUCERS_REQUEST,
                wire.DESCRIBE_PRODUCERS_RESPONSE,
                0,
                wire.DescribeProducersRequest([wire.TopicRequest(name, [index])]),
            )
            (producer,) = (
                one
                for one in described.topics[0].partitions[0].active_producers
                if one.producer_id == each.producer_id
            )
            marker = wire.WritableTxnMarker(
                each.producer_id,
                producer.producer_epoch,
                False,
                [wire.WritableTxnMarkerTopic(name, [index])],
                max(0, producer.coordinator_epoch),
            )
            answer = await broker.ask(
                wire.WRITE_TXN_MARKERS_REQUEST,
                wire.WRITE_TXN_MARKERS_RESPONSE,
                1,
                wire.WriteTxnMarkersRequest([marker]),
            )
            assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE
    return found


class SourceLoad:
    """Producers and groups that work until `stop`, whatever happens to the source.

    `failures` contains the errors that ended any of them. `protocols` contains the protocol of each consumer group.
    """

    def __init__(self, bootstrap: str, protocols: Sequence[str], pause: float) -> None:
        self.protocols = protocols
        self.failures: list[str] = []
        self.committed = 0
        self.aborted = 0
        self.sent = 0
        self._bootstrap = bootstrap
        self._pause = pause
        self._is_over = threading.Event()
        #: When the latest transaction of each producer began, by time.monotonic().
        self._began = [0.0] * TRANSACTIONAL
        jobs: list[Callable[[], None]] = [self._in_transactions(n) for n in range(TRANSACTIONAL)]
        jobs += [self._without(codec, is_safe) for codec in CODECS for is_safe in (True, False)]
        jobs += [self._in_group(each) for each in protocols]
        self._threads = [
            threading.Thread(target=self._guarded(job), name=f"load {number}", daemon=True)
            for number, job in enumerate(jobs)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def groups(self) -> list[str]:
        """The groups with committed offsets: the consumer groups and those of the transactions."""
        return [*self.protocols, *(f"eos-{number}" for number in range(TRANSACTIONAL))]

    def stop(self) -> None:
        """End all of them after their current work.

        After a restart of its broker, librdkafka may wait forever for a transaction to end, despite the call's timeout.
        The broker ends that transaction, and the producer writes nothing more.
        """
        self._is_over.set()
        deadline = time.monotonic() + 2 * _CALL_SECONDS
        for thread in self._threads[TRANSACTIONAL:]:
            thread.join(2 * SECONDS)
            assert not thread.is_alive(), f"{thread.name} does not end"
        for thread in self._threads[:TRANSACTIONAL]:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _guarded(self, job: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                job()
            except Exception as error:
                self.failures.append(repr(error))
                raise

        return run

    def _in_transactions(self, number: int) -> Callable[[], None]:
        """Return a writer of transactions. It abandons a producer that waits forever.

        The next producer has the same transactional id, so it fences the previous one and ends its transaction.
        """

        def run() -> None:
            chosen = random.Random(number)
            counter = itertools.count(1)

            def work() -> None:
                # A source that was away for a long time may have fenced the last one.
                with suppress(KafkaException):
                    self._transactions(number, chosen, counter)

            while not self._is_over.is_set():
                self._began[number] = time.monotonic()
                worker = threading.Thread(target=self._guarded(work), daemon=True)
                worker.start()
                while worker.is_alive() and time.monotonic() < self._began[number] + SECONDS:
                    worker.join(1)

        return run

    def _transactions(self, number: int, chosen: random.Random, counter: Iterator[int]) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"load-{number}",
                "transaction.timeout.ms": 10_000,
                "compression.type": CODECS[number % len(CODECS)],
                "log_level": 0,
            }
        )
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"eos-{number}",
                "log_level": 0,
            }
        )
        try:
            _insist(producer.init_transactions)
            while not self._is_over.wait(self._pause * chosen.random() * 2):
                self._began[number] = time.monotonic()
                count = next(counter)
                is_committed = self._transaction(producer, consumer, number, count, chosen)
                self.committed += is_committed
                self.aborted += not is_committed
        finally:
            consumer.close()

    def _transaction(
        self,
        producer: Producer,
        consumer: Consumer,
        number: int,
        count: int,
        chosen: random.Random,
    ) -> bool:
        """Write a transaction to some partitions and, sometimes, to its group. Return whether it was committed."""
        producer.begin_transaction()
        try:
            for index in range(chosen.randrange(1, 40)):
                place = chosen.randrange(PARTITIONS)
                value = chosen.randbytes(chosen.randrange(400))
                producer.produce("tx", value, f"{number}-{count}-{index}", place)
                self.sent += 1
            if number == 0:  # It is open long enough for others to end after it.
                self._is_over.wait(1)
            if count % 3 == 0:
                offsets = [TopicPartition("tx", number, count)]
                group = consumer.consumer_group_metadata()
                _insist(partial(producer.send_offsets_to_transaction, offsets, group))
            if chosen.random() < 0.5:
                _insist(producer.commit_transaction)
                return True
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        _insist(producer.abort_transaction)
        return False

    def _without(self, codec: str, is_idempotent: bool) -> Callable[[], None]:
        """Return a writer without transactions, which creates another producer when the source is away for too long."""

        def run() -> None:
            chosen = random.Random(f"{codec} {is_idempotent}")
            producer = Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "compression.type": codec,
                    "enable.idempotence": is_idempotent,
                    "linger.ms": 5,
                    "log_level": 0,
                }
            )
            count = 0
            while not self._is_over.wait(self._pause):
                for _ in range(10):
                    count += 1
                    value = chosen.randbytes(9) * chosen.randrange(30)
                    stamp = time.time_ns() // 1_000_000 - chosen.randrange(100_000)
                    producer.produce(
                        "plain",
                        value or None,
                        str(count),
                        chosen.randrange(PARTITIONS),
                        timestamp=stamp,
                    )
                    producer.produce("stamped", value, headers=[("n", b"1"), ("n", None)])
                    # Some keys are deleted, and most are written again.
                    key = str(chosen.randrange(50) if count % 9 else count)
                    producer.produce(COMPACTED, value if count % 4 else None, key)
                    self.sent += 3
                producer.poll(0)
            producer.flush(SECONDS)

        return run

    def _in_group(self, protocol: str) -> Callable[[], None]:
        """Return a consumer in the group that is named after its protocol."""

        def run() -> None:
            consumer = Consumer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "group.id": protocol,
                    "group.protocol": protocol,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest",
                    "auto.commit.interval.ms": 500,
                    "log_level": 0,
                }
            )
            consumer.subscribe(["plain", "tx"])
            while not self._is_over.is_set():
                consumer.poll(0.2)
            consumer.close()

        return run


def _insist(call: Callable[[float], None]) -> None:
    """Retry a call while it fails with a transient error. Finally raises KafkaException.

    A producer that waits that long for an answer is replaced, because librdkafka may wait forever for one that was lost
    in a restart.
    """
    deadline = time.monotonic() + SECONDS / 2
    while True:
        try:
            return call(_CALL_SECONDS)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
