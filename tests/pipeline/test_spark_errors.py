"""Tests what users see of errors in Spark: our own without its wrapping, and a Python that lacks our packages."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from lacuna.logstore.objects import ObjectStoreError
from lacuna.pipeline.errors import DamagedDataError, DataLossError, JobInterrupted, PipelineError
from lacuna.pipeline.spark_errors import explain_spark_error, job_errors

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
        (dies, "a Python worker of Spark was killed"),
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
    with pytest.raises(JobInterrupted, match="what was committed stays"), job_errors():
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

    with pytest.raises(JobInterrupted, match="what was committed stays"), job_errors():
        interrupted()


def ran(code: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**kept, **environment}
    )
    return done.stdout.strip()


def test_the_source_says_what_is_missing_and_what_to_do() -> None:
    said = ran(
        "import sys; sys.modules['google.protobuf'] = None\n"
        "from pyspark_lacuna import DefaultSource\n"
        "assert DefaultSource.name() == 'lacuna'\n"
        "try: DefaultSource({})\n"
        "except ImportError as error: print(error)"
    )
    assert said.startswith(
        f"Spark's workers run {sys.executable}, which lacks something lacuna needs"
    )
    assert "google.protobuf" in said
    assert "activate the environment" in said


def test_imported_first_it_names_this_python() -> None:
    code = "import os, pyspark_lacuna; print(os.environ['PYSPARK_PYTHON'])"
    assert ran(code) == sys.executable
    assert ran(code, PYSPARK_PYTHON="python3.99") == "python3.99"
