"""Units side by side, each from a thread of the driver: a Spark job, then a swap."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from pyspark import TaskContext
from pyspark.sql import SparkSession

from pipeline.compaction.cleaning import clean
from pipeline.compaction.committing import UnitOutcome, commit, troubles
from pipeline.compaction.planning import Unit
from pipeline.compaction.rewriting import NothingDropped, RewriteTask, TaskResult, rewrite
from pipeline.compaction.settings import RewriteSettings
from pipeline.control import ControlPlane
from pipeline.errors import PipelineError
from pipeline.holding import JobHold
from pipeline.spark_errors import explain_spark_error
from pipeline.stores import shared_store

#: Units under way: more than there are cores, so that one that is being swapped leaves none idle.
_LEAST_UNITS: Final = 4
_MOST_UNITS: Final = 256
_PAUSE_SECONDS: Final = 0.2


class UnitRunner:
    """Runs units of one plan, which was made at `now_ms`."""

    def __init__(
        self,
        spark: SparkSession,
        control: ControlPlane,
        hold: JobHold,
        store_url: str,
        settings: RewriteSettings,
        now_ms: int,
    ) -> None:
        self._spark = spark
        self._control = control
        self._hold = hold
        self._store_url = store_url
        self._settings = settings
        self._now_ms = now_ms
        self._tag = f"lacuna-compact-{uuid.uuid4().hex}"
        self._is_cancelled = False

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, UnitOutcome]]:
        """The units with their outcomes, as they come.

        A unit whose Spark job fails has failed, with Spark's reason in our words. Raises what `commit`
        raises. Whoever stops in the middle has cancelled what is under way: these Spark jobs, no other.
        """
        context = self._spark.sparkContext
        size = min(_MOST_UNITS, max(_LEAST_UNITS, 2 * context.defaultParallelism))
        with ThreadPoolExecutor(size, thread_name_prefix="unit") as pool:
            try:
                coming = {pool.submit(self._run_unit, unit): unit for unit in units}
                for future in _as_completed(coming):
                    yield coming[future], future.result()
            except BaseException:
                self._is_cancelled = True
                pool.shutdown(wait=False, cancel_futures=True)
                while running := [future for future in coming if not future.done()]:
                    context.cancelJobsWithTag(self._tag)  # again: one may only be about to begin
                    wait(running, _PAUSE_SECONDS)
                raise

    def _run_unit(self, unit: Unit) -> UnitOutcome:
        self._spark.sparkContext.addJobTag(self._tag)
        try:
            results = self._run_tasks(unit)
        except Exception as error:
            reason = explain_spark_error(error)
            if reason is None:
                raise
            return UnitOutcome(failed=troubles((found, reason) for found in unit.ranges))
        self._hold.check()
        if self._is_cancelled:
            return UnitOutcome()
        return commit(self._control, unit, self._hold.lease_id, results)

    def _run_tasks(self, unit: Unit) -> list[TaskResult]:
        tasks = [
            RewriteTask(
                store_url=self._store_url,
                cluster_id=self._control.cluster_id,
                lease_id=self._hold.lease_id,
                settings=self._settings,
                shares=shares,
            )
            for shares in unit.tasks
        ]
        if unit.is_cleaned:
            return clean(self._spark, tasks, self._now_ms)
        given = self._spark.sparkContext.parallelize(tasks, len(tasks))
        return given.mapPartitions(_rewrite_each).collect()


def _rewrite_each(tasks: Iterable[RewriteTask]) -> Iterator[TaskResult]:
    context = TaskContext.get()
    if context is None:
        raise PipelineError("a rewrite runs in a task of Spark's")
    for task in tasks:  # one a partition
        store = shared_store(task.store_url)
        yield rewrite(task, store, context.taskAttemptId(), NothingDropped())


def _as_completed(coming: "Iterable[Future[UnitOutcome]]") -> "Iterator[Future[UnitOutcome]]":
    left = set(coming)
    while left:
        done, left = wait(left, return_when=FIRST_COMPLETED)
        yield from done
