from dataclasses import dataclass, replace

from bench import rounds
from bench.pipeline.spark import Spark
from bench.rounds import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much work a run does.

    `transactions` maps each percentage of transactions to abort to the total number of transactions, of 100 records
    each. `rounds` is the number of repetitions. If `settles`, Lacuna merges small extents before logs are read. The
    first `warm_up_reads` of a log are discarded, because the JVM compiles code only once it has run many times.
    """

    rounds: rounds.Size
    records: int
    warm_up_reads: int
    transactions: dict[int, int]
    compacted_transactions: int
    stream_warm_seconds: float
    stream_seconds: float
    settles: bool


FULL = Size(
    rounds=replace(rounds.FULL, repeats=2, repeat_seconds=600),
    records=1_000_000,
    warm_up_reads=2,
    transactions={50: 10_000, 90: 20_000},
    compacted_transactions=5_000,
    stream_warm_seconds=8,
    stream_seconds=20,
    settles=True,
)
QUICK = Size(
    rounds=replace(rounds.QUICK, runs=1, repeats=0, repeat_seconds=0),
    records=60_000,
    warm_up_reads=2,
    transactions={50: 400, 90: 800},
    compacted_transactions=300,
    stream_warm_seconds=4,
    stream_seconds=6,
    settles=False,
)
SMOKE = Size(
    rounds=rounds.SMOKE,
    records=4_000,
    warm_up_reads=0,
    transactions={50: 40},
    compacted_transactions=40,
    stream_warm_seconds=0.5,
    stream_seconds=1.5,
    settles=False,
)
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


@dataclass(frozen=True, slots=True)
class PipelineBench:
    """What a section needs: the bench with its targets, the Spark session, and the amount of work."""

    bench: Bench
    spark: Spark
    size: Size
