"""The Spark job of an export: progress, and an end that all its tasks have reached."""

import fcntl
import os
import time
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.export.spark_job import NoProgress, watched
from pipeline.spark_errors import job_errors


def test_a_job_that_failed_has_no_task_left(spark: SparkSession, tmp_path: Path) -> None:
    """Or its output would come behind the cleaning up."""
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
        watched(context, NoProgress()),
    ):
        context.parallelize([0, 1], 2).foreach(work)
    executors: Any = context._jsc.sc().statusTracker().getExecutorInfos()
    assert sum(executor.numRunningTasks() for executor in executors) == 0
    with lock.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # which the killed worker held


def test_progress_goes_on_where_spark_knows_nothing_of_a_job() -> None:
    told = Event()

    class Context:
        def setJobGroup(self, *_: str) -> None:  # noqa: N802 - Spark's
            """As SparkContext's."""

        def statusTracker(self) -> Any:  # noqa: N802
            known = SimpleNamespace(stageIds=[1, 2])
            return SimpleNamespace(
                getJobIdsForGroup=lambda _: [1, 2],
                getJobInfo={1: None, 2: known}.get,
                getStageInfo={1: None, 2: SimpleNamespace(numCompletedTasks=3)}.get,
            )

    class Told(NoProgress):
        def done(self, tasks: int) -> None:
            assert tasks == 3
            told.set()

    with watched(cast(Any, Context()), Told()):
        assert told.wait(60)
