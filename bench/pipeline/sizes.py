"""How much the sections of bench/pipeline do."""

from dataclasses import dataclass, replace

from bench import rounds
from bench.pipeline.spark import Spark
from bench.rounds import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """`transactions`, of 100 records, of the log by the share that is aborted; `rounds`: how often, see there.

    `settles`: Lacuna has done with merging what transactions left before they are read.
    """

    rounds: rounds.Size
    records: int
    transactions: dict[int, int]
    compacted_transactions: int
    stream_warm_seconds: float
    stream_seconds: float
    settles: bool


FULL = Size(
    rounds=replace(rounds.FULL, repeats=2, repeat_seconds=600),
    records=1_000_000,
    transactions={50: 10_000, 90: 20_000},
    compacted_transactions=5_000,
    stream_warm_seconds=8,
    stream_seconds=20,
    settles=True,
)
QUICK = Size(
    rounds=replace(rounds.QUICK, runs=1, repeats=0, repeat_seconds=0),
    records=60_000,
    transactions={50: 400, 90: 800},
    compacted_transactions=300,
    stream_warm_seconds=4,
    stream_seconds=6,
    settles=False,
)
SIZES = {"full": FULL, "quick": QUICK}


@dataclass(frozen=True, slots=True)
class PipelineBench:
    """What a section is given."""

    bench: Bench
    spark: Spark
    size: Size
