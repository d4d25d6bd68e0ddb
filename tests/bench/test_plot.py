"""The picture of the README."""

from pathlib import Path

import pytest

from bench.aborts import work_of
from bench.figures import KILO_RECORDS, STORE_BYTES, WIRE_BYTES, Row
from bench.results import Results


def results(shares: list[int]) -> Results:
    run = {KILO_RECORDS: 100.0, WIRE_BYTES: 1000.0, STORE_BYTES: 1100.0}
    rows = [
        Row(work_of(share, "none"), target, [run])
        for share in shares
        for target in ("lacuna", "kafka")
    ]
    return Results("full", {}, {"aborts": rows})


def draw(of: Results, path: Path) -> None:
    """Imported here, together with matplotlib, because every worker imports this file."""
    from bench import plot

    plot.draw(of, path)


def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    one, other = tmp_path / "one.svg", tmp_path / "other.svg"
    draw(results([0, 50, 90, 99]), one)
    draw(results([0, 50, 90, 99]), other)
    assert one.read_bytes() == other.read_bytes()
    assert b"<svg" in one.read_bytes()


def test_without_the_curve_there_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs the section aborts"):
        draw(results([0, 50]), tmp_path / "none.svg")
