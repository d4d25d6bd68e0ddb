"""End-to-end latency, from produce() to the consumer's poll(), at 100 records per second and with linger 0."""

import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from bench import BenchError
from bench.clients import POOL, STALL_SECONDS, Threads, flush, percentile, producer
from bench.figures import CPU_PER_1000, P50, P99, Row
from bench.meter import Meter
from bench.reading import CONSUMER, end_offset
from bench.rounds import Bench, Measured
from bench.target import PARTITIONS, TIMEOUT_SECONDS, Target

RATE = 100
STAMP = struct.Struct("<q")
WORK = f"end to end at {RATE}/s"


def latency(bench: Bench) -> Iterator[Row]:
    count = int(bench.size.latency_seconds * RATE)
    with bench.topic_each("latency") as topics:

        def run(target: Target, measured: Measured) -> None:
            measure_latency(target, topics[target.label], count, measured)

        yield from bench.rounds([WORK], run)


def measure_latency(
    target: Target, topic: str, count: int, measured: Measured, read_from: str = ""
) -> None:
    """Measures the latencies of `count` records in ms, and adds them to `measured`.

    The first second is discarded because it includes connecting and InitProducerId. The consumer bootstraps from
    `read_from`, if given.
    """
    warm_up = RATE
    total = count + warm_up
    milliseconds: list[float] = []
    ready = threading.Barrier(2)

    def work(_: int) -> None:
        _receive(read_from or target.bootstrap, topic, total, ready, milliseconds)

    with Threads(work, 1, ready) as threads:
        ready.wait(TIMEOUT_SECONDS)
        with Meter(target) as meter:
            send_stamped(producer(target, linger_ms=0), topic, total, RATE)
            threads.join()
    kept = milliseconds[warm_up:]
    figures = {
        P50: percentile(kept, 0.5),
        P99: percentile(kept, 0.99),
        CPU_PER_1000: meter.server_cpu_seconds / total * 1000,
    }
    measured.add(meter, figures)


def send_stamped(client: Any, topic: str, total: int, rate: int) -> float:
    """Sends `rate` records per second, each starting with its send time in ns. Returns the first send time."""
    began = time.perf_counter()
    for index in range(total):
        while (remaining := began + index / rate - time.perf_counter()) > 0:
            client.poll(min(remaining, 0.005))
        value = STAMP.pack(time.perf_counter_ns()) + POOL[index % len(POOL)][STAMP.size :]
        client.produce(topic, value, partition=index % PARTITIONS)
    flush(client)
    return began


def _receive(
    bootstrap: str, topic: str, total: int, ready: threading.Barrier, milliseconds: list[float]
) -> None:
    """Receives `total` records written from now on, and collects their latencies in ms. Raises BenchError."""
    settings = {**CONSUMER, "enable.partition.eof": False}
    client = Consumer({"bootstrap.servers": bootstrap, **settings})
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
                raise BenchError(f"record {received} of {total} did not arrive")
            (sent_ns,) = STAMP.unpack_from(value)
            milliseconds.append((time.perf_counter_ns() - sent_ns) / 1e6)
    finally:
        client.close()
