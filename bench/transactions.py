"""Transactions of 10 records over 4 partitions, committed one after another by 1 producer and by 8 concurrent ones."""

import threading
import time
from collections.abc import Iterator
from typing import Any

from bench.clients import Threads, percentile, produce, producer
from bench.figures import CPU_PER_1000, Better, Figure, Row, Run
from bench.meter import Meter
from bench.rounds import Bench, Measured
from bench.target import TIMEOUT_SECONDS, Target

RECORDS = 10
PRODUCERS = (1, 8)
WARM_UP_TRANSACTIONS = 5
TRANSACTIONS = Figure("transactions/s", Better.MORE)
COMMIT_P50 = Figure("commit p50 ms", Better.LESS)
COMMIT_P99 = Figure("commit p99 ms", Better.LESS)


def work_of(producers: int) -> str:
    return f"transactions of {RECORDS}, {producers} producer{'s' if producers > 1 else ''}"


def transactions(bench: Bench) -> Iterator[Row]:
    for producers in PRODUCERS:
        yield from _rows(bench, producers)


def _rows(bench: Bench, producers: int) -> list[Row]:
    with bench.topic_each(f"transactions-{producers}") as topics:

        def run(target: Target, measured: Measured) -> None:
            seconds = bench.size.transaction_seconds
            commits, meter = commit(target, topics[target.label], producers, seconds)
            measured.add(meter, figures_of(commits, meter))

        return bench.rounds([work_of(producers)], run)


def commit(target: Target, topic: str, producers: int, seconds: float) -> tuple[list[float], Meter]:
    """Makes this many producers commit transactions for this many seconds.

    Returns how many seconds each commit took, and the measurements during that time.
    """
    commits: list[float] = []
    ready = threading.Barrier(producers + 1)
    stem = f"{topic}-{time.monotonic_ns()}"

    def loop(number: int) -> None:
        client = producer(target, transactional_id=f"{stem}-{number}")
        client.init_transactions(TIMEOUT_SECONDS)
        for _ in range(WARM_UP_TRANSACTIONS):
            transact(client, topic)
        ready.wait(TIMEOUT_SECONDS)
        end = time.perf_counter() + seconds
        count = 0
        while time.perf_counter() < end:
            commits.append(transact(client, topic, count * RECORDS))
            count += 1

    with Threads(loop, producers, ready) as threads:
        ready.wait(TIMEOUT_SECONDS)
        with Meter(target) as meter:
            threads.join()
    return commits, meter


def figures_of(commits: list[float], meter: Meter) -> Run:
    """Returns the figures for transactions whose commits took this many seconds each."""
    return {
        TRANSACTIONS: len(commits) / meter.seconds,
        COMMIT_P50: percentile(commits, 0.5) * 1000,
        COMMIT_P99: percentile(commits, 0.99) * 1000,
        CPU_PER_1000: meter.server_cpu_seconds / len(commits) * 1000,
    }


def transact(client: Any, topic: str, first: int = 0) -> float:
    """Commits one transaction. Returns how long commit_transaction took, in seconds."""
    client.begin_transaction()
    for index in range(first, first + RECORDS):
        produce(client, topic, index)
    started = time.perf_counter()
    client.commit_transaction(TIMEOUT_SECONDS)
    return time.perf_counter() - started
