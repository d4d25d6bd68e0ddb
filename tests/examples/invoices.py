"""The input to the examples that turn orders into invoices, and their expected output."""

import subprocess
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 2
SECONDS = 60.0


def create_topics(bootstrap: str) -> None:
    topics = [NewTopic(name, PARTITIONS) for name in ("orders", "invoices")]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(topics).values():
        future.result(SECONDS)


def order(bootstrap: str, numbers: range) -> None:
    """Commit an order for each number, worth that many cents, and abort orders that no example can parse."""
    config = {"bootstrap.servers": bootstrap, "transactional.id": "shop"}
    producer = Producer(config)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce("orders", b"no amount", b"no number", partition)
    producer.flush(SECONDS)
    producer.abort_transaction(SECONDS)
    producer.begin_transaction()
    for number in numbers:
        producer.produce("orders", str(number).encode(), str(number).encode())
    producer.commit_transaction(SECONDS)


class Invoices:
    """Reads the committed invoices as they arrive."""

    def __init__(self, bootstrap: str) -> None:
        config: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "reader"}
        self._consumer = Consumer({**config, "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition("invoices", each, 0) for each in range(PARTITIONS)])
        self.read: list[tuple[int, int]] = []

    def await_count(self, count: int, seconds: float, example: subprocess.Popen[bytes]) -> None:
        """Read until there are `count` invoices, the example has ended, or time is up."""
        deadline = time.monotonic() + seconds
        while len(self.read) < count and example.poll() is None and time.monotonic() < deadline:
            self._take(0.5)

    def take_rest(self) -> None:
        """Read the invoices that have arrived since then."""
        while self._take(2.0):
            pass

    def close(self) -> None:
        self._consumer.close()

    def _take(self, seconds: float) -> bool:
        found = [each for each in self._consumer.consume(500, seconds) if each.error() is None]
        self.read += [(int(each.key() or b""), int(each.value() or b"")) for each in found]
        return bool(found)


def expected(numbers: range) -> list[tuple[int, int]]:
    return [(number, number * 119 // 100) for number in numbers]
