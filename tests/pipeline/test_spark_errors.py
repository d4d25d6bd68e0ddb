"""Tests Spark jobs: results arrive as tasks end, a job ends only after all of its tasks, and users see clear errors."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from lacuna.logstore.objects import ObjectStoreError
from lacuna.pipeline.errors import DamagedDataError, DataLossError, JobInterrupted, PipelineError
from lacuna.pipeline.spark_errors import explain_spark_error, job_errors
from lacuna.pipeline.spark_tasks import awaiting_end, run_tasks

LINE = "object 'a/b' is damaged: run `lacuna verify`: see"


def damaged(_: Any) -> None:
    try:
        raise DataLossError("not this one")
    except DataLossError as error:
        raise DamagedDataError(LINE) from error


def store_fails(_: Any) -> None:
    raise ObjectStoreError("the bucket is closed")


def has_no_lacuna(_: Any) -> None:
    raise ModuleNotFoundError(
        "No module named 'lacuna.pipeline.loading'", name="lacuna.pipeline.loading"
    )


def dies(_: Any) -> None:
    os._exit(1)


def mistaken(_: Any) -> None:
    raise ValueError("our own mistake")


def in_a_task(spark: SparkSession, work: Callable[[Any], None]) -> None:
    spark.sparkContext.parallelize(range(2), 2).map(work).collect()


def in_a_query(spark: SparkSession, work: Callable[[Any], None]) -> None:
    spark.range(2).select(udf(work)("id")).collect()


@pytest.mark.parametrize("run", [in_a_task, in_a_query])
def test_an_error_of_a_task_is_the_errors_one_line(
    spark: SparkSession, run: Callable[[SparkSession, Callable[[Any], None]], None]
) -> None:
    with pytest.raises(DamagedDataError) as told, job_errors():
        run(spark, damaged)
    assert str(told.value) == LINE


@pytest.mark.parametrize(
    ("work", "line"),
    [
        (store_fails, "^the bucket is closed$"),
        (has_no_lacuna, "lacuna is not installed on Spark's executors"),
        (dies, "a Spark Python worker was killed"),
    ],
)
def test_other_troubles_of_a_task(
    spark: SparkSession, work: Callable[[Any], None], line: str
) -> None:
    with pytest.raises(PipelineError, match=line), job_errors():
        in_a_task(spark, work)


def test_our_own_mistakes_keep_their_trace(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="our own mistake") as told, job_errors():
        in_a_task(spark, mistaken)
    assert explain_spark_error(told.value) is None
    with pytest.raises(ZeroDivisionError), job_errors():
        _ = 1 / 0


def test_ours_pass_as_they_are() -> None:
    error = DataLossError("gone")
    with pytest.raises(DataLossError) as told, job_errors():
        raise error
    assert told.value is error
    assert explain_spark_error(error) == "gone"


def test_a_missing_package_is_named() -> None:
    with (
        pytest.raises(PipelineError, match=r"needs pyarrow: pip install 'lacuna-log\[spark\]'"),
        job_errors(),
    ):
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
    with pytest.raises(ModuleNotFoundError), job_errors():
        raise ModuleNotFoundError("No module named 'surprise'", name="surprise")


def test_ctrl_c_is_one_line() -> None:
    with pytest.raises(JobInterrupted, match="everything that was committed remains"), job_errors():
        raise KeyboardInterrupt


def test_what_fails_behind_ctrl_c_is_ctrl_c() -> None:
    """PySpark uses connections to the JVM that py4j has already closed."""

    def interrupted() -> None:
        try:
            try:
                raise KeyboardInterrupt
            finally:
                raise Py4JNetworkError("Answer from Java side is empty")
        finally:
            raise PipelineError("the way out failed")

    with pytest.raises(JobInterrupted, match="everything that was committed remains"), job_errors():
        interrupted()


def ran(code: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**kept, **environment}
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_the_source_says_what_is_missing_and_what_to_do() -> None:
    said = ran(
        "import sys; sys.modules['google.protobuf'] = None\n"
        "from pyspark_lacuna import DefaultSource\n"
        "assert DefaultSource.name() == 'lacuna'\n"
        "try: DefaultSource({})\n"
        "except ImportError as error: print(error)"
    )
    assert said.startswith(
        f"Spark's workers run {sys.executable}, which lacks a package that lacuna needs"
    )
    assert "google.protobuf" in said
    assert "activate the environment" in said


@pytest.mark.slow
def test_imported_first_it_names_this_python() -> None:
    code = "import os, pyspark_lacuna; print(os.environ['PYSPARK_PYTHON'])"
    assert ran(code) == sys.executable
    assert ran(code, PYSPARK_PYTHON="python3.99") == "python3.99"


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
    """The second task waits until the first one's result has been reported. Each result is reported once."""
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
