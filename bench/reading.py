"""Reads a topic to its end with read_committed, and measures the bytes received over the wire."""

import json
import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bench import BenchError
from bench.clients import STALL_SECONDS
from bench.meter import Meter
from bench.target import PARTITIONS, TIMEOUT_SECONDS, Target

#: The settings of every consumer.
CONSUMER: dict[str, Any] = {
    "group.id": "bench",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "log_level": 2,
}

#: With its defaults, librdkafka stalls on a fast server: it pauses for a second when 64 MiB are queued. These settings
#: ("tuned") avoid that.
TUNED: dict[str, Any] = {
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_048_576,
}

#: Makes the server report the end of a partition (a response without records) quickly. Responses with data never wait.
ENDS_SOON: dict[str, Any] = {"fetch.wait.max.ms": 50}

_STATISTICS_MS = 50


@dataclass(slots=True)
class Consumed:
    """The result of reading a topic to its end. Seconds are measured from assign()."""

    meter: Meter
    records: int = 0
    last_record_seconds: float = 0.0
    received_bytes: int = 0
    positions: tuple[int, ...] = ()

    def check(self, expected: int) -> None:
        """Raises BenchError unless exactly `expected` records have been read."""
        if self.records != expected:
            raise BenchError(
                f"expected {expected} records, but the consumer received {self.records}"
            )


class _Statistics:
    """librdkafka's latest statistics, and the number of reports so far."""

    def __init__(self) -> None:
        self.count = 0
        self._last = "{}"

    def __call__(self, text: str) -> None:
        self.count += 1
        self._last = text

    @property
    def received_bytes(self) -> int:
        """All bytes received on the client's connections, including protocol overhead."""
        return int(json.loads(self._last)["rx_bytes"])


def consume(target: Target, topic: str, **settings: Any) -> Consumed:
    """Reads all partitions from start to end. Raises BenchError."""
    statistics = _Statistics()
    config = {
        **target.client,
        **CONSUMER,
        **ENDS_SOON,
        "statistics.interval.ms": _STATISTICS_MS,
        "stats_cb": statistics,
        **settings,
    }
    client = Consumer(config)
    try:
        client.list_topics(topic, timeout=TIMEOUT_SECONDS)
        with Meter(target) as meter:
            client.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
            consumed = _read_to_ends(client, Consumed(meter))
        _settle(client, statistics)
        consumed.received_bytes = statistics.received_bytes
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        consumed.positions = tuple(found.offset for found in client.position(partitions))
        return consumed
    finally:
        client.close()


def end_offset(client: Consumer, partition: TopicPartition) -> int:
    """Returns a partition's high watermark, once the leader of a new topic answers."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return int(client.get_watermark_offsets(partition, TIMEOUT_SECONDS)[1])
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def end_offsets(target: Target, topic: str) -> list[int]:
    """Returns the high watermarks of a topic's first PARTITIONS partitions."""
    client = Consumer({**target.client, **CONSUMER})
    try:
        return [end_offset(client, TopicPartition(topic, index)) for index in range(PARTITIONS)]
    finally:
        client.close()


def _read_to_ends(client: Any, consumed: Consumed) -> Consumed:
    ended: set[int] = set()
    started = last_progress = time.perf_counter()
    while len(ended) < PARTITIONS:
        messages = client.consume(num_messages=10_000, timeout=0.01)
        now = time.perf_counter()
        count = 0
        for message in messages:
            error = message.error()
            if error is None:
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise BenchError(f"the consumer failed: {error}")
        if count:
            consumed.records += count
            consumed.last_record_seconds = now - started
        if messages:
            last_progress = now
        elif now - last_progress > STALL_SECONDS:
            raise BenchError(f"the consumer received nothing more after {consumed.records} records")
    return consumed


def _settle(client: Any, statistics: _Statistics) -> None:
    """Waits for the second report from now, which covers everything received so far. Raises BenchError."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    wanted = statistics.count + 2
    while statistics.count < wanted:
        client.poll(0.05)
        if time.monotonic() > deadline:
            raise BenchError("the client's statistics did not arrive")
