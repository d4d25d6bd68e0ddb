"""Transactions and latency with S3 as the store, compared with a folder.

Both targets run the same processes, with a journal in PostgreSQL (bench/bucket_targets.py). A third target keeps its
journal in S3 as well. Its times are also given as multiples of the duration of a PUT, measured just before in the same
round. Rounds are short, and ratios are computed within a round, so other load on the machine affects both sides
equally, and runs need not be repeated.

The rest of the section is in bench/bucket_costs.py and bench/hot_commits.py.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from bench.bucket_costs import aborted_bytes, steady_rate
from bench.bucket_targets import JOURNAL_IN_S3, Places, Services
from bench.clients import percentile
from bench.counted_s3 import BUCKET, use_credentials
from bench.figures import P50, Better, Figure, Row, Run
from bench.hot_commits import hot_commits
from bench.latency import RATE, measure_latency
from bench.rounds import Bench, Measured
from bench.tail_of_s3 import without_second_attempts
from bench.target import Target
from bench.transactions import COMMIT_P50, COMMIT_P99, commit, figures_of, work_of
from lacuna.logstore.objects.s3 import S3Store

PUT_P50 = Figure("one PUT, p50 ms", Better.NEITHER)
PUT_P99 = Figure("one PUT, p99 ms", Better.NEITHER)
COMMIT_P50_IN_PUTS = Figure("commit p50, in p50 of PUTs", Better.LESS)
COMMIT_P99_IN_PUTS = Figure("commit p99, in p99 of PUTs", Better.LESS)
P50_IN_PUTS = Figure("p50, in p50 of PUTs", Better.LESS)
END_TO_END: Final = f"end to end at {RATE}/s, through two agents"
PUTS: Final = 200
PUTS_AT_ONCE: Final = 4
PUT_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class Amount:
    """The numbers of producers, the number of rounds, and the seconds per round for transactions and for latency."""

    producers: tuple[int, ...]
    rounds: int
    seconds: float
    latency_seconds: float


AMOUNTS: Final = {
    "smoke": Amount((1,), 1, 0.5, 0.5),
    "quick": Amount((1, 8, 64), 3, 3.0, 3.0),
    "full": Amount((1, 8, 64), 7, 8.0, 10.0),
}


def bucket(bench: Bench) -> Iterator[Row]:
    use_credentials()
    amount = AMOUNTS[bench.size.name]
    with Services.started() as services:
        with services.side_by_side() as targets:
            size = replace(bench.size, runs=amount.rounds, repeats=0)
            beside = Bench(targets, size)
            for producers in amount.producers:
                yield from _transactions(beside, services, producers, amount.seconds)
            yield from _latency(beside, services, amount.latency_seconds)
        yield hot_commits(services, bench.size.name)
        yield from steady_rate(services, bench.size.name)
        yield from aborted_bytes(services, bench.size.name)


def _transactions(
    bench: Bench, services: Services, producers: int, seconds: float
) -> Iterator[Row]:
    with bench.topic_each("bucket") as topics:

        def run(target: Target, measured: Measured) -> None:
            puts = _put_times(services, target)
            commits, meter = commit(target, topics[target.label], producers, seconds)
            figures = figures_of(commits, meter)
            if puts:
                figures[COMMIT_P50_IN_PUTS] = figures[COMMIT_P50] / puts[PUT_P50]
                figures[COMMIT_P99_IN_PUTS] = figures[COMMIT_P99] / puts[PUT_P99]
            measured.add(meter, {**figures, **puts})

        def warm_up(target: Target) -> None:
            commit(target, topics[target.label], producers, 0.0)

        yield from bench.rounds([work_of(producers)], run, warm_up=warm_up)


def _latency(bench: Bench, services: Services, seconds: float) -> Iterator[Row]:
    """Measures the latency from a producer on the first agent to a consumer on the second."""
    with bench.topic_each("bucket-latency") as topics:

        def run(target: Target, measured: Measured) -> None:
            assert isinstance(target, Places)
            puts = _put_times(services, target)
            reader = target.bootstraps[-1]
            count = int(seconds * RATE)
            measure_latency(target, topics[target.label], count, measured, reader)
            if puts:
                figures = measured.runs[-1]
                figures |= {**puts, P50_IN_PUTS: figures[P50] / puts[PUT_P50]}

        yield from bench.rounds([END_TO_END], run)


def _put_times(services: Services, target: Target) -> Run:
    """Returns the percentiles of PUT times, without second attempts, for the target with its journal in S3."""
    if target.label != JOURNAL_IN_S3:
        return {}
    store = without_second_attempts(S3Store(BUCKET, "puts", endpoint=services.slow.endpoint))
    stem, body = time.monotonic_ns(), os.urandom(PUT_BYTES)

    def put(number: int) -> float:
        started = time.perf_counter()
        store.put(f"{stem}-{number}", [body])
        return (time.perf_counter() - started) * 1000

    with ThreadPoolExecutor(PUTS_AT_ONCE) as threads:
        took = list(threads.map(put, range(PUTS)))
    store.close()
    return {PUT_P50: percentile(took, 0.5), PUT_P99: percentile(took, 0.99)}
