"""Tests tasks as one Spark job: results arrive as they end, and the job ends only after all of them."""

import fcntl
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.spark_errors import job_errors
from lacuna.pipeline.spark_tasks import awaiting_end, run_tasks


def test_a_job_that_failed_has_no_task_left(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise its output would appear after the cleanup."""
    lock = tmp_path / "lock"

    def work(number: int) -> None:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR)
        if number == 0:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            (tmp_path / "locked").touch()
            time.sleep(300)
        while not (tmp_path / "locked").exists():
            time.sleep(0.01)
        raise PipelineError("the other one fails")

    context = spark.sparkContext
    with (
        pytest.raises(PipelineError, match="the other one fails"),
        job_errors(),
        awaiting_end(context, "a test"),
    ):
        context.parallelize([0, 1], 2).foreach(work)
    executors: Any = context._jsc.sc().statusTracker().getExecutorInfos()
    assert sum(executor.numRunningTasks() for executor in executors) == 0
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # which the killed worker held


def test_results_are_told_as_tasks_end(spark: SparkSession, tmp_path: Path) -> None:
    """The second task waits until the first one's result was reported. Each is reported once."""
    told: dict[int, str] = {}
    flag = tmp_path / "told"

    def work(name: str, attempt_id: int) -> str:
        context = TaskContext.get()
        assert context is not None
        assert attempt_id == context.taskAttemptId()
        if name == "second":
            while not flag.exists():
                time.sleep(0.01)
        return name.upper()

    def tell(number: int, result: str) -> None:
        assert number not in told
        told[number] = result
        flag.touch()

    run_tasks(spark.sparkContext, ["first", "second"], work, tell)
    assert told == {0: "FIRST", 1: "SECOND"}
    run_tasks(spark.sparkContext, [], work, tell)


def test_a_failure_is_raised_where_spark_knows_nothing_of_a_job() -> None:
    """Its status may lag, or be dropped."""

    class Context:
        def setJobGroup(self, *_: str) -> None:  # noqa: N802 - Spark's
            """See SparkContext."""

        def statusTracker(self) -> Any:  # noqa: N802
            known = SimpleNamespace(stageIds=[1, 2], status="FAILED")
            return SimpleNamespace(
                getJobIdsForGroup=lambda _: [1, 2],
                getJobInfo={1: None, 2: known}.get,
                getStageInfo={1: None, 2: SimpleNamespace(numActiveTasks=0)}.get,
            )

    with (
        pytest.raises(PipelineError, match="it fails"),
        awaiting_end(cast(Any, Context()), "a test"),
    ):
        raise PipelineError("it fails")
