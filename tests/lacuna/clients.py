"""librdkafka clients that write, commit and read as the tests of commands require."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from lacuna.controlplane.state.settings import TRANSACTION_MAX_TIMEOUT_MS
from tests.clients.librd import COMMITTED, read

SECONDS = 60.0


def send(producer: Any, topic: str, values: Iterable[str], partition: int = 0) -> None:
    """Produce values and wait for the acknowledgements."""
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(SECONDS) == 0


def plain(bootstrap: str, **config: Any) -> Any:
    """Return a producer without transactions. It is idempotent."""
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **config})


def transactional(bootstrap: str, transactional_id: str) -> Any:
    """Return a producer after `init_transactions`. Its transactions outlast any test."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_MAX_TIMEOUT_MS,
        }
    )
    producer.init_transactions(SECONDS)
    return producer


def transact(producer: Any, topic: str, values: Iterable[str], *, commits: bool = True) -> None:
    """Write values in one transaction, and commit or abort it."""
    producer.begin_transaction()
    send(producer, topic, values)
    (producer.commit_transaction if commits else producer.abort_transaction)(SECONDS)


def opened(bootstrap: str, transactional_id: str, topic: str, values: Iterable[str]) -> Any:
    """Return a producer that has written values in a transaction that is still open."""
    producer = transactional(bootstrap, transactional_id)
    producer.begin_transaction()
    send(producer, topic, values)
    return producer


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commit a group's offset in partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def member(bootstrap: str, group: str, topic: str, **config: Any) -> Consumer:
    """Return a group member that has been assigned partitions of a topic."""
    own = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**own, **config})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.05)
    return consumer


def stored(bootstrap: str) -> list[str]:
    """Return all values that a read_committed consumer reads from the topic `t`."""
    got = read(bootstrap, "t", COMMITTED)
    assert got.errors == []
    return [value.decode() for _, value in got.records]


def consume(bootstrap: str, topic: str, count: int, **config: Any) -> list[tuple[int, str]]:
    """Return the (offset, value) of the first `count` records that a read_committed consumer reads from partition 0."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "tests",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        **config,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[tuple[int, str]] = []
        while len(found) < count:
            message = consumer.poll(SECONDS)
            assert message is not None, f"{found} and no more"
            assert message.error() is None, message.error()
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            found.append((offset, value.decode()))
        return found
    finally:
        consumer.close()
