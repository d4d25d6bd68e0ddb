"""librdkafka clients with the settings common to all sections, and the records that they write."""

import base64
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from bench import BenchError
from bench.target import PARTITIONS, TIMEOUT_SECONDS, Target

RECORD_BYTES = 1024
POOL_SIZE = 4096
STALL_SECONDS = 30.0

#: The settings of every producer, unless a section overrides them.
PRODUCER: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 5,
    "queue.buffering.max.messages": 400_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "log_level": 2,
}


def make_pool(size: int = RECORD_BYTES, seed: int = 7) -> list[bytes]:
    """Returns JSON-like values of `size` bytes that lz4 compresses to half their size. Every run gets the same ones."""
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
TINY = [source.to_bytes(8, "big") + bytes(92) for source in range(POOL_SIZE)]


def producer(target: Target, **settings: Any) -> Any:
    """Returns a producer with the settings in `PRODUCER`, overridden by `settings` (underscores replace dots)."""
    config = {**target.client, **PRODUCER}
    config.update({name.replace("_", "."): value for name, value in settings.items()})
    return Producer(config)


def flush(client: Any) -> None:
    """Waits until all records are acknowledged. Raises BenchError if there is no more progress."""
    remaining = len(client)
    last_progress = time.monotonic()
    while remaining:
        now_remaining = client.flush(1.0)
        if now_remaining != remaining:
            remaining, last_progress = now_remaining, time.monotonic()
        elif time.monotonic() - last_progress > STALL_SECONDS:
            raise BenchError(
                f"{remaining} records are not acknowledged yet, and no more acknowledgements are arriving"
            )


class Deliveries:
    """Counts acknowledgements, and keeps the first few errors."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.failures: list[str] = []

    def __call__(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        elif len(self.failures) < 5:
            self.failures.append(str(error))

    def check(self, expected: int) -> None:
        """Raises BenchError unless exactly `expected` records have been acknowledged without errors."""
        if self.failures or self.acknowledged != expected:
            raise BenchError(f"{self.acknowledged} of {expected} acknowledged; {self.failures}")


def produce(
    client: Any,
    topic: str,
    index: int,
    deliveries: Deliveries | None = None,
    pool: list[bytes] = POOL,
) -> None:
    """Queues record number `index`, cycling through the partitions. Waits while the queue is full."""
    value = pool[index % POOL_SIZE]
    while True:
        try:
            client.produce(topic, value, partition=index % PARTITIONS, on_delivery=deliveries)
        except BufferError:
            client.poll(0.05)
        else:
            break
    if not index & 1023:
        client.poll(0)


def produce_all(client: Any, topic: str, count: int, pool: list[bytes] = POOL) -> None:
    """Writes `count` records, and waits until all are acknowledged. Raises BenchError."""
    deliveries = Deliveries()
    for index in range(count):
        produce(client, topic, index, deliveries, pool)
    flush(client)
    deliveries.check(count)


def ready_producer(target: Target, topic: str, pool: list[bytes] = POOL, **settings: Any) -> Any:
    """Returns a producer that has written one record per partition, so that it already has its producer id and
    connections.

    librdkafka may wait half a second before it sends its first record, regardless of the server. Raises BenchError.
    """
    client = producer(target, **settings)
    client.list_topics(topic, timeout=TIMEOUT_SECONDS)
    produce_all(client, topic, PARTITIONS, pool)
    return client


def fill(target: Target, topic: str, count: int, pool: list[bytes] = POOL, **settings: Any) -> None:
    """Writes `count` records with a new producer. Raises BenchError."""
    produce_all(producer(target, **settings), topic, count, pool)


class Threads:
    """Runs `work(number)` in `count` threads during the block, and waits for them unless the block raises.

    The end of the block and `join` raise the first error from any thread.
    """

    def __init__(
        self, work: Callable[[int], None], count: int, barrier: threading.Barrier | None = None
    ) -> None:
        self._work = work
        self._barrier = barrier
        self._failures: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(count)
        ]

    def _run(self, number: int) -> None:
        try:
            self._work(number)
        except Exception as error:
            self._failures.append(error)
            if self._barrier is not None:
                self._barrier.abort()

    def __enter__(self) -> "Threads":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        # A broken barrier ends all threads, and one of the threads has the actual error.
        if kind is None or issubclass(kind, threading.BrokenBarrierError):
            self.join()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]


def percentile(values: list[float], share: float) -> float:
    """Returns the value below which this `share` (0 to 1) of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
