"""Runs units in this process, without Spark."""

from collections.abc import Iterator, Sequence

from lacuna.pipeline.compaction.committing import PlanRun, UnitOutcome, commit, failed
from lacuna.pipeline.compaction.planning import Unit
from lacuna.pipeline.compaction.rewriting import TaskResult, rewrite
from lacuna.pipeline.stores import shared_store


def run_here(
    plan: PlanRun, units: Sequence[Unit], attempts: Iterator[int]
) -> Iterator[tuple[Unit, UnitOutcome]]:
    """Runs the units one by one, swaps each in when its tasks are done, and yields it with its outcome.

    `attempts` yields a unique number for each attempt. A unit fails if any of its tasks does. Raises the same errors as
    `commit`.
    """
    for unit in units:
        plan.hold.check()  # segments written under a lost lease cannot be swapped in
        try:
            results = _work(plan, unit, attempts)
        except Exception as error:
            yield unit, failed(unit, error)
            continue
        yield unit, commit(plan.control, unit, plan.hold.lease_id, results)


def _work(plan: PlanRun, unit: Unit, attempts: Iterator[int]) -> list[TaskResult]:
    tasks = plan.tasks(unit)
    if unit.is_cleaned:
        from lacuna.pipeline.compaction.cleaning_here import clean  # imports pyarrow

        return clean(tasks, plan.now_ms, attempts)
    return [rewrite(task, shared_store(task.store_url), next(attempts)) for task in tasks]
