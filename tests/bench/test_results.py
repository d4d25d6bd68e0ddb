"""Results are converted to JSON and back, to tables, and to the picture in the README."""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import BrokenBarrierError

import pytest

from bench import BenchError
from bench.aborts import work_of
from bench.figures import KILO_RECORDS, OTHERS, P50, STORE_BYTES, THROUGHPUT, WIRE_BYTES, Row
from bench.goals import Goal, Verdict
from bench.report import BEGIN, END, in_columns, in_markdown, page_part, remarks, rewrite, table
from bench.results import Results
from bench.rounds import SMOKE, Bench
from bench.run import _measure as measure_section
from bench.sections import SECTIONS, Section

ROWS = [
    Row("read", "kafka", [{THROUGHPUT: 100.0, OTHERS: 1.0}]),
    Row(
        "read",
        "lacuna",
        [{THROUGHPUT: 150.0, OTHERS: 0.0}, {THROUGHPUT: 250.0, OTHERS: 9.0}],
        repeated=3,
        noisy=1,
    ),
    Row("written", "lacuna", [{WIRE_BYTES: 1036.25}]),
]


def test_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    results = Results("full", {"seconds": 3}, {"section": ROWS})
    results.save(path)
    again = Results.load(path)
    assert again is not None
    assert (again.size, again.facts) == ("full", {"seconds": 3})
    again.sections["section"][2].runs[0][WIRE_BYTES] = 1036.25  # five digits are kept
    assert again.sections == results.sections
    document = json.loads(path.read_text())
    assert document["sections"]["section"][1]["median"]["MB/s"] == 200.0


def test_what_is_not_there_or_of_another_format_is_none(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert Results.load(path) is None
    path.write_text('{"label": "lacuna", "results": {}}')
    assert Results.load(path) is None


def test_the_table_has_ours_first_spreads_and_ratios() -> None:
    assert table(ROWS) == [
        ["work", "", "lacuna", "kafka", "lacuna / kafka"],
        ["read", "MB/s", "200 (150–250)", "100", "2"],
        ["", "others %", "4.5 (0–9)", "1", ""],
        ["written", "wire bytes/record", "1,036", "", ""],
    ]
    assert in_columns(table(ROWS)).splitlines()[1].split() == [
        *("read", "MB/s", "200", "(150–250)", "100", "2")
    ]
    assert in_markdown(table(ROWS)).splitlines()[1] == "| --- | --- | ---: | ---: | ---: |"


def test_noise_is_said() -> None:
    assert list(remarks(ROWS)) == [
        "noise during runs of lacuna: 3 repeated, 1 kept although noisy: read"
    ]


def test_the_page_has_facts_tables_and_goals() -> None:
    facts = {
        "machine": {"memory": "24 GiB"},
        "targets": {"lacuna": "lacuna up"},
        "measured": {"section": "today"},
    }
    verdict = Verdict(Goal("read", THROUGHPUT, 2.0, "kafka"), 1.5)
    part = page_part(Results("full", facts, {"section": ROWS}), [verdict])
    assert "- memory: 24 GiB\n- lacuna: lacuna up" in part
    assert "### section\n\ntoday, medians (least–most) of 2 runs." in part
    assert "| read: MB/s ≥ 2 × kafka | **missed** | 1.5 |" in part


def test_a_page_is_rewritten_between_its_markers_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    rewrite(page, "new")
    rewrite(page, "newer")
    assert page.read_text() == f"before\n\n{BEGIN}\n\nnewer\n\n{END}\n\nafter\n"
    page.write_text("no markers")
    with pytest.raises(ValueError, match="put them where the table should be"):
        rewrite(page, "new")


def test_the_page_of_the_docs_has_the_markers() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md").read_text()
    assert 0 < text.index(BEGIN) < text.index(END)


@pytest.mark.parametrize(
    "error",
    [BenchError("lost"), ConnectionResetError(), TimeoutError("late"), BrokenBarrierError()],
)
def test_a_section_that_fails_leaves_the_others_theirs(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken connection is a failure like any other, and a run that takes hours continues after it."""

    def fails(_: Bench) -> Iterator[Row]:
        yield Row("work", "lacuna", [{P50: 1.0}])
        raise error

    monkeypatch.setitem(SECTIONS, "tail", Section(fails))
    results = Results("smoke", {"failures": {}, "measured": {}})
    measure_section("tail", Bench((), SMOKE), results)
    assert results.facts["failures"] == {"tail": str(error) or type(error).__name__}
    assert [row.work for row in results.sections["tail"]] == ["work"]


def results(shares: list[int]) -> Results:
    run = {KILO_RECORDS: 100.0, WIRE_BYTES: 1000.0, STORE_BYTES: 1100.0}
    rows = [
        Row(work_of(share, "none"), target, [run])
        for share in shares
        for target in ("lacuna", "kafka")
    ]
    return Results("full", {}, {"aborts": rows})


def draw(of: Results, path: Path) -> None:
    """Imports matplotlib only when called, because every worker imports this file."""
    from bench import plot

    plot.draw(of, path)


@pytest.mark.slow
def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    draw(results([0, 50, 90, 99]), one)
    draw(results([0, 50, 90, 99]), other)
    assert one.read_bytes() == other.read_bytes()
    assert b"<svg" in one.read_bytes()


@pytest.mark.slow
def test_without_the_curve_there_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs the section aborts"):
        draw(results([0, 50]), tmp_path / "none.svg")
