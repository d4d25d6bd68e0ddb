"""Units on Spark, from threads of the driver; each is swapped as soon as its tasks are done.

Units share Spark jobs, since a job costs more than a small task in it. Only one that is cleaned by key is a
job of its own, for its shuffles. Where a shared job fails, each unit that it still owes is a job of its own,
too: a task that fails costs its unit alone.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession

from pipeline.compaction.cleaning import clean
from pipeline.compaction.committing import UnitOutcome, commit, troubles
from pipeline.compaction.planning import Unit
from pipeline.compaction.rewriting import RewriteTask, TaskResult
from pipeline.compaction.settings import RewriteSettings
from pipeline.compaction.shared_jobs import Arrival, run_shared
from pipeline.control import ControlPlane
from pipeline.holding import JobHold
from pipeline.spark_errors import explain_spark_error

#: Jobs under way: more than there are cores, so that one that begins or ends leaves none idle.
_LEAST_JOBS: Final = 4
_MOST_JOBS: Final = 256
#: Units of one job, which bounds what is sent to Spark at once and what is begun anew where it fails.
_SHARED_UNITS: Final = 1_000
_PAUSE_SECONDS: Final = 0.2

#: Units of a job, by their numbers in the run.
_Units: TypeAlias = Mapping[int, Unit]
_Events: TypeAlias = "SimpleQueue[Arrival | Future[None]]"


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

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, UnitOutcome]]:
        """The units with their outcomes, as they come.

        A unit whose Spark job fails has failed, with Spark's reason in our words. Raises what `commit`
        raises. Whoever stops in the middle has cancelled what is under way: these Spark jobs, no other.
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
                    context.cancelJobsWithTag(self._tag)  # again: one may only be about to begin
                    wait(running, _PAUSE_SECONDS)
                raise

    def _outcomes(
        self, events: _Events, jobs: dict[Future[None], _Units], start: Callable[[_Units], None]
    ) -> Iterator[tuple[Unit, UnitOutcome]]:
        """Until no job is left. The results of a job come before its end."""
        found: dict[int, list[TaskResult]] = {}
        units = {number: unit for some in jobs.values() for number, unit in some.items()}
        while jobs:
            event = events.get()
            if isinstance(event, Future):
                some = jobs.pop(event)
                owed = {number: unit for number, unit in some.items() if number in units}
                error = event.exception()
                if error is not None and len(some) == 1:
                    for number, unit in owed.items():
                        del units[number]
                        yield unit, _failed(unit, error)
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
                self._hold.check()
                yield unit, commit(self._control, unit, self._hold.lease_id, found.pop(number))

    def _run_job(self, units: _Units, tell: Callable[[Arrival], Any]) -> None:
        context = self._spark.sparkContext
        context.addJobTag(self._tag)
        tasks = {number: self._tasks(unit) for number, unit in units.items()}
        number, unit = next(iter(units.items()))
        if unit.is_cleaned:
            for result in clean(self._spark, tasks[number], self._now_ms):
                tell((number, result))
        else:
            run_shared(context, tasks, tell)

    def _tasks(self, unit: Unit) -> list[RewriteTask]:
        return [
            RewriteTask(
                store_url=self._store_url,
                cluster_id=self._control.cluster_id,
                lease_id=self._hold.lease_id,
                settings=self._settings,
                shares=shares,
            )
            for shares in unit.tasks
        ]


def _as_jobs(units: Sequence[Unit]) -> Iterator[_Units]:
    """The units in their order, the shared jobs first: small jobs fill what they leave idle at their ends."""
    numbered = list(enumerate(units))
    shared = [(number, unit) for number, unit in numbered if not unit.is_cleaned]
    for at in range(0, len(shared), _SHARED_UNITS):
        yield dict(shared[at : at + _SHARED_UNITS])
    for number, unit in numbered:
        if unit.is_cleaned:
            yield {number: unit}


def _failed(unit: Unit, error: BaseException) -> UnitOutcome:
    """Raises the error if it is not known."""
    reason = explain_spark_error(error)
    if reason is None:
        raise error
    return UnitOutcome(failed=troubles((found, reason) for found in unit.ranges))
