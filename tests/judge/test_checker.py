"""Tests histories in text form, and their anomalies. The smallest part of one must show its anomaly by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from lacuna.judge.checker import judge
from lacuna.judge.history import HistoryError, parse, show
from lacuna.judge.report import MOST_SHOWN, explained, page, smallest

HISTORIES = Path(__file__).with_name("histories.txt").read_text()


def named(part: str) -> dict[str, str]:
    """Return the histories in a part of the file, by name."""
    sections = part.split("\n= ")[1:]
    return {name: lines for name, _, lines in (each.partition("\n") for each in sections)}


HONEST, WRONG = (named(part) for part in HISTORIES.split("\n## ")[1:])


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_history_has_no_anomaly(name: str) -> None:
    assert judge(parse(HONEST[name])) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_caught_by_the_smallest_part_of_it(name: str) -> None:
    kind = name.partition(",")[0]
    honest = parse("z txn 0-0.2-0.3 ok z#1 z/0+z1@0\nz read 1-1.1 ok z/0[0,2)0:z1")
    history = [*honest[:1], *parse(WRONG[name]), *honest[1:]]
    anomaly = next(each for each in judge(history) if each.kind == kind)
    small = smallest(history, anomaly)
    assert anomaly.key in {each.key for each in judge(small)}
    assert not {"z"} & {each.process for each in small}
    for each in small:
        rest = [other for other in small if other is not each]
        assert anomaly.key not in {other.key for other in judge(rest)}


@pytest.mark.parametrize("name", [*HONEST, *WRONG])
def test_a_history_is_its_text(name: str) -> None:
    history = parse({**HONEST, **WRONG}[name])
    assert parse(show(history)) == history


@pytest.mark.parametrize("line", ["w", "w txn then ok", "w txn 0-1 ok t/0=a"])
def test_text_that_is_no_operation_is_an_error(line: str) -> None:
    with pytest.raises(HistoryError, match="not a"):
        parse(line)


def test_the_cycle_of_a_component_is_its_shortest() -> None:
    ring = "".join(
        f"p{number} serial 0-0.2-0.3 ok s#{number} l/{number}+a{number}@0 l/{(number + 1) % 5}+b{number}@1\n"
        for number in range(5)
    )
    pair = WRONG["G0"].replace("l/", "m/")
    anomalies = [each for each in judge(parse(ring + pair)) if each.kind == "G0"]
    assert sorted(len(each.operations) for each in anomalies) == [2, 5]


def test_a_page_shows_each_kind_and_a_timeline_for_each_place() -> None:
    text = WRONG["aborted read"] + "x fault 0.1-0.4 ok\nr read 1-1.1 ok t/1[0,2)0:&lt;"
    history = parse(text)
    anomalies = judge(history)
    shown = explained(history, anomalies)
    html = page(history, anomalies, shown, "Verdict on <b>")
    assert html.count("<details>") == 2
    assert "Verdict on &lt;b&gt;" in html
    assert 'class="fail bad"' in html
    assert 'class="fault"' in html
    assert "<script" not in html


def test_a_page_explains_a_few_anomalies_of_a_kind_and_counts_all() -> None:
    values = range(MOST_SHOWN + 2)
    lines = [f"w txn 0-0.2-0.3 fail w#1 t/0+a{each}@{each}" for each in values]
    records = ",".join(f"{each}:a{each}" for each in values)
    history = parse("\n".join([*lines, f"r read 1-1.1 ok t/0[0,9){records}"]))
    anomalies = judge(history)
    assert len(explained(history, anomalies)) == MOST_SHOWN
    assert len(anomalies) == MOST_SHOWN + 2
