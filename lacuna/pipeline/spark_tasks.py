"""Runs tasks as one Spark job, and delivers the result of each task as soon as the task ends.

The results of a Spark action arrive only when its last task has ended. Accumulator updates, however, reach the driver
before the action returns, exactly once for each task, regardless of its attempts. Results are therefore sent as
accumulator updates.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext, TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from lacuna.pipeline.errors import PipelineError

T = TypeVar("T")
R = TypeVar("R")

_END_POLL_SECONDS: Final = 0.05
#: Spark kills the Python worker of a cancelled task within four seconds, unless its executor is unreachable.
_END_SECONDS: Final = 30.0


def run_tasks(
    context: SparkContext,
    tasks: Sequence[T],
    work: Callable[[T, int], R],
    tell: Callable[[int, R], Any],
) -> None:
    """Runs `work(task, attempt id)` for each of `tasks`, as one Spark job.

    The attempt id is unique to each attempt. When a task ends, one of PySpark's threads calls `tell` with the task's
    index and result; all these calls are made before `run_tasks` returns. If a task fails, Spark cancels the others,
    and the task's error is raised.
    """
    if not tasks:
        return
    results = context.accumulator([], _Told(lambda numbered: tell(*numbered)))
    numbered = list(enumerate(tasks))
    context.parallelize(numbered, len(numbered)).foreachPartition(partial(_work, work, results))


@contextmanager
def awaiting_end(context: SparkContext, description: str) -> Iterator[None]:
    """If the block's Spark job fails, waits up to half a minute until none of its tasks can still be writing.

    Spark reports the failure immediately, while other tasks are still running, and kills them afterwards.
    """
    group = f"lacuna-{uuid.uuid4().hex}"
    context.setJobGroup(group, description)
    try:
        yield
    except Exception:
        with suppress(Py4JError):  # without a JVM, there are no tasks
            _await_end(context, group)
        raise


class _Told(AccumulatorParam[list[Any]]):
    """Collects results. A task keeps them until it ends; the driver passes them to `tell` and keeps none."""

    def __init__(self, tell: Callable[[Any], Any] | None = None) -> None:
        self._tell = tell

    def __reduce__(self) -> tuple[type["_Told"], tuple[()]]:
        return _Told, ()

    def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002 - Spark's
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:  # noqa: N802 - Spark's
        if self._tell is None:
            return value1 + value2
        for result in value2:
            self._tell(result)
        return value1


def _work(
    work: Callable[[Any, int], Any],
    results: Accumulator[list[Any]],
    numbered: Iterable[tuple[int, Any]],
) -> None:
    context = TaskContext.get()
    if context is None:
        raise PipelineError("this runs only in a Spark task")
    for number, task in numbered:  # one task per partition
        results.add([(number, work(task, context.taskAttemptId()))])


def _await_end(context: SparkContext, group: str) -> None:
    """Waits up to half a minute until no task is running. The next run deletes files written after that."""
    deadline = time.monotonic() + _END_SECONDS
    while _is_under_way(context, group) and time.monotonic() < deadline:
        time.sleep(_END_POLL_SECONDS)  # Spark does not notify Python


def _is_under_way(context: SparkContext, group: str) -> bool:
    # Spark's status follows its events in order: once it shows the end of a job, it also shows the start of all its
    # tasks. It does not yet contain jobs that have not begun, and forgets old ones.
    tracker: Any = context.statusTracker()
    known = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    jobs = [job for job in known if job]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    return any(job.status == "RUNNING" for job in jobs) or any(
        stage.numActiveTasks for stage in stages if stage
    )
