"""The benchmarks run from end to end and count what they read; their figures decide nothing here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import kafka
from bench.figures import THROUGHPUT, Row
from bench.goals import judge
from bench.pipeline.batch import work_of as read
from bench.pipeline.compaction import INPUT
from bench.pipeline.compaction import work_of as compacted
from bench.pipeline.run import GOALS
from bench.pipeline.sizes import SIZES
from bench.pipeline.streaming import P50, WORK
from bench.results import Results
from bench.sections import KAFKA, LACUNA

ROOT = Path(__file__).resolve().parents[2]
WORKS = {
    "produce, none",
    "read_committed, tuned, lz4",
    "transactions of 10, 1 producer",
    "transactions of 10, 8 producers",
    "0 % aborted, none",
    "50 % aborted, lz4",
    "end of a 1,000-record aborted tail",
    "read 1-record batches, again",
    "produce 1-record batches, one a request",
    "end to end at 100/s",
    "Fetch v18, 100 partitions",
    "Metadata v13, 10 topics of 16 partitions",
    "EndTxn v5",
}


def run(
    tmp_path: Path, *options: str, path: str = os.environ["PATH"]
) -> tuple[dict[str, Any], str]:
    """Run the benchmarks, and return the results and the output."""
    out = tmp_path / "smoke.json"
    command = [sys.executable, "-m", "bench.run", "--size=smoke", f"--out={out}", *options]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(out.read_text()), ran.stdout


def rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for section in document["sections"].values() for row in section]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_section_gives_its_rows(tmp_path: Path) -> None:
    """S14, S17, S18: the sections check their record counts themselves and fail if one is wrong."""
    document, printed = run(tmp_path, "--targets=lacuna,bare")
    assert {row["work"] for row in rows(document)} >= WORKS
    limits = {row["work"] for row in rows(document) if row["target"] == "bare"}
    assert {"produce, none", "transactions of 10, 8 producers", "end to end at 100/s"} <= limits
    assert all(row["median"] and row["runs"] for row in rows(document))
    medians = {row["work"]: row["median"] for row in rows(document) if row["target"] == "lacuna"}
    # Not the store's bytes: a merge that runs during a read adds what it reads.
    clean, dirty = (medians[f"{share} % aborted, none"]["wire bytes/record"] for share in (0, 50))
    assert dirty < 1.1 * clean
    assert medians["end of a 1,000-record aborted tail"]["answers"] == 1
    assert "== where it ends" in printed
    assert "the client's busiest thread" in printed
    assert "4 consecutive syncs" in printed
    assert "== goals" in printed


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_through_grpc_as_well(tmp_path: Path) -> None:
    document, _ = run(tmp_path, "--targets=lacuna grpc", "--sections=transactions")
    assert {row["target"] for row in rows(document)} == {"lacuna grpc"}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_journals_beside_each_other(tmp_path: Path) -> None:
    """Figures that only some of the journals have appear only in their rows."""
    document, printed = run(tmp_path, "--sections=journals")
    by_target: dict[str, list[dict[str, float]]] = {}
    for row in rows(document):
        by_target.setdefault(row["target"], []).append(row["median"])
    assert by_target.keys() == {"sqlite", "postgresql", "bucket + 50 ms"}
    for target, medians in by_target.items():
        appends, *transactions = medians
        assert appends["p50 ms"] > (50 if target == "bucket + 50 ms" else 0)
        assert len(transactions) == 2
        for each in transactions:
            assert each["control plane CPU s/1000"] + each["agent CPU s/1000"] > 0
            assert ("PostgreSQL CPU s/1000" in each) is (target == "postgresql")
            assert ("journal PUTs/s" in each) is (target == "bucket + 50 ms")
    assert "(postgresql): transactions/s ≥ 0.8 × sqlite" in printed


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_bucket_beside_a_folder(tmp_path: Path) -> None:
    """The sections check their record counts themselves, and wait until no hot bytes are left."""
    document, printed = run(tmp_path, "--sections=bucket")
    medians = {(row["work"], row["target"]): row["median"] for row in rows(document)}
    for work in ("transactions of 10, 1 producer", "end to end at 100/s, through two agents"):
        assert {(work, target) for target in ("S3", "folder", "journal in S3")} <= medians.keys()
        assert "one PUT, p50 ms" in medians[work, "journal in S3"]
    assert medians["commits with 16 KiB of hot bytes, 32 at once", "S3"]["commits/s"] > 0
    assert medians["steady 2 MiB/s, 1 agent", "S3"]["PUTs/GiB written"] > 0
    aborted = medians["16 transactions of 100, 50 % aborted, 1 producer, once all has moved", "S3"]
    assert aborted["bytes in the bucket / committed"] > 0.9
    assert "S3 / folder" in printed


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_section_is_measured_anew_and_the_others_are_kept(tmp_path: Path) -> None:
    run(tmp_path, "--targets=lacuna", "--sections=tail")
    document, _ = run(tmp_path, "--targets=lacuna", "--sections=latency", "--merge")
    assert (
        document["sections"].keys() == document["facts"]["measured"].keys() == {"tail", "latency"}
    )
    _, printed = run(tmp_path, "--again")
    assert "== tail: one run" in printed
    assert "== latency: one run" in printed


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_without_java_lacuna_alone_is_measured(tmp_path: Path) -> None:
    document, printed = run(tmp_path, "--sections=tail", path=str(tmp_path))
    assert {row["target"] for row in rows(document)} == {"lacuna"}
    assert "kafka is left out, so there are no ratios to it: Java is not installed" in printed


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_beside_kafka(tmp_path: Path) -> None:
    """The benchmark fetches and starts both, and runs the same work. Kafka sends records that Lacuna does not."""
    document, printed = run(tmp_path, "--targets=lacuna,kafka", "--sections=tail")
    wire = {row["target"]: row["median"]["wire bytes/partition"] for row in rows(document)}
    assert wire["lacuna"] < 200 < 100_000 < wire["kafka"]
    assert "lacuna / kafka" in printed


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(400)
def test_kafkas_own_tools_and_java_producers_run(tmp_path: Path) -> None:
    document, _ = run(tmp_path, "--targets=lacuna", "--sections=java")
    medians = {row["work"]: row["median"] for row in rows(document)}
    assert medians["kafka-producer-perf-test"]["MB/s"] > 0
    assert medians["kafka-consumer-perf-test"]["MB/s"] > 0
    for producers in ("1 producer", "8 producers"):
        assert medians[f"transactions of 10, {producers}, Java"]["commit p99 ms"] > 0


def test_the_version_stands_in_the_pom() -> None:
    assert kafka.version().startswith("4.1.")


@pytest.mark.parametrize(("missing", "named"), [("java", "Java"), ("mvn", "Maven")])
def test_what_is_missing_is_named(
    missing: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "JARS", tmp_path)
    monkeypatch.setattr(
        "shutil.which", lambda name: None if name == missing else f"/usr/bin/{name}"
    )
    with pytest.raises(kafka.KafkaMissing, match=rf"{named}.* is not installed"):
        kafka.jars()


def test_jars_that_are_there_are_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"kafka-{kafka.version()}"
    folder.mkdir()
    monkeypatch.setattr(kafka, "JARS", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: "java" if name == "java" else None)
    assert kafka.jars() == folder


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
