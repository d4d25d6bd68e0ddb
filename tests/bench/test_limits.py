"""Which figures are worse than in an earlier run, miss a goal, or are near a limit; and ratios over rounds."""

from pathlib import Path
from typing import Any

import pytest

from bench import machine, throughput
from bench.aborts import work_of as aborted
from bench.bucket import AMOUNTS
from bench.bucket import END_TO_END as BUCKET_END_TO_END
from bench.bucket_costs import AMOUNTS as COSTS
from bench.bucket_costs import aborted_work_of, steady_work_of
from bench.bucket_targets import FOLDER, JOURNAL_IN_S3, S3
from bench.compare import worse
from bench.figures import (
    BUSIEST,
    KILO_RECORDS,
    OTHERS,
    P50,
    P99,
    THROUGHPUT,
    WIRE_BYTES,
    Figure,
    Row,
    ratio,
)
from bench.goals import GOALS, Goal, Verdict, judge
from bench.latency import WORK as END_TO_END
from bench.limits import LIMITS, Limit, ends
from bench.report import ends_table, page_part, table, verdict_line
from bench.results import Results
from bench.rounds import FULL
from bench.sections import BARE, KAFKA, LACUNA
from bench.tiny import PRODUCE, REQUESTS
from bench.transactions import TRANSACTIONS, work_of
from bench.transactions import work_of as transactions_by


def runs_of(figure: Figure, **runs: list[float]) -> Results:
    """Return results for one piece of work, by target."""
    rows = [
        Row("work", target, [{figure: value} for value in values])
        for target, values in runs.items()
    ]
    return Results("full", {}, {"section": rows})


@pytest.mark.parametrize(
    ("figure", "before", "now"),
    [(THROUGHPUT, [98, 100, 102], [70, 75, 80]), (P50, [1.0, 1.1, 1.2], [1.5, 1.6, 1.7])],
)
def test_worse_is_a_tenth_and_beyond_the_spread(
    figure: Figure, before: list[float], now: list[float]
) -> None:
    changes = list(worse(runs_of(figure, lacuna=before), runs_of(figure, lacuna=now)))
    assert [(each.figure, each.before, each.now) for each in changes] == [
        (figure, before[1], now[1])
    ]
    assert not list(worse(runs_of(figure, lacuna=now), runs_of(figure, lacuna=before)))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([98.0, 100.0, 102.0], [92.0, 93.0, 94.0]),  # less than a tenth
        ([60.0, 100.0, 102.0], [50.0, 70.0, 72.0]),  # the runs overlap
    ],
)
def test_noise_is_not_worse(before: list[float], now: list[float]) -> None:
    assert not list(worse(runs_of(THROUGHPUT, lacuna=before), runs_of(THROUGHPUT, lacuna=now)))


def test_a_slower_machine_is_not_a_slower_lacuna() -> None:
    before = runs_of(THROUGHPUT, lacuna=[100, 101, 102], kafka=[200, 201, 202])
    slower_machine = runs_of(THROUGHPUT, lacuna=[50, 51, 52], kafka=[100, 101, 102])
    slower_lacuna = runs_of(THROUGHPUT, lacuna=[50, 51, 52], kafka=[200, 201, 202])
    assert not list(worse(before, slower_machine))
    assert [each.target for each in worse(before, slower_lacuna)] == ["lacuna"]


def test_kafka_and_the_neighbours_are_not_ours_to_worsen() -> None:
    assert not list(worse(runs_of(THROUGHPUT, kafka=[100]), runs_of(THROUGHPUT, kafka=[10])))
    assert not list(worse(runs_of(OTHERS, lacuna=[1]), runs_of(OTHERS, lacuna=[50])))


def test_rows_that_are_mostly_noise_are_not_compared() -> None:
    before = runs_of(THROUGHPUT, lacuna=[100, 101, 102])
    now = runs_of(THROUGHPUT, lacuna=[50, 51, 52])
    now.sections["section"][0].noisy = 1
    assert list(worse(before, now))
    now.sections["section"][0].noisy = 2
    assert not list(worse(before, now))


def measured_results(*measured: tuple[str, str, Figure, float], **facts: Any) -> Results:
    """Return results with one run per row."""
    rows: dict[tuple[str, str], Row] = {}
    for work, target, figure, value in measured:
        row = rows.setdefault((work, target), Row(work, target, [{}]))
        row.runs[0][figure] = value
    return Results("full", facts, {"section": list(rows.values())})


@pytest.mark.parametrize(
    ("goal", "value", "is_met"),
    [
        (Goal("read", THROUGHPUT, 1.0, KAFKA), 1.0, True),
        (Goal("read", THROUGHPUT, 1.0, KAFKA), 0.99, False),
        (Goal("read", P50, 2.0), 2.0, True),
        (Goal("read", P50, 2.0), 2.01, False),
    ],
)
def test_at_least_where_more_is_better_and_at_most_where_less_is(
    goal: Goal, value: float, is_met: bool
) -> None:
    assert Verdict(goal, value).is_met is is_met


