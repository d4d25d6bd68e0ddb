"""Measures targets fairly: they take turns after a warm-up, with rests between runs, and noisy runs are repeated.

A section is a function `section(bench: Bench) -> Iterator[Row]`. It passes the work for one target to `bench.rounds`,
which decides its order and repetitions:

    warm-up A, warm-up B (discarded); A B, A B, A B (kept)

Before each run, dirty pages are written out and all targets become idle, so that no run pays for the previous one. A
run during which other processes used more than `NOISE_PERCENT` of the machine is repeated, at most `size.repeats`
times. If that does not help, the least disturbed attempt is kept and counted as noisy.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from bench.clients import fill
from bench.figures import OTHERS, Row, Run
from bench.meter import Meter, cpu_seconds, process_tree
from bench.reading import consume
from bench.target import Target, Topics, is_foreign

NOISE_PERCENT = 8.0
WARM_RECORDS = 4_000
REST_SHARE = 0.05
REST_SECONDS = 0.1
REST_WAIT_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much work a run of the benchmark does.

    Servers warm up for `warm_seconds`. Those that warm up slowly take `slow_warm_seconds`, and `slow_warm_records` of
    each kind, unless the sections' own warm-ups have many records. A noisy run is repeated up to `repeats` times, but
    only for `repeat_seconds` in total. A log contains `abort_transactions` transactions, or as many more (up to
    `transactions_at_most`) as it takes to commit `committed_transactions`. With `default_consumer`, topics are also
    read with librdkafka's default settings, which matter for topics larger than its queue of 64 MiB.
    """

    name: str
    runs: int
    repeats: int
    repeat_seconds: float
    warm_seconds: float
    slow_warm_seconds: float
    slow_warm_records: int
    records: int
    default_consumer: bool
    transaction_seconds: float
    abort_transactions: int
    committed_transactions: int
    transactions_at_most: int
    aborted_shares: tuple[int, ...]
    tail_records: int
    tiny_records: int
    tiny_requests: int
    latency_seconds: float
    idle_connections: int
    half_requests: int


SMOKE = Size(
    name="smoke",
    runs=1,
    repeats=0,
    repeat_seconds=0,
    warm_seconds=0.2,
    slow_warm_seconds=0.2,
    slow_warm_records=1_000,
    records=8_000,
    default_consumer=True,
    transaction_seconds=0.5,
    abort_transactions=40,
    committed_transactions=4,
    transactions_at_most=100,
    aborted_shares=(0, 50),
    tail_records=1_000,
    tiny_records=2_000,
    tiny_requests=500,
    latency_seconds=0.5,
    idle_connections=200,
    half_requests=10,
)
QUICK = Size(
    name="quick",
    runs=3,
    repeats=2,
    repeat_seconds=20,
    warm_seconds=5,
    slow_warm_seconds=40,
    slow_warm_records=150_000,
    records=50_000,
    default_consumer=False,
    transaction_seconds=1,
    abort_transactions=300,
    committed_transactions=60,
    transactions_at_most=1_000,
    aborted_shares=(0, 90),
    tail_records=10_000,
    tiny_records=10_000,
    tiny_requests=3_000,
    latency_seconds=1.5,
    idle_connections=1_000,
    half_requests=50,
)
FULL = Size(
    name="full",
    runs=3,
    repeats=3,
    repeat_seconds=900,
    warm_seconds=20,
    slow_warm_seconds=40,
    slow_warm_records=0,
    records=500_000,
    default_consumer=True,
    transaction_seconds=6,
    abort_transactions=3_000,
    committed_transactions=1_000,
    transactions_at_most=12_000,
    aborted_shares=(0, 10, 25, 50, 75, 90, 95, 99),
    tail_records=100_000,
    tiny_records=60_000,
    tiny_requests=50_000,
    latency_seconds=10,
    idle_connections=10_000,
    half_requests=500,
)


class Measured:
    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.excess_percent = 0.0

    def add(self, meter: Meter, figures: Run) -> None:
        """Adds a row's figures, and the load of other processes that `meter` measured."""
        self.runs.append({**figures, OTHERS: meter.others_percent})
        excess = meter.others_percent - NOISE_PERCENT - meter.grain_percent
        self.excess_percent = max(self.excess_percent, excess)


@dataclass(slots=True)
class Patience:
    seconds: float


