"""The goals of the pipeline; bench/goals.py explains them."""

from bench.figures import THROUGHPUT
from bench.goals import Goal
from bench.pipeline.batch import work_of as read
from bench.pipeline.compaction import INPUT, SHARES
from bench.pipeline.compaction import work_of as compacted
from bench.pipeline.streaming import P50, WORK
from bench.sections import KAFKA

GOALS = {
    "batch": (
        Goal(read(0), THROUGHPUT, 1.5, KAFKA),
        Goal(read(50), THROUGHPUT, 2.5, KAFKA),
        Goal(read(90), THROUGHPUT, 6.0, KAFKA),
    ),
    "compaction": tuple(Goal(compacted(share), INPUT, 80) for share in SHARES),
    "streaming": (Goal(WORK, P50, 1.5),),
}