def test_every_kind_of_goal_is_judged_by_its_own_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    goals = (
        Goal("read", THROUGHPUT, 1.5, KAFKA),
        Goal("read", P50, 2.0),
        Goal("dirty", WIRE_BYTES, 1.1, reference="read"),
        Goal("idle", WIRE_BYTES, 200),
    )
    monkeypatch.setattr("bench.goals.GOALS", {"section": goals})
    measured = measured_results(
        ("read", LACUNA, THROUGHPUT, 300.0),
        ("read", KAFKA, THROUGHPUT, 100.0),
        ("read", LACUNA, P50, 2.5),
        ("read", LACUNA, WIRE_BYTES, 100.0),
        ("dirty", LACUNA, WIRE_BYTES, 130.0),
        ("dirty", KAFKA, WIRE_BYTES, 1.0),
        ("idle", LACUNA, WIRE_BYTES, 0.0),
    )
    verdicts = judge(measured)
    assert [(each.goal, each.value, each.is_met) for each in verdicts] == [
        (goals[0], 3.0, True),
        (goals[1], 2.5, False),
        (goals[2], 1.3, False),
        (goals[3], 0.0, True),
    ]


def test_a_verdict_on_noise_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.goals.GOALS", {"section": (Goal("read", THROUGHPUT, 1.0, KAFKA),)})
    measured = measured_results(("read", LACUNA, THROUGHPUT, 3.0), ("read", KAFKA, THROUGHPUT, 1.0))
    assert [verdict_line(each) for each in judge(measured)] == ["met     read: MB/s ≥ 1 × kafka: 3"]
    measured.sections["section"][1].noisy = 1
    assert [verdict_line(each) for each in judge(measured)] == [
        "met     read: MB/s ≥ 1 × kafka: 3 (noise)"
    ]


def test_what_was_not_measured_is_not_judged() -> None:
    """Without Kafka, only goals that do not need it are left."""
    assert judge(measured_results(("produce, none", LACUNA, THROUGHPUT, 300.0))) == []


def test_a_goal_says_what_it_asks() -> None:
    assert str(Goal("read", THROUGHPUT, 1.0, KAFKA)) == "read: MB/s ≥ 1 × kafka"
    assert str(Goal("read", P50, 2.0)) == "read: p50 ms ≤ 2"
    assert (
        str(Goal("dirty", WIRE_BYTES, 1.1, reference="read"))
        == "dirty: wire bytes/record ≤ 1.1 × read"
    )


def test_every_goal_can_be_met_or_missed() -> None:
    """A figure without a better direction could not be judged."""
    for goals in GOALS.values():
        assert all(goal.figure.better.value != "neither" for goal in goals)


ROOT = Path(__file__).resolve().parents[2]
ONE, EIGHT = transactions_by(1), transactions_by(8)
PRODUCED, PRODUCED_LZ4 = (throughput.work_of(throughput.PRODUCE, each) for each in ("none", "lz4"))
TUNED = throughput.work_of(throughput.READ_TUNED, "none")


PRODUCED_AT = [(PRODUCED, LACUNA, THROUGHPUT, 300.0), (PRODUCED, LACUNA, BUSIEST, 75.0)]
HALF, CLEAN = aborted(50, "none"), aborted(0, "none")
CLIENT, CLIENTS = "the client's busiest thread", "the clients, the sockets, and Python"
#: The measured figure, the machine's speeds, the limit, its value, and how near Lacuna is to it.
NEAREST: dict[str, tuple[list[Any], dict[str, float], str, float, float]] = {
    "a client that never waits has the rate of its busiest thread": (
        PRODUCED_AT,
        {},
        CLIENT,
        400,
        0.75,
    ),
    # A client that waits for a slow server wastes CPU: 95 % at 19 MB/s, but 50 % at 200 MB/s with `bare`.
    "the client counts at its best beside any server": (
        [
            (PRODUCED, LACUNA, THROUGHPUT, 19.0),
            (PRODUCED, LACUNA, BUSIEST, 95.0),
            (PRODUCED, BARE, THROUGHPUT, 200.0),
            (PRODUCED, BARE, BUSIEST, 50.0),
        ],
        {},
        CLIENT,
        400,
        19 / 400,
    ),
    "a disk that is faster than the client": (
        PRODUCED_AT,
        {machine.DISK: 2000},
        CLIENT,
        400,
        0.75,
    ),
    "a disk that is slower": (PRODUCED_AT, {machine.DISK: 320}, "the disk", 320, 300 / 320),
    # Of 1,024 bytes, it writes 512, so the limit is twice as many records.
    "the disk gets what lz4 leaves of a record": (
        [
            (PRODUCED_LZ4, LACUNA, THROUGHPUT, 300.0),
            (aborted(0, "lz4"), LACUNA, WIRE_BYTES, 512.0),
        ],
        {machine.DISK: 1000},
        "the disk",
        2000,
        0.15,
    ),
    "a read copies each byte twice": (
        [(TUNED, LACUNA, THROUGHPUT, 800.0)],
        {machine.COPY: 8.0},
        "copying memory",
        4000,
        0.2,
    ),
    # 1 ms on `bare`, and four times 0.25 ms.
    "one producer waits for the client and four syncs": (
        [(ONE, LACUNA, TRANSACTIONS, 400.0), (ONE, BARE, TRANSACTIONS, 1000.0)],
        {machine.SYNC: 0.25},
        "the client, plus 4 consecutive syncs",
        500,
        0.8,
    ),
    "a record is read after the clients and two syncs": (
        [(END_TO_END, LACUNA, P50, 1.0), (END_TO_END, BARE, P50, 0.25)],
        {machine.SYNC: 0.125},
        "the clients, plus 2 consecutive syncs",
        0.5,
        2,
    ),
    "many producers end where bare does": (
        [(EIGHT, LACUNA, TRANSACTIONS, 900.0), (EIGHT, BARE, TRANSACTIONS, 3600.0)],
        {},
        CLIENTS,
        3600,
        0.25,
    ),
    "requests end where bare does": (
        [(PRODUCE, LACUNA, REQUESTS, 900.0), (PRODUCE, BARE, REQUESTS, 3600.0)],
        {},
        CLIENTS,
        3600,
        0.25,
    ),
    # Their client could read 900.
    "aborted records end at the rate without any": (
        [
            (HALF, LACUNA, KILO_RECORDS, 540.0),
            (HALF, LACUNA, BUSIEST, 60.0),
            (CLEAN, LACUNA, KILO_RECORDS, 720.0),
        ],
        {},
        "the read without aborted records",
        720,
        0.75,
    ),
}


