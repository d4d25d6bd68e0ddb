"""Goals for figures, and whether they are met.

A goal applies to one figure of one piece of work on `target`: to its ratio to the same work on the target `against`, to
its ratio to the work `reference` on the same target, or, without either, to the figure itself. The value must be at
least `limit` if more is better, and at most `limit` if less is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.aborts import work_of as aborted
from bench.bucket import AMOUNTS as BUCKET_AMOUNTS
from bench.bucket import COMMIT_P50_IN_PUTS, COMMIT_P99_IN_PUTS, P50_IN_PUTS
from bench.bucket import END_TO_END as THROUGH_TWO_AGENTS
from bench.bucket_costs import AMOUNTS as COST_AMOUNTS
from bench.bucket_costs import BYTES, aborted_work_of, steady_work_of
from bench.bucket_targets import FOLDER, JOURNAL_IN_S3, S3
from bench.costs import GETS, PUTS, WRITE_DOLLARS
from bench.figures import (
    CPU_PER_1000,
    CPU_PER_GIB,
    GIBIBYTE,
    KILO_RECORDS,
    P50,
    P99,
    STORE_BYTES,
    THROUGHPUT,
    WIRE_BYTES,
    Better,
    Figure,
    ratio,
)
from bench.journal_targets import POSTGRESQL, SQLITE
from bench.journals import work_of as journal_of_transactions_by
from bench.latency import WORK as END_TO_END
from bench.memory import AMOUNTS, AN_EXTENT, CONSUMERS, RESIDENT, TOGETHER
from bench.results import Results
from bench.rounds import FULL
from bench.sections import KAFKA, KAFKA_4_4, KAFKA_FSYNC, LACUNA, LACUNA_GRPC
from bench.shares import MEMBERS
from bench.shares import work_of as shared_by
from bench.standby import AMOUNTS as EXTENTS
from bench.standby import BUCKET, LATER, READY
from bench.standby import work_of as standby_with
from bench.tail import ANSWERS, STORE, WIRE_PER_PARTITION
from bench.tail import work_of as tail_of
from bench.tiny import PRODUCE, READ, READ_AGAIN, REQUESTS
from bench.transactions import COMMIT_P50, COMMIT_P99, TRANSACTIONS
from bench.transactions import work_of as transactions_by


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit for one figure of one piece of work. The module's docstring describes the fields."""

    work: str
    figure: Figure
    limit: float
    against: str = ""
    reference: str = ""
    target: str = LACUNA

    def __str__(self) -> str:
        sign = "≥" if self.figure.better is Better.MORE else "≤"
        who = "" if self.target == LACUNA else f" ({self.target})"
        of = self.reference or self.against
        ratio = f" × {of}" if of else ""
        return f"{self.work}{who}: {self.figure.name} {sign} {self.limit:,g}{ratio}"


def _throughput() -> Iterable[Goal]:
    for codec in ("none", "lz4"):
        for read in (f"read_committed, {codec}", f"read_committed, tuned, {codec}"):
            yield Goal(read, THROUGHPUT, 1.0, KAFKA)
        yield Goal(f"read_committed, tuned, {codec}", CPU_PER_GIB, 1.2, KAFKA)
        yield Goal(f"produce, {codec}", THROUGHPUT, 1.5, KAFKA_FSYNC)


def _aborts() -> Iterable[Goal]:
    yield Goal(aborted(0, "none"), KILO_RECORDS, 1.0, KAFKA)
    for codec, of_kafka in (("none", {50: 3.0, 90: 18.0}), ("lz4", {50: 2.0, 90: 14.0})):
        for share, of_clean in ((50, 0.95), (90, 0.9)):
            work = aborted(share, codec)
            yield Goal(work, KILO_RECORDS, of_kafka[share], KAFKA)
            yield Goal(work, KILO_RECORDS, of_clean, reference=aborted(0, codec))
            for figure in (WIRE_BYTES, STORE_BYTES):
                yield Goal(aborted(share, codec), figure, 1.1, reference=aborted(0, codec))


def _transactions() -> Iterable[Goal]:
    for producers, of_kafka, of_fsync in ((1, 1.1, 8.0), (8, 1.2, 6.0)):
        work = transactions_by(producers)
        yield Goal(work, TRANSACTIONS, of_kafka, KAFKA)
        yield Goal(work, TRANSACTIONS, 0.8, KAFKA, target=LACUNA_GRPC)
        yield Goal(work, TRANSACTIONS, of_fsync, KAFKA_FSYNC)
        yield Goal(work, COMMIT_P99, 1.0, KAFKA)


def _journals() -> Iterable[Goal]:
    for producers in (1, 8):
        work = journal_of_transactions_by(producers)
        yield Goal(work, TRANSACTIONS, 0.8, SQLITE, target=POSTGRESQL)
        yield Goal(work, CPU_PER_1000, 1.25, SQLITE, target=POSTGRESQL)


