"""What counts as worse than an earlier run."""

import pytest

from bench.compare import worse
from bench.figures import OTHERS, P50, THROUGHPUT, Figure, Row
from bench.results import Results


def results(figure: Figure, **runs: list[float]) -> Results:
    """Return results of one piece of work, by target."""
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
    changes = list(worse(results(figure, lacuna=before), results(figure, lacuna=now)))
    assert [(each.figure, each.before, each.now) for each in changes] == [
        (figure, before[1], now[1])
    ]
    assert not list(worse(results(figure, lacuna=now), results(figure, lacuna=before)))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([98.0, 100.0, 102.0], [92.0, 93.0, 94.0]),  # less than a tenth
        ([60.0, 100.0, 102.0], [50.0, 70.0, 72.0]),  # the runs overlap
    ],
)
def test_noise_is_not_worse(before: list[float], now: list[float]) -> None:
    assert not list(worse(results(THROUGHPUT, lacuna=before), results(THROUGHPUT, lacuna=now)))


def test_a_slower_machine_is_not_a_slower_lacuna() -> None:
    before = results(THROUGHPUT, lacuna=[100, 101, 102], kafka=[200, 201, 202])
    slower_machine = results(THROUGHPUT, lacuna=[50, 51, 52], kafka=[100, 101, 102])
    slower_lacuna = results(THROUGHPUT, lacuna=[50, 51, 52], kafka=[200, 201, 202])
    assert not list(worse(before, slower_machine))
    assert [each.target for each in worse(before, slower_lacuna)] == ["lacuna"]


def test_kafka_and_the_neighbours_are_not_ours_to_worsen() -> None:
    assert not list(worse(results(THROUGHPUT, kafka=[100]), results(THROUGHPUT, kafka=[10])))
    assert not list(worse(results(OTHERS, lacuna=[1]), results(OTHERS, lacuna=[50])))


def test_rows_that_are_mostly_noise_are_not_compared() -> None:
    before = results(THROUGHPUT, lacuna=[100, 101, 102])
    now = results(THROUGHPUT, lacuna=[50, 51, 52])
    now.sections["section"][0].noisy = 1
    assert list(worse(before, now))
    now.sections["section"][0].noisy = 2
    assert not list(worse(before, now))
