"""A small fleet and the sections about size: the counts must add up, and timings decide nothing."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.costs import PRICES_VARIABLE, load_prices
from bench.counted_s3 import GET, LIST, PUT, kind_of
from bench.fleet import BATCH_BYTES, Load
from bench.plane import Plane, small_transactions
from lacuna.controlplane import machine
from lacuna.controlplane.v1.journal_pb2 import JournalRecord

ROOT = Path(__file__).resolve().parents[2]


def test_s18_aborted_transactions_in_a_row_are_one_dead_range_and_between_others_one_each() -> None:
    for one_in, dead in ((1, 1), (2, 25)):
        plane = Plane(journal=True)
        topic_id = plane.create(4)
        view = plane.watch(topic_id, 0)
        assert sum(1 for _ in small_transactions(plane, topic_id, 4, 100, one_in=one_in)) == 100
        found = plane.state.partitions[topic_id, 0]
        assert (len(found.dead), len(found.extents)) == (dead, 25 * one_in)
        assert view.extents.columns() == found.extents.columns()
        assert (view.dead.firsts, view.dead.ends) == (found.dead.firsts, found.dead.ends)
        replayed = machine.State()
        for data in plane.take_journal():
            machine.replay(replayed, JournalRecord.FromString(data))
        assert machine.snapshot(replayed) == machine.snapshot(plane.state)


def test_each_command_has_its_steps() -> None:
    plane = Plane()
    topic_id = plane.create(4)
    producer = plane.producer("a")
    plane.samples = defaultdict(list)
    plane.begin(producer, topic_id, range(4))
    plane.end(producer, committed=True)
    assert set(plane.microseconds("CommitSegment, 4")) == {
        *("decide", "replay", "serialize", "changes", "views")
    }
    assert plane.microseconds("EndTxn, commit")["decide"] > 0


def test_requests_are_billed_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [("PUT", ""), ("GET", ""), ("HEAD", ""), ("GET", "list-type=2&prefix=a")]
    assert [kind_of(*each) for each in asked] == [PUT, GET, GET, LIST]
    counts = Counter({PUT: 1000, GET: 2000, LIST: 0})
    assert load_prices().of(counts) == pytest.approx(0.005 + 2 * 0.0004)
    path = tmp_path / "prices.json"
    others = {"put_per_1000": 1, "get_per_1000": 2, "list_per_1000": 3, "delete_per_1000": 4}
    path.write_text(json.dumps({"source": "ours", **others}))
    monkeypatch.setenv(PRICES_VARIABLE, str(path))
    assert load_prices().of(counts) == 5


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_section_gives_its_rows(tmp_path: Path) -> None:
    out = tmp_path / "smoke.json"
    sections = "memory,scale,million,costs,zone,standby,shares"
    command = [sys.executable, "-m", "bench.run", "--size=smoke", f"--sections={sections}"]
    ran = subprocess.run(
        [*command, "--targets=lacuna", f"--out={out}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = {
        row["work"]: row["median"]
        for section in json.loads(out.read_text())["sections"].values()
        for row in section
    }
    assert found["2,000 aborted in a row"]["wire bytes, start"] < 200
    assert found["flushes every 250 ms, 1 agent, 2 MiB/s"]["PUTs/GiB written"] > 0
    assert found["control plane, an extent"]["bytes together"] > 0
    assert found["10 consumers, 2 agents, one is killed, together"]["GETs/GiB of the topic"] > 0
    assert found["standby, 2,000 extents"]["takeover s"] > 2
    assert {"10 extents a partition", "CommitSegment, 4, 100 extents a partition"} <= set(found)


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


@pytest.mark.slow
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
    )  # each partition is watched by an agent in each zone
    assert row["gets for consumers"] > 0


@pytest.mark.slow
def test_the_page_and_the_picture_are_made_of_the_figures(
    results: dict[str, Any], tmp_path: Path
) -> None:
    """Imports matplotlib only when run, because every worker imports this file."""
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


@pytest.mark.slow
def test_a_load_has_slices_and_batches_that_add_up_to_what_arrives() -> None:
    for load in (Load(1_000, 1_000), Load(20_000, 100), Load(1_250, agents=5, gibibytes=0.25)):
        arriving = load.slice_bytes * load.slices_a_second
        assert arriving == pytest.approx(load.gibibytes * (1 << 30), rel=0.001)
        sizes = [size for size, _ in load.batches()]
        assert max(sizes) <= BATCH_BYTES
        assert sum(sizes) == pytest.approx(load.slice_bytes, rel=0.001)
