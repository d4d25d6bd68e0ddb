"""librdkafka clients with the settings that every section uses, and the records that they write."""

import base64
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

RECORD_BYTES = 1024
POOL_SIZE = 4096
STALL_SECONDS = 30.0
TIMEOUT_SECONDS = 30.0
PARTITIONS = 4

#: librdkafka's defaults stall on a fast server (fetch.queue.backoff.ms is a second).
TUNED: dict[str, Any] = {
    "fetch.queue.backoff.ms": 0,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_048_576,
    "fetch.message.max.bytes": 16 * 1024 * 1024,
    "fetch.max.bytes": 64 * 1024 * 1024,
}


class BenchError(Exception):
    """A client saw what must not be: lost records, an error, no progress."""


def make_pool(size: int = RECORD_BYTES, seed: int = 7) -> list[bytes]:
    """JSON-like values of `size` bytes that lz4 makes half as large; the same at every run."""
    source = random.Random(seed)
    head = (
        '{"schema":"order.v1","source":"web","currency":"EUR","status":"CONFIRMED","country":"DE",'
    )
    fill = (
        '"note":"standard delivery, leave at the door","warehouse":"central-01","vat":"included",'
        * 12
    )
    pool = []
    for index in range(POOL_SIZE):
        noise = base64.b64encode(source.randbytes(3 * size // 8 + 3)).decode()[: size // 2]
        text = f'{head}"id":{index:012d},"blob":"{noise}",{fill}'
        pool.append(text[: size - 1].encode() + b"}")
    return pool


POOL = make_pool()


@dataclass(frozen=True, slots=True)
class Target:
    """The server that is measured."""

    bootstrap: str
    pid: int
    label: str


class Topics:
    """Makes and drops the topics of a run."""

    def __init__(self, target: Target) -> None:
        self._admin = AdminClient({"bootstrap.servers": target.bootstrap})
        self._count = 0
        self._stem = f"{time.time_ns():x}"

    def create(self, name: str, partitions: int = PARTITIONS) -> str:
        """A new topic, ready to be written."""
        self._count += 1
        topic = f"bench-{name}-{self._stem}-{self._count}"
        made = self._admin.create_topics([NewTopic(topic, partitions, 1)])
        made[topic].result(TIMEOUT_SECONDS)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            found = self._admin.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
            leaders = [p.leader for p in found.partitions.values()]
            if found.error is None and len(leaders) == partitions and min(leaders) >= 0:
                return topic
        raise BenchError(f"topic {topic} did not become ready")

    def drop(self, topic: str) -> None:
        """Deletes a topic."""
        self._admin.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)


def producer(target: Target, **settings: Any) -> Any:
    """acks=all, idempotent, linger 5 ms, unless `settings` say otherwise (underscores for dots)."""
    config = {
        "bootstrap.servers": target.bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
    }
    config.update({name.replace("_", "."): value for name, value in settings.items()})
    return Producer(config)


def flush(client: Any) -> None:
    """Waits for every acknowledgement as long as there is progress."""
    remaining = len(client)
    last_progress = time.monotonic()
    while remaining:
        now_remaining = client.flush(1.0)
        if now_remaining != remaining:
            remaining, last_progress = now_remaining, time.monotonic()
        elif time.monotonic() - last_progress > STALL_SECONDS:
            raise BenchError(f"{remaining} records are not acknowledged and nothing moves")


class Deliveries:
    """Counts acknowledgements and keeps the first failures."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.failures: list[str] = []

    def __call__(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        elif len(self.failures) < 5:
            self.failures.append(str(error))

    def check(self, expected: int) -> None:
        """Raises BenchError unless all were acknowledged."""
        if self.failures or self.acknowledged != expected:
            raise BenchError(f"{self.acknowledged} of {expected} acknowledged; {self.failures}")


@dataclass(slots=True)
class Consumed:
    """What reading a topic to its end gave. Times in seconds from assign()."""

    records: int = 0
    last_record_seconds: float = 0.0
    end_seconds: float = 0.0
    received_bytes: int = 0
    positions: tuple[int, ...] = ()


def consume(
    target: Target, topic: str, start: list[int] | None = None, **settings: Any
) -> Consumed:
    """Reads all partitions, read_committed, until the end of each; Raises BenchError."""
    statistics: dict[str, Any] = {}

    def keep(text: str) -> None:
        statistics["last"] = json.loads(text)
        statistics["count"] = statistics.get("count", 0) + 1

    config = {
        "bootstrap.servers": target.bootstrap,
        "group.id": "bench",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "statistics.interval.ms": 250,
        "stats_cb": keep,
    }
    config.update(settings)
    client = Consumer(config)
    try:
        client.list_topics(topic, timeout=TIMEOUT_SECONDS)
        offsets = start or [0] * PARTITIONS
        client.assign([TopicPartition(topic, i, offset) for i, offset in enumerate(offsets)])
        consumed = _read_to_ends(client, len(offsets))
        _until(lambda: client.poll(0.1) is None and statistics.get("count", 0) >= 2)
        consumed.received_bytes = statistics["last"]["rx_bytes"]
        partitions = [TopicPartition(topic, i) for i in range(len(offsets))]
        consumed.positions = tuple(found.offset for found in client.position(partitions))
        return consumed
    finally:
        client.close()


def end_offset(client: Consumer, partition: TopicPartition) -> int:
    """The high watermark, as soon as the leader of a new topic answers."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return int(client.get_watermark_offsets(partition, TIMEOUT_SECONDS)[1])
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def _read_to_ends(client: Any, partitions: int) -> Consumed:
    consumed = Consumed()
    ended: set[int] = set()
    started = last_progress = time.perf_counter()
    while len(ended) < partitions:
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
            raise BenchError(f"the consumer stands still after {consumed.records} records")
    consumed.end_seconds = time.perf_counter() - started
    return consumed


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise BenchError("the client's statistics did not come")


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