@dataclass(slots=True)
class Bench:
    """What a section needs: its targets and the amount of work. `started` contains all running targets."""

    targets: Sequence[Target]
    size: Size
    started: Sequence[Target] = ()
    _topics: dict[str, Topics] = field(default_factory=dict)
    _warm: dict[str, str] = field(default_factory=dict)
    _patience: Patience = field(init=False)

    def __post_init__(self) -> None:
        self._patience = Patience(self.size.repeat_seconds)

    def among(self, labels: Collection[str]) -> "Bench":
        """Returns a copy for a section that measures only these targets, and any foreign ones."""
        targets = [each for each in self.targets if each.label in labels or is_foreign(each)]
        bench = replace(self, targets=targets, started=self.started or self.targets)
        bench._patience = self._patience
        return bench

    def topics(self, target: Target) -> Topics:
        if target.label not in self._topics:
            self._topics[target.label] = Topics(target)
        return self._topics[target.label]

    @contextmanager
    def topic_each(self, name: str) -> Iterator[dict[str, str]]:
        """Creates a topic on each target for the block. Yields the topics' names by target label."""
        topics = {each.label: self.topics(each).create(name) for each in self.targets}
        try:
            yield topics
        finally:
            for each in self.targets:
                self.topics(each).drop(topics[each.label])

    def rounds(
        self,
        works: Sequence[str],
        run: Callable[[Target, Measured], None],
        *,
        warm_up: Callable[[Target], object] | None = None,
    ) -> list[Row]:
        """Runs work on all targets alternately. Returns a row for each target and each of `works`, with its runs in
        order.

        Each call of `run` adds one set of figures for each of `works`, in their order. The warm-up is `warm_up` or, by
        default, another `run` with its figures discarded.
        """
        targets = self.targets
        rows = {each.label: [Row(work, each.label) for work in works] for each in targets}
        for target in targets:
            self.rest()
            if warm_up is None:
                run(target, Measured())
            else:
                warm_up(target)
        kept = [
            (target, self._once(run, target)) for _ in range(self.size.runs) for target in targets
        ]
        self._again(run, kept, rows)
        for target, measured in kept:
            _keep(rows[target.label], measured)
        return [row for label in rows for row in rows[label]]

    def forget(self, target: Target) -> str:
        """Empties the server's own caches, and warms it up again with a small topic, whose name it returns."""
        if target.label not in self._warm:
            self._warm[target.label] = self.topics(target).create("warm")
            fill(target, self._warm[target.label], WARM_RECORDS)
        if target.forget():
            consume(target, self._warm[target.label]).check(WARM_RECORDS)
        self.rest()
        return self._warm[target.label]

    def rest(self) -> None:
        """Waits, at most REST_WAIT_SECONDS, until dirty pages are written out and all targets are idle."""
        os.sync()
        started = self.started or self.targets
        deadline = time.monotonic() + REST_WAIT_SECONDS
        while time.monotonic() < deadline:
            pids = process_tree(pid for target in started for pid in target.pids)
            before = cpu_seconds(pids)
            time.sleep(REST_SECONDS)
            if cpu_seconds(pids) - before <= REST_SHARE * REST_SECONDS * max(1, len(started)):
                return

    def _once(self, run: Callable[[Target, Measured], None], target: Target) -> Measured:
        self.rest()
        measured = Measured()
        run(target, measured)
        return measured

    def _again(
        self,
        run: Callable[[Target, Measured], None],
        kept: list[tuple[Target, Measured]],
        rows: dict[str, list[Row]],
    ) -> None:
        """Repeats the noisy runs in `kept`, again alternating between the targets, and keeps the quieter attempt each
        time.
        """
        for _ in range(self.size.repeats):
            for place, (target, before) in enumerate(kept):
                if before.excess_percent > 0 and self._patience.seconds > 0:
                    started = time.monotonic()
                    measured = self._once(run, target)
                    self._patience.seconds -= time.monotonic() - started
                    for row in rows[target.label]:
                        row.repeated += 1
                    quieter = min(before, measured, key=lambda each: each.excess_percent)
                    kept[place] = (target, quieter)


def _keep(rows: list[Row], measured: Measured) -> None:
    for row, figures in zip(rows, measured.runs, strict=True):
        row.runs.append(figures)
        row.noisy += measured.excess_percent > 0
