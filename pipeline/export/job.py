"""What an export is asked to do, and the parts that Parquet and Iceberg share."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Final

from pyspark import TaskContext
from pyspark.sql import SparkSession

from controlplane.v1.cluster_pb2 import Topic
from pipeline.control import ControlPlane
from pipeline.errors import DataLossError, PipelineError
from pipeline.export.files import FILE_BYTES
from pipeline.export.layout import Layout, leaf_columns
from pipeline.export.planning import TASK_BYTES, Task, plan_ranges
from pipeline.export.runs import Identity, RunRecord
from pipeline.export.spark_job import NoProgress, Progress, watched
from pipeline.export.tasks import FAIL, TaskResult, TaskSettings, run_task
from pipeline.extents import PartitionLog
from pipeline.holding import ReadHold
from pipeline.spark_errors import cause_of

PARQUET: Final = "parquet"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, ICEBERG)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """`to` is the destination's URL, of an Iceberg export the warehouse. `catalog` are pyiceberg's
    properties of the catalog called `catalog_name`. Sizes in bytes: about those of a file, and of what
    a task reads.
    """

    to: str
    format: str = PARQUET
    layout: Layout = field(default_factory=Layout)
    on_error: str = FAIL
    allow_loss: bool = False
    compression: str = "zstd"
    file_bytes: int = FILE_BYTES
    task_bytes: int = TASK_BYTES
    catalog: Mapping[str, str] = field(default_factory=dict)
    catalog_name: str = "lacuna"
    namespace: str = "lacuna"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """An export that runs: where it reads, what works for it, who watches."""

    spark: SparkSession
    control: ControlPlane
    store: str
    settings: ExportSettings
    progress: Progress = field(default_factory=NoProgress)

    def logs(self, topic: Topic) -> list[PartitionLog]:
        """All partitions as of now."""
        keys = [(topic.topic_id, number) for number in range(topic.partition_count)]
        return self.control.partition_logs(keys)

    def run(self, settings: TaskSettings, tasks: Sequence[Task]) -> list[TaskResult]:
        """Runs the tasks on Spark; where one fails, the others have ended too.

        Raises what they raise, wrapped by Spark.
        """
        if not tasks:
            return []
        context = self.spark.sparkContext
        self.progress.begin(settings.topic, len(tasks))
        with watched(context, self.progress):
            return context.parallelize(tasks, len(tasks)).map(_Runner(settings)).collect()


def find_topic(control: ControlPlane, name: str) -> Topic:
    """Raises PipelineError where there is none."""
    topics = control.topics()
    if name not in topics:
        raise PipelineError(
            f"there is no topic {name!r}; `lacuna topics list` shows those that are"
        )
    return topics[name]


@dataclass(frozen=True, slots=True)
class _Runner:
    settings: TaskSettings

    def __call__(self, task: Task) -> TaskResult:
        context = TaskContext.get()
        return run_task(self.settings, task, 0 if context is None else context.taskAttemptId())


@contextmanager
def reading_under(hold: ReadHold) -> Iterator[None]:
    """Objects that tasks miss are no loss where the hold on them has ended: the next run plans anew.

    Raises StaleMetadataError then.
    """
    try:
        yield
    except Exception as error:
        if isinstance(cause_of(error), DataLossError):
            hold.confirm()
        raise


def identity_of(export: Export, topic: Topic) -> Identity:
    """What this export is, to compare with the one before."""
    layout = export.settings.layout
    return Identity(
        cluster_id=export.control.cluster_id,
        topic=topic.name,
        topic_id=topic.topic_id.hex(),
        partition_by=layout.partition_by,
        columns=leaf_columns(layout.schema()),
    )


def begin(
    export: Export,
    topic: Topic,
    last: RunRecord | None,
    logs: Sequence[PartitionLog],
    seen: RunRecord | None = None,
) -> RunRecord:
    """The record of the run behind `last`; columns of `seen`, the last one that readers see, are its own, too.

    Raises DataLossError as `plan_ranges`.
    """
    identity = identity_of(export, topic)
    positions = last.positions if last is not None else {}
    known = seen.columns if seen is not None else {}
    return RunRecord(
        **{**asdict(identity), "columns": {**known, **identity.columns}},
        sequence=1 if last is None else last.sequence + 1,
        kind="begun",
        run=1 if last is None else last.run + (last.kind == "committed"),
        token=uuid.uuid4().hex,
        positions=positions,
        ranges=plan_ranges(logs, positions, allow_loss=export.settings.allow_loss),
        began_ms=time.time_ns() // 1_000_000,
    )
