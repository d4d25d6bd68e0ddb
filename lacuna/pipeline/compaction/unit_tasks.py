"""The tasks of a unit, and the outcome of a failed unit, wherever they run."""

from dataclasses import dataclass

from lacuna.pipeline.compaction.committing import UnitOutcome, troubles
from lacuna.pipeline.compaction.planning import Unit
from lacuna.pipeline.compaction.rewriting import RewriteTask
from lacuna.pipeline.compaction.settings import RewriteSettings
from lacuna.pipeline.spark_errors import explain_spark_error


@dataclass(frozen=True, slots=True)
class TaskMaker:
    """Makes tasks that write under a lease of the cluster."""

    store_url: str
    cluster_id: str
    lease_id: int
    settings: RewriteSettings

    def tasks(self, unit: Unit) -> list[RewriteTask]:
        """The tasks of a unit."""
        return [
            RewriteTask(
                store_url=self.store_url,
                cluster_id=self.cluster_id,
                lease_id=self.lease_id,
                settings=self.settings,
                shares=shares,
            )
            for shares in unit.tasks
        ]


def failed(unit: Unit, error: BaseException) -> UnitOutcome:
    """The outcome of a unit whose tasks failed. Raises the error itself if it cannot be explained."""
    reason = explain_spark_error(error)
    if reason is None:
        raise error
    return UnitOutcome(failed=troubles((found, reason) for found in unit.ranges))
