"""The cost of a journal: the same work with the journal in SQLite, in PostgreSQL, and in a bucket.

The first workload is one append after another, in this process; the second is transactions, through a control plane and
an agent in separate processes. PostgreSQL runs on the same machine, is reached over a Unix socket, and syncs every
append, as its default settings require. The bucket is moto's, delays each request by `DELAY_SECONDS`, and also contains
the records.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from bench.clients import percentile
from bench.counted_s3 import JOURNAL_PUT, PUT, CountedS3, use_credentials
from bench.figures import CPU_PER_1000, P50, P99, Better, Figure, Row, Run
from bench.journal_targets import (
    AGENT,
    CONTROL_PLANE,
    DATABASE,
    SLOW_BUCKET,
    InBucket,
    InPostgresql,
    InSqlite,
    postgresql,
)
from bench.meter import Meter
from bench.rounds import Bench, Measured
from bench.target import Target
from bench.transactions import PRODUCERS, RECORDS, commit, figures_of
from lacuna.agent.server import run as run_on_uvloop
from lacuna.controlplane.journal.journal import Journal

DELAY_SECONDS: Final = 0.05
#: Transactions take longer in the bucket by this factor, and percentiles need several hundred transactions.
BUCKET_TIMES: Final = 3

APPEND: Final = "append, one after another"
RECORD_BYTES: Final = 400
WARM_UP_APPENDS: Final = 10
APPENDS = Figure("appends/s", Better.MORE)
WRITER_CPU = Figure("writer CPU s/1000", Better.LESS)

CPU = {part: Figure(f"{part} CPU s/1000", Better.LESS) for part in (CONTROL_PLANE, AGENT, DATABASE)}
PUTS_PER_SECOND = {
    JOURNAL_PUT: Figure("journal PUTs/s", Better.NEITHER),
    PUT: Figure("all PUTs/s", Better.NEITHER),
}
JOURNAL_PUTS = Figure("journal PUTs/transaction", Better.LESS)


def work_of(producers: int) -> str:
    plural = "s" if producers > 1 else ""
    return f"journal of transactions of {RECORDS}, {producers} producer{plural}"


def journals(bench: Bench) -> Iterator[Row]:
    """Yields rows for each journal: one for appends, and one for each number of producers."""
    use_credentials()
    with ExitStack() as stack:
        made = [InSqlite(), InBucket(stack.enter_context(CountedS3(DELAY_SECONDS)))]
        if server := stack.enter_context(postgresql()):
            made.insert(1, InPostgresql(server))
        started = Bench([stack.enter_context(target) for target in made], bench.size)
        yield from _appends(started)
        for producers in PRODUCERS:
            yield from _transactions(started, producers)


def _appends(bench: Bench) -> Iterator[Row]:
    def run(target: Target, measured: Measured) -> None:
        assert isinstance(target, InSqlite)
        with target.another_journal() as journal:
            seconds = bench.size.transaction_seconds
            run_on_uvloop(_append(journal, target, seconds, measured))

    # `_append` warms up the journal itself, since each journal is new.
    yield from bench.rounds([APPEND], run, warm_up=lambda _: None)


async def _append(journal: Journal, target: Target, seconds: float, measured: Measured) -> None:
    """Appends for this many seconds, and adds the figures to `measured`."""
    records = [bytes(RECORD_BYTES)]
    opened = await journal.open(None)
    for _ in range(WARM_UP_APPENDS):
        await journal.append(records, opened.fencing_token)
    took: list[float] = []
    with Meter(target) as meter:
        cpu = time.process_time()
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            await journal.append(records, opened.fencing_token)
            took.append(time.perf_counter() - started)
        cpu = time.process_time() - cpu
    await journal.close()
    thousands = len(took) / 1000
    figures = {
        APPENDS: len(took) / meter.seconds,
        P50: percentile(took, 0.5) * 1000,
        P99: percentile(took, 0.99) * 1000,
        WRITER_CPU: cpu / thousands,
    }
    if DATABASE in meter.counted:
        figures[CPU[DATABASE]] = meter.counted[DATABASE] / thousands
    measured.add(meter, figures)


def _transactions(bench: Bench, producers: int) -> Iterator[Row]:
    with bench.topic_each(f"journals-{producers}") as topics:

        def run(target: Target, measured: Measured) -> None:
            seconds = bench.size.transaction_seconds
            if target.label == SLOW_BUCKET:
                seconds *= BUCKET_TIMES
            commits, meter = commit(target, topics[target.label], producers, seconds)
            measured.add(meter, _figures(commits, meter))

        def warm_up(target: Target) -> None:
            commit(target, topics[target.label], producers, 0.0)

        yield from bench.rounds([work_of(producers)], run, warm_up=warm_up)


def _figures(commits: list[float], meter: Meter) -> Run:
    figures = figures_of(commits, meter)
    thousands = len(commits) / 1000
    cpu = {figure: meter.counted[part] for part, figure in CPU.items() if part in meter.counted}
    figures |= {figure: each / thousands for figure, each in cpu.items()}
    # Excludes the CPU time of the bucket's service.
    figures[CPU_PER_1000] = sum(cpu.values()) / thousands
    if JOURNAL_PUT in meter.counted:
        for kind, figure in PUTS_PER_SECOND.items():
            figures[figure] = meter.counted[kind] / meter.seconds
        figures[JOURNAL_PUTS] = meter.counted[JOURNAL_PUT] / len(commits)
    return figures
