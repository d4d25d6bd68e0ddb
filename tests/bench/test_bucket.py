"""The section `bucket`: ratios of rounds, the order of runs, and the goals that it has rows for."""

from bench.bucket import AMOUNTS, END_TO_END
from bench.bucket_costs import AMOUNTS as COSTS
from bench.bucket_costs import aborted_work_of, steady_work_of
from bench.bucket_targets import FOLDER, JOURNAL_IN_S3, S3
from bench.figures import P50, P99, THROUGHPUT, Row, ratio
from bench.goals import GOALS, judge
from bench.report import table
from bench.results import Results
from bench.rounds import FULL
from bench.transactions import TRANSACTIONS, work_of


def rows_of(ours: list[float], theirs: list[float]) -> tuple[Row, Row]:
    return (
        Row(work_of(1), S3, [{TRANSACTIONS: each} for each in ours]),
        Row(work_of(1), FOLDER, [{TRANSACTIONS: each} for each in theirs]),
    )


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    """The machine was twice as slow in the second round, and three times in the third."""
    ours, theirs = rows_of([80.0, 45.0, 20.0], [100.0, 50.0, 33.0])
    assert ratio(ours, theirs, TRANSACTIONS) == 0.8
    assert table([ours, theirs])[1] == [
        work_of(1),
        "transactions/s",
        *("45 (20–80)", "50 (33–100)"),
        "0.8",
    ]
    verdict = next(iter(judge(Results("full", {}, {"bucket": [ours, theirs]}))))
    assert (verdict.value, verdict.is_met) == (0.8, True)


def test_rows_with_different_numbers_of_runs_have_the_ratio_of_their_medians() -> None:
    ours, theirs = rows_of([80.0, 60.0], [100.0])
    assert ratio(ours, theirs, TRANSACTIONS) == 0.7


def test_without_a_figure_on_both_sides_there_is_no_ratio() -> None:
    ours, theirs = rows_of([80.0], [0.0])
    assert ratio(ours, theirs, TRANSACTIONS) is None
    assert ratio(ours, theirs, P50) is None
    assert ratio(Row("a", S3, [{P99: 1.0}]), Row("a", FOLDER, [{THROUGHPUT: 1.0}]), P99) is None


def test_every_goal_is_about_a_row_of_a_full_run() -> None:
    amount, costs = AMOUNTS[FULL.name], COSTS[FULL.name]
    beside = {*map(work_of, amount.producers), END_TO_END}
    rows = {(work, target) for work in beside for target in (S3, JOURNAL_IN_S3)}
    rows |= {(steady_work_of(costs.rate, agents), S3) for agents in costs.agents}
    rows |= {(aborted_work_of(costs.transactions, each), S3) for each in costs.producers}
    assert {(goal.work, goal.target) for goal in GOALS["bucket"]} == rows
