"""Helpers that use confluent-kafka (librdkafka) to produce, commit, abort, and read to the end."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

FETCH_WAIT_SECONDS = 0.1
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


def _named(config: dict[str, object]) -> dict[str, object]:
    """Return librdkafka's config names with dots for names with _, except those of callbacks, which contain a _."""
    return {
        key if key.endswith("_cb") else key.replace("_", "."): value
        for key, value in config.items()
    }


def producer(bootstrap: str, transactional_id: str | None = None, **config: object) -> Producer:
    """A producer; with a transactional id, its transactions are initialized. Config names are written with _."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "linger.ms": 0}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
        settings["transaction.timeout.ms"] = 600_000
    settings |= _named(config)
    made = Producer(settings)
    if transactional_id is not None:
        made.init_transactions(60)
    return made


def send(who: Producer, topic: str, values: Iterable[bytes], partition: int = 0) -> list[int]:
    """Produce values and wait; returns their offsets in order. Raises the KafkaException of a failed delivery."""
    offsets: list[int] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        else:
            offsets.append(message.offset() or 0)

    for value in values:
        while True:
            try:
                who.produce(topic, value, partition=partition, on_delivery=delivered)
                break
            except BufferError:
                who.poll(0.1)
    _flush(who)
    if errors:
        raise KafkaException(errors[0])
    return offsets


def _flush(who: Producer) -> None:
    """Flush, and raise the KafkaException that confluent-kafka 2.16 may wrap in a SystemError."""
    try:
        who.flush(60)
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise


def transaction(
    who: Producer, topic: str, values: Iterable[bytes], *, commit: bool, partition: int = 0
) -> list[int]:
    """Write a whole transaction to one partition, then commit or abort it; returns the offsets of its records."""
    who.begin_transaction()
    offsets = send(who, topic, values, partition)
    end(who, commit=commit)
    return offsets


def end(who: Producer, *, commit: bool) -> None:
    """Commit the transaction, or abort it."""
    (who.commit_transaction if commit else who.abort_transaction)(60)


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """What a consumer read up to the end of a partition, and its final position."""

    records: list[tuple[int, bytes]]
    position: int
    errors: list[str]
    rx_bytes: int
    #: A lower bound for the number of fetches that were answered without waiting at the end of the log.
    prompt_fetches: float

    @property
    def values(self) -> list[bytes]:
        return [value for _, value in self.records]

    @property
    def offsets(self) -> list[int]:
        return [offset for offset, _ in self.records]


def consumer(bootstrap: str, isolation: str = COMMITTED, **config: object) -> Consumer:
    """Return a consumer without a group, with settings that make it fast."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": int(FETCH_WAIT_SECONDS * 1000),
        "auto.offset.reset": "error",
    }
    settings |= _named(config)
    return Consumer(settings)


def read(
    bootstrap: str,
    topic: str,
    isolation: str = COMMITTED,
    *,
    start: int = OFFSET_BEGINNING,
    partition: int = 0,
    timeout: float = 60.0,
    **config: object,
) -> Read:
    """Read a partition from `start` until librdkafka reports its end, or that `start` is out of range."""
    received: list[int] = []
    prompt: list[float] = []

    def statistics(text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        received.append(sum(each["rxbytes"] for each in brokers))
        fetches = sum(each["req"].get("Fetch", 0) for each in brokers)
        prompt.append(fetches - (time.monotonic() - started) / FETCH_WAIT_SECONDS)

    extra: dict[str, Any] = {"statistics_interval_ms": 50, "stats_cb": statistics, **config}
    who = consumer(bootstrap, isolation, **extra)
    records: list[Any] = []
    errors: list[str] = []
    started = time.monotonic()
    try:
        # librdkafka requests the offsets of a partition with an unknown leader half a second later.
        who.list_topics(topic, timeout)
        who.assign([TopicPartition(topic, partition, start)])
        ended = False
        while not ended and time.monotonic() - started < timeout:
            for message in who.consume(500, 0.02):
                error = message.error()
                if error is None:
                    records.append((message.offset(), message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended = True
                else:
                    errors.append(error.str())
                    ended |= error.code() == KafkaError._AUTO_OFFSET_RESET
        count = len(received)
        while len(received) <= count and time.monotonic() - started < timeout:
            who.poll(0.05)
        position = who.position([TopicPartition(topic, partition)])[0].offset
    finally:
        who.close()
    if not ended:
        errors.append(f"not at the end after {timeout} s")
    return Read(
        records, position, errors, received[-1] if received else 0, prompt[-1] if prompt else 0
    )


def eventually(ask: Callable[[], Any], expected: object, seconds: float = 240.0) -> None:
    """Assert that `ask()` returns `expected` within `seconds`: Kafka's metadata and markers follow its answers."""
    deadline = time.monotonic() + seconds
    while (got := ask()) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert got == expected


def watermarks(bootstrap: str, topic: str, isolation: str = COMMITTED) -> tuple[int, int]:
    """The log start offset, and the offset up to which this isolation level may read, of partition 0."""
    who = consumer(bootstrap, isolation)
    try:
        low, high = who.get_watermark_offsets(TopicPartition(topic, 0), 60)
        return low, high
    finally:
        who.close()
