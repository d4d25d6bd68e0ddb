"""Tests real processes with their own Spark sessions: tasks that die, and a command that is killed."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark import TaskContext

from lacuna.pipeline.control import JobClient
from lacuna.pipeline.export.job import Export, ExportSettings
from lacuna.pipeline.export.planning import Task
from lacuna.pipeline.export.report import TopicReport
from lacuna.pipeline.export.running import run_export
from lacuna.pipeline.export.tasks import TaskResult, TaskSettings, run_task
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.session import spark_session
from lacuna.pipeline.workers import Workers
from lacuna.testing import Cluster
from tests.pipeline.export.conftest import Lake

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.parametrize("place", ["folder"], indirect=True),
]


def _produce(cluster: Cluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(topic, os.urandom(2000), b"%d" % number)
        if number % 200 == 199:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def test_tasks_that_die_once(lake: Lake, place: Any) -> None:
    name = lake.topic()
    _produce(lake.cluster, name, 600)
    script = str(Path(__file__))
    subprocess.run(
        [sys.executable, script, str(lake.cluster.data), name, place.url],
        check=True,
        timeout=280,
        capture_output=True,
    )
    assert place.rows(name) == lake.consume(name)
    assert place.names("_staging") == []


def test_a_command_that_is_killed_while_spark_writes(lake: Lake, place: Any) -> None:
    name = lake.topic()
    _produce(lake.cluster, name, 4000)
    command = [sys.executable, "-m", "lacuna", "export", name, "--data", str(lake.cluster.data)]
    command += ["--to", place.url, "--spark", "--master", "local[1]", "--task-mib", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    waiting = threading.Event()
    try:
        for _ in range(5600):  # 280 s, as for the commands that run to their end
            if place.names("_staging"):
                break
            assert process.poll() is None, process.communicate()
            waiting.wait(0.05)
    finally:
        process.kill()
        process.communicate()
    assert place.names("_staging") != []
    assert place.rows(name) == []
    done = subprocess.run([*command, "--json"], check=True, timeout=280, capture_output=True)
    assert b'"records": 4000' in done.stdout
    assert place.rows(name) == lake.consume(name)


class FailingExport(Export):
    """The first attempt at each task dies with its worker after writing everything."""

    def run(self, settings: TaskSettings, tasks: Sequence[Task]) -> list[TaskResult]:
        """Run the tasks so that their first attempts fail."""

        def attempt(task: Task) -> TaskResult:
            context = TaskContext.get()
            assert context is not None
            result = run_task(settings, task, context.taskAttemptId())
            if context.attemptNumber() == 0:
                os._exit(1)
            return result

        spark = self.workers.spark_for(0)
        assert spark is not None
        context = spark.sparkContext
        return context.parallelize(tasks, len(tasks)).map(attempt).collect()


def _export_on_failing_workers(data: str, topic: str, to: str) -> None:
    """Export the topic once, as the script that the test runs."""
    location = find_cluster(data=data)
    settings = {"spark.driver.memory": "1g"}
    with (
        spark_session("failing", "local[2,3]", settings) as spark,
        JobClient(location.require_control()) as control,
    ):
        export = FailingExport(
            workers=Workers(lambda: spark),
            control=control,
            store=location.store,
            settings=ExportSettings(to=to, task_bytes=1),
        )
        (outcome,) = run_export(export, [topic])
        assert isinstance(outcome, TopicReport), outcome


if __name__ == "__main__":
    _export_on_failing_workers(*sys.argv[1:])
