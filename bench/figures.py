"""A section's results: rows of figures.

A `Row` is one piece of work on one target. Its `runs` are the measured repetitions, without warm-ups, each with a value
per `Figure`. Reports show the median, followed by the minimum and maximum.
"""

import statistics
from dataclasses import dataclass, field
from enum import Enum

MEGABYTE = 1_000_000
GIBIBYTE = 1 << 30


class Better(Enum):
    MORE = "more"
    LESS = "less"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured quantity. Its name in tables and in the JSON includes the unit."""

    name: str
    better: Better


THROUGHPUT = Figure("MB/s", Better.MORE)
KILO_RECORDS = Figure("krecords/s", Better.MORE)
CPU_PER_GIB = Figure("server CPU s/GiB", Better.LESS)
CPU_PER_1000 = Figure("server CPU s/1000", Better.LESS)
WIRE_BYTES = Figure("wire bytes/record", Better.LESS)
STORE_BYTES = Figure("store bytes/record", Better.LESS)
P50 = Figure("p50 ms", Better.LESS)
P99 = Figure("p99 ms", Better.LESS)
OTHERS = Figure("others %", Better.NEITHER)
BUSIEST = Figure("client's busiest thread %", Better.NEITHER)

Run = dict[Figure, float]


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    least: float
    most: float


@dataclass(slots=True)
class Row:
    """One piece of work on one target.

    `repeated` counts the repetitions that other load on the machine made necessary, and `noisy` the runs that were kept
    although they are noisy.
    """

    work: str
    target: str
    runs: list[Run] = field(default_factory=list)
    repeated: int = 0
    noisy: int = 0

    @property
    def is_noise(self) -> bool:
        """Whether more than half of the runs are noisy."""
        return self.noisy * 2 > len(self.runs)

    def spreads(self) -> dict[Figure, Spread]:
        spreads = {}
        for figure in self.runs[0]:
            values = [run[figure] for run in self.runs]
            spreads[figure] = Spread(statistics.median(values), min(values), max(values))
        return spreads


def ratio(ours: Row, theirs: Row, figure: Figure) -> float | None:
    """Returns the ratio of a figure in two rows, or None if the figure is missing from one of them, or is 0 in
    `theirs`.

    This is the median of the rounds' ratios, because other load changes between rounds. If the rows have different
    numbers of runs, it is the ratio of the medians.
    """
    pairs = (ours.runs, theirs.runs)
    mine, others = ([run[figure] for run in runs if figure in run] for runs in pairs)
    if not mine or not others or 0 in others:
        return None
    if len(mine) != len(others):
        return statistics.median(mine) / statistics.median(others)
    return statistics.median(one / other for one, other in zip(mine, others, strict=True))
