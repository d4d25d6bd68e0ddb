"""Tasks of many units in one Spark job, and the result of each as it ends.

An action's own results come when its last task has ended. Updates of an accumulator reach the driver task by
task, once for each however often it is tried, before the action returns; so these travel as updates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from pyspark import SparkContext, TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from pipeline.compaction.rewriting import NothingDropped, RewriteTask, TaskResult, rewrite
from pipeline.errors import PipelineError
from pipeline.stores import shared_store

#: The number of a unit, and what one of its tasks gave.
Arrival: TypeAlias = tuple[int, TaskResult]


def run_shared(
    context: SparkContext,
    tasks: Mapping[int, Sequence[RewriteTask]],
    tell: Callable[[Arrival], Any],
) -> None:
    """Runs the tasks of these units; `tell` is called in a thread of PySpark's as each has ended, for all
    before this returns.

    Raises what Spark raises where a task fails; the rest is cancelled then.
    """
    arrivals = context.accumulator([], _Told(tell))
    given = [(number, task) for number, some in tasks.items() for task in some]
    context.parallelize(given, len(given)).foreachPartition(partial(_rewrite_each, arrivals))


class _Told(AccumulatorParam[list[Arrival]]):
    """Keeps a task's arrivals until it ends; the driver's tells of them and keeps nothing."""

    def __init__(self, tell: Callable[[Arrival], Any] | None = None) -> None:
        self._tell = tell

    def __reduce__(self) -> tuple[type["_Told"], tuple[()]]:
        return _Told, ()

    def zero(self, value: list[Arrival]) -> list[Arrival]:  # noqa: ARG002 - Spark's
        return []

    def addInPlace(  # noqa: N802 - Spark's
        self, value1: list[Arrival], value2: list[Arrival]
    ) -> list[Arrival]:
        if self._tell is None:
            return value1 + value2
        for arrival in value2:
            self._tell(arrival)
        return value1


def _rewrite_each(
    arrivals: Accumulator[list[Arrival]], tasks: Iterable[tuple[int, RewriteTask]]
) -> None:
    context = TaskContext.get()
    if context is None:
        raise PipelineError("a rewrite runs in a task of Spark's")
    for number, task in tasks:  # one a partition
        store = shared_store(task.store_url)
        result = rewrite(task, store, context.taskAttemptId(), NothingDropped())
        arrivals.add([(number, result)])
