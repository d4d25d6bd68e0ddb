"""The pipeline's benchmark runs from end to end; its figures decide nothing here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.figures import THROUGHPUT, Row
from bench.goals import judge
from bench.pipeline.batch import work_of as read
from bench.pipeline.compaction import INPUT
from bench.pipeline.compaction import work_of as compacted
from bench.pipeline.goals import GOALS
from bench.pipeline.sizes import SIZES
from bench.pipeline.streaming import P50, WORK
from bench.results import Results
from bench.sections import KAFKA, LACUNA

ROOT = Path(__file__).resolve().parents[2]


def results_of(lacuna: float, kafka: float) -> Results:
    """Return a clean batch read at these rates."""
    rows = [
        Row(read(0), LACUNA, [{THROUGHPUT: lacuna}]),
        Row(read(0), KAFKA, [{THROUGHPUT: kafka}]),
    ]
    return Results("full", sections={"batch": rows})


@pytest.mark.parametrize(("lacuna", "is_met"), [(300, True), (299, False)])
def test_a_goal_is_a_ratio_to_kafka(lacuna: float, is_met: bool) -> None:
    (verdict,) = judge(results_of(lacuna, 200), GOALS)
    assert verdict.is_met is is_met
    assert str(verdict.goal) == "batch read, lz4: MB/s ≥ 1.5 × kafka"


def test_every_goal_speaks_of_something_that_is_measured() -> None:
    works = {read(0), *(read(share) for share in SIZES["full"].transactions), WORK}
    works |= {compacted(0), compacted(50)}
    goals = [goal for group in GOALS.values() for goal in group]
    assert {goal.work for goal in goals} == works
    assert {goal.figure for goal in goals} == {THROUGHPUT, INPUT, P50}


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(600)
def test_every_section_gives_its_rows_on_both(tmp_path: Path) -> None:
    """S14: both sources return the same counts and bytes of committed records, or a section fails."""
    out = tmp_path / "pipeline.json"
    command = [sys.executable, "-m", "bench.pipeline.run", "--size=smoke", f"--out={out}"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    document: dict[str, Any] = json.loads(out.read_text())
    assert not document["facts"]["failures"]
    rows = [row for section in document["sections"].values() for row in section]
    found = {(row["work"], row["target"]) for row in rows}
    shared = {read(share) for share in (0, 50)} | {WORK}
    assert found == {(work, target) for work in shared for target in (LACUNA, KAFKA)} | {
        (compacted(0), LACUNA),
        (compacted(50), LACUNA),
    }
    assert "lacuna / kafka" in ran.stdout
    assert "== goals" in ran.stdout
