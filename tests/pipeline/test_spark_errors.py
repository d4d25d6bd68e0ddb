"""Tests that Spark's wrapping of our errors is removed."""

import os
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
