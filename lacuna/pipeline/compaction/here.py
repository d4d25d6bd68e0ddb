"""Runs units in this process, without Spark, and swaps each as soon as its tasks are done."""

from collections.abc import Iterator, Sequence

from lacuna.pipeline.compaction.committing import TaskMaker, UnitOutcome, commit, failed
from lacuna.pipeline.compaction.planning import Unit
from lacuna.pipeline.compaction.rewriting import NothingDropped, TaskResult, rewrite
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.holding import JobHold
from lacuna.pipeline.stores import shared_store


class LocalRunner:
    """Runs the units of one plan, which was made at `now_ms`. `attempts` yields numbers that no other attempt has."""

    def __init__(
        self,
        control: JobClient,
        hold: JobHold,
        maker: TaskMaker,
        now_ms: int,
        attempts: Iterator[int],
    ) -> None:
        self._control = control
        self._hold = hold
        self._maker = maker
        self._now_ms = now_ms
        self._attempts = attempts

    def run(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, UnitOutcome]]:
        """Runs the units one after another, and yields each with its outcome.

        If a unit's task fails, the unit fails. Raises the errors of `commit`.
        """
        for unit in units:
            self._hold.check()  # segments that tasks write under a lost lease cannot be swapped in
            try:
                results = self._work(unit)
            except Exception as error:
                yield unit, failed(unit, error)
                continue
            yield unit, commit(self._control, unit, self._maker.lease_id, results)

    def _work(self, unit: Unit) -> list[TaskResult]:
        tasks = self._maker.tasks(unit)
        if unit.is_cleaned:
            from lacuna.pipeline.compaction.cleaning_here import clean  # pyarrow

            return clean(tasks, self._now_ms, self._attempts)
        return [
            rewrite(task, shared_store(task.store_url), next(self._attempts), NothingDropped())
            for task in tasks
        ]
