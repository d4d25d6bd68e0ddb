"""Tests the wheel on a standalone Spark cluster with a master and two workers, as users run it."""

import json
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lacuna.testing import ProcessCluster
from tests.pipeline.conftest import consumed, transact
from tests.pipeline.standalone.spark import StandaloneSpark

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(600)]

PARTITIONS = 4
COMMAND_SECONDS = 300

Run = Callable[..., list[Any]]
Command = Callable[..., subprocess.Popen[str]]
#: (partition, offset, value), as jobs.py gives them.
Rows = list[list[Any]]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its committed records."""

    name: str
    rows: Rows


@pytest.fixture(scope="module")
def orders(served: ProcessCluster) -> Topic:
    """Transactions of 400 kB, a third of them aborted: they fill several tasks, and are too large to be merged."""
    rows: Rows = []
    for partition in range(PARTITIONS):
        rows += produce(served, "orders", partition, transactions=20, size=4000)
    return Topic("orders", rows)


def produce(
    served: ProcessCluster, topic: str, partition: int, transactions: int, size: int = 10
) -> Rows:
    """Write transactions of 100 records, and abort the first of every three. Return the committed rows."""
    given = [
        (
            number % 3 > 0,
            [(None, b"%d-%d".ljust(size, b".") % (number, index)) for index in range(100)],
        )
        for number in range(transactions)
    ]
    written = transact(served, topic, given, partition)
    return [
        [partition, offset, (value or b"").decode()]
        for offset, (_, value) in sorted(written.committed.items())
    ]


def ended(process: subprocess.Popen[str]) -> str:
    told, errors = process.communicate(timeout=COMMAND_SECONDS)
    assert process.returncode == 0, told + errors
    return told


@dataclass(frozen=True, slots=True)
class Jobs:
    """The results of jobs that share one application, because starting it takes longer than running them."""

    where: dict[str, list[str]]
    read: Rows
    written: int


@pytest.fixture(scope="module")
def jobs(run: Run, served: ProcessCluster, orders: Topic) -> Jobs:
    admin = AdminClient({"bootstrap.servers": served.bootstrap})
    admin.create_topics([NewTopic("written", PARTITIONS)])["written"].result(60)
    data = str(served.data)
    return Jobs(*run(["where"], ["read", data, orders.name], ["write", data, "written", "1000"]))


def test_tasks_run_what_the_wheel_installed_on_both_workers(jobs: Jobs, python: Path) -> None:
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    assert [Path(file).parents[2] for file in jobs.where["files"]] == [packages] * 2
    assert len({Path(folder).parents[1] for folder in jobs.where["folders"]}) == 2


def test_a_batch_reads_what_is_committed(jobs: Jobs, orders: Topic) -> None:
    """Tests rules S14 and S16."""
    assert jobs.read == orders.rows


def test_a_stream_goes_on_from_its_checkpoint(
    run: Run, served: ProcessCluster, tmp_path: Path
) -> None:
    """S14: a second application reads every committed record that the first did not read."""
    job = ["stream", str(served.data), "events", str(tmp_path / "checkpoint")]
    first = produce(served, "events", 0, transactions=6)
    assert run(job) == [first]
    second = produce(served, "events", 1, transactions=3)
    assert run(job) == [second]


def test_a_write_is_there_once(jobs: Jobs, served: ProcessCluster) -> None:
    assert jobs.written == 1000
    found = [int(value) for _, _, value in consume(served, "written")]
    assert sorted(found) == list(range(1000))


def consume(served: ProcessCluster, topic: str) -> Rows:
    """Return all committed records, read by a Kafka client and sorted."""
    return sorted(
        [each.partition(), each.offset(), (each.value() or b"").decode()]
        for each in consumed(served, topic, range(PARTITIONS))
    )


def test_a_compaction_goes_on_when_a_worker_is_killed(
    command: Command, served: ProcessCluster, master: StandaloneSpark, orders: Topic
) -> None:
    """S14: the same records remain at the same offsets, and the output of killed tasks is harmless."""
    location = "--data", str(served.data)
    both = "--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0"
    spark = "--master", master.url, *both
    compaction = command(
        "compact", *location, *spark, "--topic=orders", "--task-bytes=1MiB", "--json=-"
    )
    try:
        master.kill_worker_at_work()
    finally:
        told = ended(compaction)
    try:
        report = json.loads(told)
        assert not report["refused"]
        assert not report["failed"]
        assert report["work"]["tasks"] > PARTITIONS  # two workers had something to do
        # An agent drops what was aborted a minute ago by itself: how much was left depends on the time.
        assert report["total"]["after"]["dead_ranges"] == 0
        assert consume(served, orders.name) == orders.rows
    finally:
        master.start_worker()


def test_a_job_that_finds_no_room_says_so_and_ends_on_ctrl_c(
    command: Command, served: ProcessCluster, master: StandaloneSpark, orders: Topic
) -> None:
    spark = "--master", master.url, "--conf", "spark.executor.memory=8g"
    audit = command(
        "verify", "--spark", "--data", str(served.data), *spark, f"--topic={orders.name}"
    )
    assert audit.stderr is not None
    for line in audit.stderr:
        if "Initial job has not accepted any resources" in line:
            break
    audit.send_signal(signal.SIGINT)
    _, told = audit.communicate(timeout=COMMAND_SECONDS)
    lines = [line for line in told.splitlines() if "Initial job" not in line]
    assert [line.partition(";")[0] for line in lines] == [
        "lacuna: the audit was stopped before it finished, so it has no result"
    ]
    assert audit.returncode == 130


def test_an_audit_and_an_export(
    command: Command, served: ProcessCluster, master: StandaloneSpark, orders: Topic, tmp_path: Path
) -> None:
    spark = "--data", str(served.data), "--master", master.url
    ended(command("verify", "--spark", *spark))
    to = tmp_path / "files"
    ended(command("export", "orders", *spark, "--to", str(to)))
    table = pyarrow.parquet.read_table(to, columns=["partition", "offset", "value"])
    found = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    assert sorted([each[0], each[1], each[2].decode()] for each in found) == orders.rows
