"""Runs units on Spark from threads of the driver, and swaps each in when its tasks are done.

Units share Spark jobs, since starting a job costs more than a small task. Only a unit that is cleaned by key has a job
to itself, for its shuffles. If a shared job fails, each of its unfinished units is retried in a separate job, so that a
failing task affects only its own unit.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession

from lacuna.pipeline.compaction.cleaning import clean
from lacuna.pipeline.compaction.committing import PlanRun, UnitOutcome, commit, failed
from lacuna.pipeline.compaction.planning import Unit
from lacuna.pipeline.compaction.rewriting import RewriteTask, TaskResult, rewrite
from lacuna.pipeline.spark_tasks import run_tasks
from lacuna.pipeline.stores import shared_store

#: The number of jobs that run at once: more than there are cores, so that none is idle while a job begins or ends.
_LEAST_JOBS: Final = 4
_MOST_JOBS: Final = 256
#: The maximum number of units in a job, which limits what is sent to Spark at once, and repeated if the job fails.
_SHARED_UNITS: Final = 1_000
_PAUSE_SECONDS: Final = 0.2
#: How often, in seconds, to check whether the lease has been lost while tasks run.
_CHECK_SECONDS: Final = 1.0

#: A unit's number, and the result of one of its tasks.
_Arrival: TypeAlias = tuple[int, TaskResult]
#: The units of a job, by their numbers in the run.
_Units: TypeAlias = Mapping[int, Unit]
_Events: TypeAlias = "SimpleQueue[_Arrival | Future[None]]"


class UnitRunner:
    def __init__(self, spark: SparkSession, plan: PlanRun) -> None:
        self._spark = spark
        self._plan = plan
        self._tag = f"lacuna-compact-{uuid.uuid4().hex}"

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, UnitOutcome]]:
        """Runs the units, and yields each with its outcome when it finishes.

        If a unit's Spark job fails, its outcome contains the explanation from `explain_spark_error`. Raises the same
        errors as `commit`. If the caller stops early, only this run's Spark jobs are cancelled.
        """
        context = self._spark.sparkContext
        size = min(_MOST_JOBS, max(_LEAST_JOBS, 2 * context.defaultParallelism))
        events: _Events = SimpleQueue()
        jobs: dict[Future[None], _Units] = {}
        with ThreadPoolExecutor(size, thread_name_prefix="unit") as pool:

            def start(some: _Units) -> None:
                future = pool.submit(self._run_job, some, events.put)
                jobs[future] = some
                future.add_done_callback(events.put)

            try:
                for some in _as_jobs(units):
                    start(some)
                yield from self._outcomes(events, jobs, start)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                while running := [future for future in jobs if not future.done()]:
                    context.cancelJobsWithTag(
                        self._tag
                    )  # repeatedly, since a job may not have begun yet
                    wait(running, _PAUSE_SECONDS)
                raise

    def _outcomes(
        self, events: _Events, jobs: dict[Future[None], _Units], start: Callable[[_Units], None]
    ) -> Iterator[tuple[Unit, UnitOutcome]]:
        """Handles events until no job is left, and yields outcomes. The results of a job's tasks arrive before its end
        does.
        """
        found: dict[int, list[TaskResult]] = {}
        units = {number: unit for some in jobs.values() for number, unit in some.items()}
        while jobs:
            try:
                event = events.get(timeout=_CHECK_SECONDS)
            except Empty:
                self._plan.hold.check()  # segments written under a lost lease cannot be swapped in
                continue
            if isinstance(event, Future):
                some = jobs.pop(event)
                owed = {number: unit for number, unit in some.items() if number in units}
                error = event.exception()
                if error is not None and len(some) == 1:
                    for number, unit in owed.items():
                        del units[number]
                        yield unit, failed(unit, error)
                elif error is not None:
                    for number, unit in owed.items():
                        found.pop(number, None)
                        start({number: unit})
                continue
            number, result = event
            results = found.setdefault(number, [])
            results.append(result)
            if len(results) == len(units[number].tasks):
                unit = units.pop(number)
                plan = self._plan
                plan.hold.check()
                yield unit, commit(plan.control, unit, plan.hold.lease_id, found.pop(number))

    def _run_job(self, units: _Units, tell: Callable[[_Arrival], Any]) -> None:
        context = self._spark.sparkContext
        context.addJobTag(self._tag)
        tasks = {number: self._plan.tasks(unit) for number, unit in units.items()}
        number, unit = next(iter(units.items()))
        if unit.is_cleaned:
            for result in clean(self._spark, tasks[number], self._plan.now_ms):
                tell((number, result))
        else:
            given = [(number, task) for number, some in tasks.items() for task in some]
            run_tasks(context, given, _rewrite, lambda at, result: tell((given[at][0], result)))


def _rewrite(numbered: tuple[int, RewriteTask], attempt_id: int) -> TaskResult:
    _, task = numbered
    return rewrite(task, shared_store(task.store_url), attempt_id)


def _as_jobs(units: Sequence[Unit]) -> Iterator[_Units]:
    """Groups units into jobs. Shared jobs come first; small jobs then use the cores that these leave idle."""
    numbered = list(enumerate(units))
    shared = [(number, unit) for number, unit in numbered if not unit.is_cleaned]
    for at in range(0, len(shared), _SHARED_UNITS):
        yield dict(shared[at : at + _SHARED_UNITS])
    for number, unit in numbered:
        if unit.is_cleaned:
            yield {number: unit}
