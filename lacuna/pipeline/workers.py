"""Runs a job's tasks in threads of this process or, if there is much to read, on Spark, and reports progress."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

OpenSpark: TypeAlias = Callable[[], "SparkSession"]
"""Returns the job's Spark session; the first call starts it."""

SPARK_FROM_BYTES: Final = 1 << 30
"""The default number of stored bytes from which a job uses Spark. With less to read, the JVM is not worth its cost."""

#: The maximum number of concurrent tasks in this process, which limits its memory.
_MOST_THREADS: Final = 4


class Progress:
    """Receives a job's progress, in any thread. This base class displays nothing."""

    def stage(self, text: str) -> None:
        """Begins a stage with this description."""

    def expect(self, amount: int) -> None:
        """Adds `amount`, in bytes or tasks, to the total work."""

    def advance(self, amount: int) -> None:
        """Adds `amount` to the work done."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Runs a job's tasks on Spark if it is available and they read `spark_from_bytes` or more, else in this process."""

    open_spark: OpenSpark | None = None
    spark_from_bytes: int = 0

    def spark_for(self, size: int) -> "SparkSession | None":
        """Returns the Spark session for tasks that read `size` stored bytes, or None if this process runs them."""
        if self.open_spark is None or size < self.spark_from_bytes:
            return None
        return self.open_spark()

    def run(
        self,
        tasks: Sequence[T],
        work: Callable[[T, int], R],
        tell: Callable[[int, R], Any],
        *,
        size: int,
        what: str,
    ) -> None:
        """Runs `work(task, attempt)` for each task and, when it ends, calls `tell` with the task's index and result.

        Attempt numbers are unique. If a task fails, its error (on Spark, wrapped in Spark's own) is raised once no
        other task is running. `size` is the number of bytes that the tasks read, and `what` describes them.
        """
        spark = self.spark_for(size)
        if spark is None:
            run_here(tasks, work, tell)
            return
        from lacuna.pipeline.spark_tasks import awaiting_end, run_tasks

        with awaiting_end(spark.sparkContext, what):
            run_tasks(spark.sparkContext, tasks, work, tell)


def run_here(
    tasks: Sequence[T], work: Callable[[T, int], R], tell: Callable[[int, R], Any]
) -> None:
    """Runs the tasks in threads of this process, as `Workers.run` does."""
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, thread_name_prefix="task") as executor:
        futures = {executor.submit(work, task, number): number for number, task in enumerate(tasks)}
        try:
            for future in as_completed(futures):
                tell(futures[future], future.result())
        except BaseException:
            executor.shutdown(
                wait=False, cancel_futures=True
            )  # the end of the block waits for running tasks
            raise