@pytest.mark.parametrize("case", NEAREST)
def test_the_nearest_limit_counts(case: str) -> None:
    measured, speeds, name, value, near = NEAREST[case]
    (end,) = ends(measured_results(*measured, speeds=speeds))
    assert (end.limit.name, end.value) == (name, value)
    assert end.ratio == pytest.approx(near)


def test_the_limit_of_aborted_records_is_that_of_lacunas_row_without_any() -> None:
    measured, *_ = NEAREST["aborted records end at the rate without any"]
    (end,) = ends(measured_results(*measured))
    assert end.limit.how == "0 % aborted, none, on lacuna"


def test_of_a_time_the_longest_limit_is_the_nearest() -> None:
    def limit(name: str, ms: float) -> Limit:
        return Limit("wait", P50, name, "asked", lambda _: ms)

    limits = [limit("a", 1.0), limit("b", 2.0)]
    found = measured_results(("wait", LACUNA, P50, 3.0))
    for order in (limits, limits[::-1]):
        (end,) = ends(found, order)
        assert (end.limit.name, end.ratio) == ("b", 1.5)


def test_what_was_not_measured_has_no_end() -> None:
    """Only Lacuna's runs count, and a missing speed gives no limit."""
    assert ends(measured_results((EIGHT, LACUNA, TRANSACTIONS, 900.0))) == []
    assert ends(measured_results((EIGHT, BARE, TRANSACTIONS, 900.0))) == []
    alone = ((ONE, LACUNA, TRANSACTIONS, 400.0), (ONE, BARE, TRANSACTIONS, 1000.0))
    assert ends(measured_results(*alone)) == []


def test_older_results_load_and_say_less() -> None:
    """They have no speeds, no `bare` and no client threads."""
    kept = Results.load(ROOT / "docs" / "performance.json")
    assert kept is not None
    for end in ends(kept):
        assert end.value > 0


def test_the_table_says_what_bounds_and_how_that_was_measured() -> None:
    found = measured_results(
        (EIGHT, LACUNA, TRANSACTIONS, 900.0), (EIGHT, BARE, TRANSACTIONS, 3600.0)
    )
    heading, line = ends_table(ends(found))
    measures = ["bounded by", "how the bound was measured", "lacuna", "limit", "lacuna / limit"]
    assert heading[2:] == measures
    assert line == [
        "transactions of 10, 8 producers",
        "transactions/s",
        "the clients, the sockets, and Python",
        "the same on `bare`, which only answers",
        *("900", "3,600", "0.25"),
    ]
    found.facts |= {"machine": {}, "targets": {}, "measured": {"section": "today"}}
    part = page_part(found, [])
    assert "### Where it ends" in part
    assert "| --- | --- | --- | --- | ---: | ---: | ---: |" in part
    assert f"| {' | '.join(line)} |" in part


def test_a_figure_that_is_bounded_can_be_near_or_far() -> None:
    """The nearest limit of a figure without a better direction could not be determined."""
    assert all(limit.figure.better.value != "neither" for limit in LIMITS)


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
    beside = {*map(work_of, amount.producers), BUCKET_END_TO_END}
    rows = {(work, target) for work in beside for target in (S3, JOURNAL_IN_S3)}
    rows |= {(steady_work_of(costs.rate, agents), S3) for agents in costs.agents}
    rows |= {(aborted_work_of(costs.transactions, each), S3) for each in costs.producers}
    assert {(goal.work, goal.target) for goal in GOALS["bucket"]} == rows
