"""A small fleet on a real control plane: the counts must add up, and timings decide nothing."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.fleet import BATCH_BYTES, Load

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS, ZONES, FLUSHES, SECONDS = 40, 3, 4, 8


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("cluster") / "smoke.json"
    command = [sys.executable, "-m", "bench.cluster", "--size=smoke", f"--out={out}"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "40 partitions, 3 zones, 250 ms" in ran.stdout
    loaded: dict[str, Any] = json.loads(out.read_text())
    return loaded


def test_a_fleet_is_driven_and_counted(results: dict[str, Any]) -> None:
    (row,) = results["rows"]["fleet"]
    slices = PARTITIONS * ZONES * FLUSHES
    assert (row["slices"], row["flushes"], row["batches"]) == (slices, 4 * FLUSHES, slices)
    assert row["transactions"] == PARTITIONS / 10 * ZONES
    assert row["merging, partitions"] > row["merging, refused"]
    assert row["merging, extents_before"] > row["merging, extents_after"] > 0
    assert row["compaction, extents_before"] > row["compaction, extents_after"] > 0
    assert 0 < row["extents"] < slices * SECONDS
    assert row["cpu"] >= row["loop cpu"] > 0
    assert row["journal bytes"] > 100 * slices
    assert (
        row["view bytes"] > 3 * 100 * slices
    )  # each partition is watched by an agent of each zone
    assert row["gets for consumers"] > 0


def test_the_page_and_the_picture_are_made_of_the_figures(
    results: dict[str, Any], tmp_path: Path
) -> None:
    """Imported here, together with matplotlib, because every worker imports this file."""
    from bench import cluster, cluster_page, report

    (row,) = results["rows"]["fleet"]
    lifts = [row | {"load": asdict(load)} for load in cluster.LIFTS]
    fleet = [row | {"load": asdict(load)} for load in cluster.GRID]
    whole = results | {"rows": {"fleet": fleet, "lifts": lifts}}
    part = cluster_page.page_part(whole)
    assert f"| 20,000 | 250 | {report.number(row['slices'])} |" in part
    assert report.number(cluster_page.dollars(row)) in part
    cluster_page.draw(whole, tmp_path / "cluster.svg")
    assert b"<svg" in (tmp_path / "cluster.svg").read_bytes()


def test_a_load_has_slices_and_batches_that_add_up_to_what_arrives() -> None:
    for load in (Load(1_000, 1_000), Load(20_000, 100), Load(1_250, agents=5, gibibytes=0.25)):
        arriving = load.slice_bytes * load.slices_a_second
        assert arriving == pytest.approx(load.gibibytes * (1 << 30), rel=0.001)
        sizes = [size for size, _ in load.batches()]
        assert max(sizes) <= BATCH_BYTES
        assert sum(sizes) == pytest.approx(load.slice_bytes, rel=0.001)
