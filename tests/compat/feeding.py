"""Creates and fills a run's topics on a cluster, and finds the offsets of their records."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.compat.workload import FEEDS, TOPICS, Record, Step, Workload

SECONDS = 60.0
_PASSING = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A partition as our own reader finds it: the (offset, line) of its committed records, and its bounds."""

    records: tuple[tuple[int, str], ...]
    earliest: int
    latest: int

    def firsts(self) -> list[str]:
        """Return the expected result of holes_inside: the first record at or after each tenth of the offsets, without
        repeats.
        """
        found: list[str] = []
        for tenth in range(10):
            begin = self.earliest + tenth * (self.latest - self.earliest) // 10
            line = next((line for offset, line in self.records if offset >= begin), None)
            if line is not None and line not in found[-1:]:
                found.append(line)
        return found


class _Producers:
    """One producer for each name in the steps."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._made: dict[str, Any] = {}

    def of(self, step: Step) -> Any:
        """Return the producer of a step. Creates it at its first step."""
        by = step.by
        if by not in self._made:
            config: dict[str, Any] = {
                "bootstrap.servers": self._bootstrap,
                "compression.type": step.codec,
                "linger.ms": 200,  # long enough for one batch per step: flush ends the wait
                "log_level": 2,
            }
            if step.is_transactional:
                config["transactional.id"] = f"{self._prefix}-{by}"
            self._made[by] = Producer(config)
            if step.is_transactional:
                self._made[by].init_transactions(SECONDS)
        return self._made[by]


def _produce(producer: Any, topic: str, records: Iterable[Record]) -> None:
    for record in records:
        headers = [(n, None if v is None else v.encode()) for n, v in record.headers]
        producer.produce(
            topic,
            key=None if record.key is None else record.key.encode(),
            value=None if record.value is None else record.value.encode(),
            headers=headers or None,
            partition=record.partition,
        )
    if producer.flush(SECONDS):
        raise RuntimeError(f"{topic} could not be fed: records were not acknowledged")


def _feed(producers: _Producers, topic: str, steps: Iterable[Step]) -> None:
    for step in steps:
        producer = producers.of(step)
        match step.do:
            case "begin":
                producer.begin_transaction()
            case "send":
                _produce(producer, topic, step.records)
            case "commit":
                producer.commit_transaction(SECONDS)
            case "abort":
                producer.abort_transaction(SECONDS)


@contextlib.contextmanager
def topics(
    bootstrap: str, prefix: str, workload: Workload, secured: Sequence[str] = ()
) -> Iterator[None]:
    """Create and fill a run's topics for the block, and delete them afterwards.

    Each scenario in `secured` has its own input and output topics.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    partitions = {**dict.fromkeys(FEEDS, 1), **TOPICS}
    inputs = {f"{each}-input": workload.feeds["input"] for each in secured}
    partitions |= {f"{each}-{name}": 1 for each in secured for name in ("input", "output")}
    wanted = [NewTopic(f"{prefix}-{name}", count, 1) for name, count in partitions.items()]
    for future in admin.create_topics(wanted, request_timeout=SECONDS).values():
        future.result(SECONDS)
    try:
        producers = _Producers(bootstrap, prefix)
        for name, steps in {**workload.feeds, **inputs}.items():
            _feed(producers, f"{prefix}-{name}", steps)
        yield
    finally:
        gone = admin.delete_topics([topic.topic for topic in wanted], request_timeout=SECONDS)
        for future in gone.values():
            with contextlib.suppress(KafkaException):  # the cluster may be going down
                future.result(SECONDS)


def stored(bootstrap: str, topic: str) -> Stored:
    """Read partition 0 as read_committed with a client other than the one under test."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-stored",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "log_level": 2,
        }
    )
    try:
        return _read(consumer, topic)
    finally:
        consumer.close()


def _read(consumer: Any, topic: str) -> Stored:
    where = TopicPartition(topic, 0)
    earliest, _ = _watermarks(consumer, where)
    consumer.assign([TopicPartition(topic, 0, earliest)])
    records: list[tuple[int, str]] = []
    deadline = time.monotonic() + SECONDS
    while True:
        message = consumer.poll(0.1)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            records.append((message.offset(), _line(message)))
            continue
        position = consumer.position([where])[0].offset
        _, latest = _watermarks(consumer, where)
        if latest in (earliest, position):
            return Stored(tuple(records), earliest, latest)
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} was not read to its end: {position} of {latest}")


def _watermarks(consumer: Any, where: TopicPartition) -> tuple[int, int]:
    """Return the earliest and latest offset. Retries while a broker on a busy machine has no leadership."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            low, high = consumer.get_watermark_offsets(where, SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise
            consumer.poll(0.5)
        else:
            return low, high


def _line(message: Any) -> str:
    def text(value: bytes | None) -> str | None:
        return None if value is None else value.decode()

    headers = tuple((name, text(value)) for name, value in message.headers() or ())
    return Record(text(message.key()), text(message.value()), headers).line
