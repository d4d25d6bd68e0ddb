"""The counts of the sections about size, and their rows; the figures decide nothing here."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from bench.costs import PRICES_VARIABLE, load_prices
from bench.counted_s3 import GET, LIST, PUT, kind_of
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
    sections = "memory,scale,million,costs,zone,standby"
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
