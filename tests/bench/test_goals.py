"""Goals for a figure itself, a ratio to Kafka's, or a ratio to another work's; at least or at most."""

import pytest

from bench.figures import P50, THROUGHPUT, WIRE_BYTES, Figure, Row
from bench.goals import GOALS, Goal, Verdict, judge
from bench.report import verdict_line
from bench.results import Results
from bench.sections import KAFKA, LACUNA


def results(*measured: tuple[str, str, Figure, float]) -> Results:
    """Return rows of one run each."""
    rows: dict[tuple[str, str], Row] = {}
    for work, target, figure, value in measured:
        row = rows.setdefault((work, target), Row(work, target, [{}]))
        row.runs[0][figure] = value
    return Results("full", {}, {"section": list(rows.values())})


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
    measured = results(
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
    measured = results(("read", LACUNA, THROUGHPUT, 3.0), ("read", KAFKA, THROUGHPUT, 1.0))
    assert [verdict_line(each) for each in judge(measured)] == ["met     read: MB/s ≥ 1 × kafka: 3"]
    measured.sections["section"][1].noisy = 1
    assert [verdict_line(each) for each in judge(measured)] == [
        "met     read: MB/s ≥ 1 × kafka: 3 (noise)"
    ]


def test_what_was_not_measured_is_not_judged() -> None:
    """Without Kafka, only goals that do not need it are left."""
    assert judge(results(("produce, none", LACUNA, THROUGHPUT, 300.0))) == []


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
