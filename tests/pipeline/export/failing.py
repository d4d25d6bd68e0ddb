"""Exports on Spark with tasks that each fail once after their work. Arguments: DATA TOPIC TO."""

import os
import sys
from collections.abc import Sequence

from pyspark import TaskContext

from lacuna.pipeline.control import ControlPlane
from lacuna.pipeline.export.job import Export, ExportSettings
from lacuna.pipeline.export.parquet import export_to_parquet
from lacuna.pipeline.export.planning import Task
from lacuna.pipeline.export.tasks import TaskResult, TaskSettings, run_task
from lacuna.pipeline.location import find_cluster
from lacuna.pipeline.session import spark_session
from lacuna.pipeline.workers import Workers


class FailingExport(Export):
    """The first attempt dies with its worker after it has written everything."""

    def run(self, settings: TaskSettings, tasks: Sequence[Task]) -> list[TaskResult]:
        """Run the same task without the failure."""

        def attempt(task: Task) -> TaskResult:
            context = TaskContext.get()
            assert context is not None
            result = run_task(settings, task, context.taskAttemptId())
            if context.attemptNumber() == 0:
                os._exit(1)
            return result

        spark = self.workers.spark_for(0)
        assert spark is not None
        context = spark.sparkContext
        return context.parallelize(tasks, len(tasks)).map(attempt).collect()


def main(data: str, topic: str, to: str) -> None:
    """Export the topic once."""
    location = find_cluster(data=data)
    settings = {"spark.driver.memory": "1g"}
    with (
        spark_session("failing", "local[2,3]", settings) as spark,
        ControlPlane(location.require_control()) as control,
    ):
        export = FailingExport(
            workers=Workers(lambda: spark),
            control=control,
            store=location.store,
            settings=ExportSettings(to=to, task_bytes=1),
        )
        export_to_parquet(export, topic)


if __name__ == "__main__":
    main(*sys.argv[1:])
