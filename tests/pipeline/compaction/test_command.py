"""Tests `lacuna compact` as a user runs it, in a separate process that may be killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from lacuna.cli.app import app
from lacuna.testing import Cluster
from tests.pipeline.compaction.conftest import Read, read_partition
from tests.pipeline.conftest import UNMERGED, housekeeping_of, transact

_SPARK = ["--spark", "--conf", "spark.driver.memory=512m"]
WAIT_SECONDS = 240.0


@pytest.fixture
def filled() -> Iterator[Cluster]:
    """A separate cluster with 24 MB in topic t, which every run rewrites in 24 tasks."""
    with Cluster(parts=UNMERGED) as cluster:
        cluster.create_topic("t", 2)
        chance = Random(1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
        for number in range(240):
            producer.produce("t", chance.randbytes(100_000), b"%d" % number, number % 2)
        producer.flush(60)
        yield cluster


def _arguments(cluster: Cluster, *options: str) -> list[str]:
    return ["compact", "--data", str(cluster.data), *_SPARK, *options]


def _compact(
    cluster: Cluster, *options: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "lacuna", *_arguments(cluster, *options)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


@contextmanager
def _started(cluster: Cluster, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start the command in its own process group, which is killed when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lacuna", *_arguments(cluster, *options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _segments(cluster: Cluster) -> set[str]:
    objects = Path(cluster.data) / "objects"
    return {str(path) for path in objects.rglob("*.seg")}


def _await(what: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    """Wait for the first true result, and return it."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := what()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
    return found


def _read(cluster: Cluster) -> list[list[Read]]:
    return [read_partition(cluster, "t", partition) for partition in range(2)]


_SMALL_TASKS = ("--all", "--task-bytes=1MiB", "--segment-bytes=1MiB")


def test_a_run_and_its_reports(
    tmp_path: Path, quick_python: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan changes nothing. A run prints its table and its JSON, and leaves nothing to do.

    Only the first run starts a separate Spark session.
    """
    with Cluster(parts=UNMERGED) as cluster:
        topic = cluster.create_topic("shown")
        transact(cluster, topic, [(number % 2 == 0, [(b"k", b"v" * 99)]) for number in range(20)])
        plan = json.loads(_compact(cluster, "--dry-run", "--json=-", python=quick_python).stdout)
        assert [(row["topic"], row["extents"], row["tasks"]) for row in plan] == [("shown", 20, 1)]
        prices, report = tmp_path / "prices.json", tmp_path / "report.json"
        prices.write_text('{"source": "ours", "put_per_1000": 1000, "get_per_1000": 0}')
        ran = _compact(
            cluster, "--master=local[1]", f"--prices={prices}", f"--json={report}", "--codec=zstd"
        )
        assert ran.returncode == 0, ran.stderr
        assert "1 partition compacted" in ran.stdout
        assert "1 PUT, 10 GETs: $1.000000" in ran.stdout
        found = json.loads(report.read_text())
        assert found["dollars"]["requests"] == 1.0
        assert found["total"]["before"]["extents"] == 20
        assert found["total"]["after"]["extents"] == 1
        assert found["total"]["after"]["metadata_bytes"] < 200
        assert found["work"]["partitions"] == 1
        for options, told in (
            ((), "0 partitions compacted"),
            (("--all", "--codec=none", f"--prices={prices}"), " more a month"),
        ):
            app(_arguments(cluster, *options), prog_name="lacuna", standalone_mode=False)
            assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--topic=none-such"], "no topic matches none-such"),
        (["--codec=brotli"], "choose one of none, gzip, snappy, lz4, zstd"),
        (["--task-bytes=big"], "is not a size: use a value such as"),
        (["--interval=often"], "use a duration such as"),
        (["--prices=/none-such"], "the prices in /none-such cannot be read"),
        (["--store=file:///none-such"], "there is no folder /none-such"),
        (["--master=nowhere"], "is not a Spark master"),
        (["--master=nowhere", "--threshold=1", "--topic=nothing-to-do"], "is not a Spark master"),
        (["--json=/none-such/report.json"], "the folder /none-such does not exist"),
        (["--json=/"], "is a folder"),
    ],
)
def test_what_is_wrong_is_one_line(
    cluster: Cluster, quick_python: str, options: list[str], message: str
) -> None:
    topic = cluster.create_topic(f"wrong{abs(hash(tuple(options)))}")
    if "--topic=nothing-to-do" in options:
        cluster.create_topic("nothing-to-do")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for _ in range(2):
        producer.produce(topic, b"v", partition=0)
        producer.flush(60)
    ran = _compact(cluster, *options, python=quick_python)
    assert ran.returncode == 1
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("lacuna: ")]
    assert message in line
    assert "Traceback" not in ran.stderr


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_driver_leaves_garbage_and_nothing_else(filled: Cluster) -> None:
    """A kill after the first segment leaves the log unchanged, and the next run succeeds."""
    before, there = _read(filled), _segments(filled)
    with _started(filled, "--master=local[2]", *_SMALL_TASKS) as process:
        garbage = _await(lambda: _segments(filled) - there, process)
        os.killpg(process.pid, signal.SIGKILL)
    assert _read(filled) == before
    ran = _compact(filled, "--master=local[2]", *_SMALL_TASKS)
    assert ran.returncode == 0, ran.stderr
    assert "2 partitions compacted" in ran.stdout
    assert _read(filled) == before
    housekeeping = housekeeping_of(filled)
    for _ in range(3):  # the lease ends, then its grace, then what was replaced
        filled.advance(11 * 60_000)
        filled.run(housekeeping.collect())
    assert not garbage & _segments(filled)
    assert _read(filled) == before


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ctrl_c_ends_in_one_line(filled: Cluster) -> None:
    before, there = _read(filled), _segments(filled)
    with _started(filled, "--master=local[2]", *_SMALL_TASKS) as process:
        _await(lambda: _segments(filled) - there, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        _, errors = process.communicate(timeout=280)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("lacuna: stopped: ")
    assert "Traceback" not in errors
    assert _read(filled) == before


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_worker_is_replaced(filled: Cluster) -> None:
    """One of Spark's Python workers dies during a task, and the task is retried."""
    before, there = _read(filled), _segments(filled)
    with _started(filled, "--master=local[2,4]", *_SMALL_TASKS) as process:
        _await(lambda: _segments(filled) - there, process)
        workers = _workers_of(process.pid)
        assert workers
        os.kill(workers[0], signal.SIGKILL)
        output, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    assert "2 partitions compacted" in output
    assert _read(filled) == before


def _workers_of(session: int) -> list[int]:
    """Return Spark's Python workers in a session: children of its daemon, which is also a Python process."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            command = (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        if int(status[3]) == session and "pyspark.daemon" in command:
            parents[int(folder.name)] = int(status[1])
    return [pid for pid, parent in parents.items() if parent in parents]
