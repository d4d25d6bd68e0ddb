"""The workload, one function a section. Each yields rows as it goes; a row is one line of the table.

produce       records of 1 KiB to 4 partitions, idempotent, acks=all; then read, read_committed
transactions  10 records a transaction, commits one after the other; 1 producer and 8
aborts        transactions of 100 records of which 0, 50, 90 % are aborted; then read, read_committed
tail          the end of 10,000 aborted records
latency       100 records a second, from produce() to the consumer
"""

import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from bench.clients import (
    PARTITIONS,
    POOL,
    RECORD_BYTES,
    STALL_SECONDS,
    TIMEOUT_SECONDS,
    TUNED,
    BenchError,
    Consumed,
    Deliveries,
    Target,
    Topics,
    consume,
    end_offset,
    flush,
    percentile,
    producer,
)
from bench.meter import Meter

MEGABYTE = 1_000_000
GIBIBYTE = 1 << 30


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done: `quick` for a smoke test, `full` for figures."""

    runs: int
    records: int
    transaction_seconds: float
    abort_transactions: int
    latency_seconds: float


QUICK = Size(1, 40_000, 2.0, 200, 3.0)
FULL = Size(3, 500_000, 6.0, 3000, 10.0)


@dataclass(slots=True)
class Row:
    """One line: medians of the runs, by name; `runs` has each."""

    work: str
    runs: list[dict[str, float]] = field(default_factory=list)

    def medians(self) -> dict[str, float]:
        """The median of every figure."""
        return {name: statistics.median(run[name] for run in self.runs) for name in self.runs[0]}


def produce(target: Target, topics: Topics, size: Size) -> Iterator[Row]:
    """Producing and reading, per codec."""
    for codec in ("none", "lz4"):
        _produce_and_read(target, topics, size.records // 4, codec)
        rows = [
            Row(f"{work}, {codec}")
            for work in ("produce", "read_committed", "read_committed, tuned")
        ]
        for _ in range(size.runs):
            for row, figures in zip(
                rows, _produce_and_read(target, topics, size.records, codec), strict=True
            ):
                row.runs.append(figures)
        yield from rows


def _produce_and_read(
    target: Target, topics: Topics, records: int, codec: str
) -> list[dict[str, float]]:
    topic = topics.create(f"produce-{codec}")
    client = producer(target, compression_type=codec)
    client.list_topics(topic, timeout=TIMEOUT_SECONDS)
    deliveries = Deliveries()
    with Meter(target.pid) as meter:
        for index in range(records):
            _produce(client, topic, index, deliveries)
        flush(client)
    deliveries.check(records)
    results = [_throughput(meter, records, meter.seconds)]
    for settings in ({}, TUNED):
        with Meter(target.pid) as meter:
            consumed = consume(target, topic, **settings)
        _check_count(consumed, records)
        results.append(_throughput(meter, records, consumed.last_record_seconds))
    topics.drop(topic)
    return results


def _produce(client: Any, topic: str, index: int, deliveries: Deliveries | None = None) -> None:
    value = POOL[index % len(POOL)]
    while True:
        try:
            client.produce(topic, value, partition=index % PARTITIONS, on_delivery=deliveries)
        except BufferError:
            client.poll(0.05)
        else:
            break
    if not index & 1023:
        client.poll(0)


def _throughput(meter: Meter, records: int, seconds: float) -> dict[str, float]:
    size = records * RECORD_BYTES
    return {
        "MB/s": size / seconds / MEGABYTE,
        "krecords/s": records / seconds / 1000,
        "server CPU s/GiB": meter.server_cpu_seconds / size * GIBIBYTE,
        "others %": meter.others_cpu_percent,
    }


def _check_count(consumed: Consumed, expected: int) -> None:
    if consumed.records != expected:
        raise BenchError(f"expected {expected} records, the consumer has {consumed.records}")


def transactions(target: Target, topics: Topics, size: Size) -> Iterator[Row]:
    """Transactions of 10 records."""
    for producers in (1, 8):
        row = Row(f"transactions of 10, {producers} producer{'s' if producers > 1 else ''}")
        topic = topics.create(f"transactions-{producers}")
        for run in range(size.runs):
            row.runs.append(_transactions(target, topic, producers, run, size.transaction_seconds))
        topics.drop(topic)
        yield row


def _transactions(
    target: Target, topic: str, producers: int, run: int, seconds: float
) -> dict[str, float]:
    commits: list[float] = []
    ready = threading.Barrier(producers + 1)

    def loop(number: int) -> None:
        client = producer(target, transactional_id=f"{topic}-{run}-{number}")
        client.init_transactions(TIMEOUT_SECONDS)
        for _ in range(3):
            _transaction(client, topic, 0, 10, commits=None)
        ready.wait(TIMEOUT_SECONDS)
        end = time.perf_counter() + seconds
        count = 0
        while time.perf_counter() < end:
            _transaction(client, topic, count * 10, 10, commits)
            count += 1

    with _Threads(loop, producers, ready) as threads:
        ready.wait(TIMEOUT_SECONDS)
        with Meter(target.pid) as meter:
            threads.join()
    return {
        "transactions/s": len(commits) / meter.seconds,
        "commit p50 ms": percentile(commits, 0.5) * 1000,
        "commit p99 ms": percentile(commits, 0.99) * 1000,
        "server CPU s/1000": meter.server_cpu_seconds / max(1, len(commits)) * 1000,
        "others %": meter.others_cpu_percent,
    }


def _transaction(
    client: Any, topic: str, first: int, records: int, commits: list[float] | None
) -> None:
    client.begin_transaction()
    for index in range(first, first + records):
        _produce(client, topic, index)
    started = time.perf_counter()
    client.commit_transaction(TIMEOUT_SECONDS)
    if commits is not None:
        commits.append(time.perf_counter() - started)


class _Threads:
    """Runs `work(number)` in threads; `join` raises what the first of them raised."""

    def __init__(
        self, work: Callable[[int], None], count: int, barrier: threading.Barrier | None = None
    ) -> None:
        self._work = work
        self._barrier = barrier
        self._failures: list[Exception] = []
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(count)]

    def _run(self, number: int) -> None:
        try:
            self._work(number)
        except Exception as error:
            self._failures.append(error)
            if self._barrier is not None:
                self._barrier.abort()

    def __enter__(self) -> "_Threads":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.join()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]


def aborts(target: Target, topics: Topics, size: Size) -> Iterator[Row]:
    """Reading a log of which a share is aborted."""
    shares: dict[int, Callable[[int], bool]] = {
        0: lambda number: False,
        50: lambda number: number % 2 == 1,
        90: lambda number: number % 10 != 9,
    }
    for codec in ("none", "lz4"):
        for share, is_aborted in shares.items():
            topic = topics.create(f"aborts-{share}-{codec}")
            committed = _fill(target, topic, codec, size.abort_transactions, 4, is_aborted)
            row = Row(f"{share} % aborted, {codec}")
            for _ in range(size.runs):
                with Meter(target.pid) as meter:
                    consumed = consume(target, topic, **TUNED)
                _check_count(consumed, committed)
                row.runs.append(
                    {
                        "committed krecords/s": committed / consumed.last_record_seconds / 1000,
                        "wire bytes/committed": consumed.received_bytes / committed,
                        "server CPU s/GiB": meter.server_cpu_seconds
                        / (committed * RECORD_BYTES)
                        * GIBIBYTE,
                        "others %": meter.others_cpu_percent,
                    }
                )
            topics.drop(topic)
            yield row


def _fill(
    target: Target,
    topic: str,
    codec: str,
    count: int,
    producers: int,
    is_aborted: Callable[[int], bool],
    records: int = 100,
) -> int:
    """`count` transactions of `records`; returns how many records were committed."""
    committed: list[int] = []

    def fill(number: int) -> None:
        client = producer(target, transactional_id=f"{topic}-{number}", compression_type=codec)
        client.init_transactions(TIMEOUT_SECONDS)
        for transaction in range(number, count, producers):
            client.begin_transaction()
            for index in range(transaction * records, (transaction + 1) * records):
                _produce(client, topic, index)
            if is_aborted(transaction // producers):
                flush(client)  # so that the records are in the log before they are aborted
                client.abort_transaction(TIMEOUT_SECONDS)
            else:
                client.commit_transaction(TIMEOUT_SECONDS)
                committed.append(records)

    with _Threads(fill, producers):
        pass
    return sum(committed)


def tail(target: Target, topics: Topics, size: Size) -> Iterator[Row]:
    """The end of an aborted tail of 10,000 records, from the start of it, with a fetch wait of 10 ms."""
    topic = topics.create("tail")
    committed = _fill(target, topic, "none", 10, 1, lambda number: False)
    before = list(consume(target, topic).positions)
    _check_count(Consumed(records=committed), 1000)
    _fill(target, topic, "none", 100, 1, lambda number: True)
    row = Row("end of a 10,000-record aborted tail")
    for _ in range(size.runs):
        consumed = consume(target, topic, before, **{"fetch.wait.max.ms": 10})
        _check_count(consumed, 0)
        row.runs.append(
            {"end ms": consumed.end_seconds * 1000, "wire bytes": consumed.received_bytes}
        )
    topics.drop(topic)
    yield row


def latency(target: Target, topics: Topics, size: Size, rate: int = 100) -> Iterator[Row]:
    """From produce() to the consumer, linger 0."""
    topic = topics.create("latency")
    row = Row(f"end to end at {rate}/s")
    for _ in range(size.runs):
        row.runs.append(_latency(target, topic, int(size.latency_seconds * rate), rate))
    topics.drop(topic)
    yield row


def _latency(target: Target, topic: str, count: int, rate: int) -> dict[str, float]:
    warm_up = rate // 2
    latencies: list[float] = []
    ready = threading.Barrier(2)
    total = count + warm_up

    def receive(_: int) -> None:
        config = {"bootstrap.servers": target.bootstrap, "group.id": "bench"}
        client = Consumer({**config, "isolation.level": "read_committed"})
        try:
            partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
            for partition in partitions:
                partition.offset = end_offset(client, partition)
            client.assign(partitions)
            client.poll(0.2)
            ready.wait(TIMEOUT_SECONDS)
            for received in range(total):
                message = client.poll(STALL_SECONDS)
                value = message.value() if message is not None and message.error() is None else None
                if value is None:
                    raise BenchError(f"record {received} of {total} did not come")
                (sent_ns,) = struct.unpack_from("<q", value)
                if received >= warm_up:
                    latencies.append((time.perf_counter_ns() - sent_ns) / 1e6)
        finally:
            client.close()

    with _Threads(receive, 1, ready) as threads:
        ready.wait(TIMEOUT_SECONDS)
        client = producer(target, linger_ms=0)
        with Meter(target.pid) as meter:
            started = time.perf_counter()
            for index in range(total):
                while (remaining := started + index / rate - time.perf_counter()) > 0:
                    client.poll(min(remaining, 0.005))
                value = struct.pack("<q", time.perf_counter_ns()) + POOL[index % len(POOL)][8:]
                client.produce(topic, value, partition=index % PARTITIONS)
            flush(client)
            threads.join()
    return {
        "p50 ms": percentile(latencies, 0.5),
        "p99 ms": percentile(latencies, 0.99),
        "server CPU s/1000": meter.server_cpu_seconds / total * 1000,
        "others %": meter.others_cpu_percent,
    }


SECTIONS: dict[str, Callable[[Target, Topics, Size], Iterator[Row]]] = {
    "produce": produce,
    "transactions": transactions,
    "aborts": aborts,
    "tail": tail,
    "latency": latency,
}