def _bucket() -> Iterable[Goal]:
    amount = BUCKET_AMOUNTS[FULL.name]
    for producers in amount.producers:
        work = transactions_by(producers)
        yield Goal(work, TRANSACTIONS, 0.7, FOLDER, target=S3)
        yield Goal(work, COMMIT_P50, 1.4, FOLDER, target=S3)
        yield Goal(work, COMMIT_P99, 2.0, FOLDER, target=S3)
        yield Goal(work, COMMIT_P50_IN_PUTS, 1.6, target=JOURNAL_IN_S3)
        yield Goal(work, COMMIT_P99_IN_PUTS, 2.2, target=JOURNAL_IN_S3)
    yield Goal(THROUGH_TWO_AGENTS, P50, 2.0, FOLDER, target=S3)
    yield Goal(THROUGH_TWO_AGENTS, P50_IN_PUTS, 2.0, target=JOURNAL_IN_S3)
    # A third of the cost if every flush had an object of its own.
    costs = COST_AMOUNTS[FULL.name]
    for agents in costs.agents:
        steady = steady_work_of(costs.rate, agents)
        yield Goal(steady, PUTS, 160, target=S3)
        yield Goal(steady, GETS, 391, target=S3)
        yield Goal(steady, WRITE_DOLLARS, 0.82, target=S3)
    for producers in costs.producers:
        yield Goal(aborted_work_of(costs.transactions, producers), BYTES, 1.02, target=S3)


def _standby() -> Iterable[Goal]:
    for target in (POSTGRESQL, BUCKET):
        for later in (0, LATER):
            yield Goal(standby_with(EXTENTS[FULL.name], later), READY, 5.0, target=target)


def _memory() -> Iterable[Goal]:
    yield Goal(AN_EXTENT, TOGETHER, 1536)
    size = AMOUNTS[FULL.name].read_bytes / GIBIBYTE
    yield Goal(f"{CONSUMERS} consumers, each of {size:.3g} GiB", RESIDENT, 400)


def _others() -> Iterable[Goal]:
    tail = tail_of(FULL.tail_records)
    yield Goal(tail, ANSWERS, 1)
    yield Goal(tail, WIRE_PER_PARTITION, 200)
    # A server's reads from its sockets are counted as well; the smallest piece of a tail has 25 KB.
    yield Goal(tail, STORE, 4096)
    yield Goal(READ, KILO_RECORDS, 0.8, KAFKA)
    yield Goal(READ_AGAIN, KILO_RECORDS, 1.2, KAFKA)
    yield Goal(READ_AGAIN, WIRE_BYTES, 0.7, KAFKA)
    yield Goal(PRODUCE, REQUESTS, 0.7, KAFKA)
    yield Goal(END_TO_END, P50, 2.0)
    yield Goal(END_TO_END, P50, 1.2, KAFKA_FSYNC)


def _shares() -> Iterable[Goal]:
    for members in MEMBERS:
        yield Goal(shared_by(members), KILO_RECORDS, 0.8, KAFKA_4_4)
        yield Goal(shared_by(members), P99, 1.25, KAFKA_4_4)


GOALS: dict[str, tuple[Goal, ...]] = {
    "throughput": tuple(_throughput()),
    "transactions": tuple(_transactions()),
    "aborts": tuple(_aborts()),
    "journals": tuple(_journals()),
    "others": tuple(_others()),
    "shares": tuple(_shares()),
    "memory": tuple(_memory()),
    "standby": tuple(_standby()),
    "bucket": tuple(_bucket()),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal and the measured ratio or figure. `is_noise` means that other load disturbed the measurement."""

    goal: Goal
    value: float
    is_noise: bool = False

    @property
    def is_met(self) -> bool:
        if self.goal.figure.better is Better.MORE:
            return self.value >= self.goal.limit
        return self.value <= self.goal.limit


def judge(results: Results, goals: Mapping[str, Sequence[Goal]] | None = None) -> list[Verdict]:
    """Judges the goals (by default `GOALS`) for which everything has been measured, in order."""
    verdicts = []
    for goal in (goal for group in (goals or GOALS).values() for goal in group):
        row = results.row(goal.work, goal.target)
        value = results.median(goal.work, goal.target, goal.figure)
        if row is None or value is None:
            continue
        if not goal.against and not goal.reference:
            verdicts.append(Verdict(goal, value, row.is_noise))
            continue
        other_row = results.row(goal.reference or goal.work, goal.against or goal.target)
        found = None if other_row is None else ratio(row, other_row, goal.figure)
        if other_row is not None and found is not None:
            verdicts.append(Verdict(goal, found, row.is_noise or other_row.is_noise))
    return verdicts
