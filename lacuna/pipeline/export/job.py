"""The settings of an export, and the code shared by exports to Parquet and to Iceberg."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, NamedTuple

from lacuna.controlplane.shared.ids import show_id
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.errors import DataLossError, PipelineError
from lacuna.pipeline.export.damage import ConfirmedDamage
from lacuna.pipeline.export.destination import Destination
from lacuna.pipeline.export.files import FILE_BYTES, FileSettings
from lacuna.pipeline.export.layout import NONE, Layout, leaf_columns
from lacuna.pipeline.export.planning import TASK_BYTES, Task, plan_ranges, plan_tasks
from lacuna.pipeline.export.runs import Identity, RunRecord
from lacuna.pipeline.export.tasks import FAIL, TaskResult, TaskSettings, run_task
from lacuna.pipeline.export.typed.registry import Subjects
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.holding import ReadHold
from lacuna.pipeline.spark_errors import cause_of
from lacuna.pipeline.workers import Progress, Workers

PARQUET: Final = "parquet"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, ICEBERG)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """The settings of an export.

    `to` is the URL of the destination or, for Iceberg, of the warehouse. `catalog` contains the pyiceberg properties of
    the catalog `catalog_name`, and `tables` contains the names of tables that are not named after their topic. After a
    run, snapshots older than `expire_ms` are deleted and, with `merges`, small files of tables are merged. `layouts`
    are (pattern, layout) pairs. A file takes about `file_bytes`, and a task reads about `task_bytes` stored bytes. Data
    listed in `damage` is left out if it cannot be read. Keys and values without a schema get the newest schema from
    `subjects`. With `upserts`, a table has one row for each key.
    """

    to: str
    format: str = PARQUET
    layout: Layout = field(default_factory=Layout)
    layouts: tuple[tuple[str, Layout], ...] = ()
    on_error: str = FAIL
    allow_loss: bool = False
    damage: ConfirmedDamage | None = None
    compression: str = "zstd"
    file_bytes: int = FILE_BYTES
    task_bytes: int = TASK_BYTES
    catalog: Mapping[str, str] = field(default_factory=dict)
    catalog_name: str = "lacuna"
    namespace: str = "lacuna"
    tables: Mapping[str, str] = field(default_factory=dict)
    expire_ms: int | None = None
    merges: bool = False
    upserts: bool = False
    subjects: Subjects | None = None

    def with_newest_schemas(self, topic: str) -> "ExportSettings":
        """Returns the settings with the registry's newest schemas for a topic. Raises PipelineError."""
        if self.subjects is None:
            return self
        layout = self.layout_of(topic)
        layout = replace(
            layout,
            key=layout.key or self.subjects.key(topic),
            value=layout.value or self.subjects.value(topic),
        )
        return replace(self, layouts=((topic, layout), *self.layouts))

    def layout_of(self, topic: str) -> Layout:
        """Returns a topic's layout: that of the first matching pattern, or else the one for all topics."""
        for pattern, layout in self.layouts:
            if fnmatchcase(topic, pattern):
                return layout
        return self.layout

    def table_of(self, topic: str) -> tuple[str, str]:
        """Returns the identifier of a topic's table. Dots become underscores, since dots separate namespaces."""
        return self.namespace, self.tables.get(topic) or topic.replace(".", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A running export: its workers, control plane, store URL, settings and progress display."""

    workers: Workers
    control: JobClient
    store: str
    settings: ExportSettings
    progress: Progress = field(default_factory=Progress)

    def logs(self, topic: Topic) -> list[PartitionLog]:
        """Returns the current logs of a topic's partitions, once all their committed records are in the bucket."""
        keys = [(topic.topic_id, number) for number in range(topic.partition_count)]
        return self.control.readable_logs(keys, self.store)

    def run(self, settings: TaskSettings, tasks: Sequence[Task]) -> list[TaskResult]:
        """Runs the tasks and returns their results. If one fails, its error is raised once all others have ended."""
        results: dict[int, TaskResult] = {}

        def ended(number: int, result: TaskResult) -> None:
            results[number] = result
            self.progress.advance(1)

        if tasks:
            size = sum(
                piece.size for task in tasks for part in task.slices for piece in part.pieces
            )
            self.progress.stage(f"exporting {settings.topic}")
            self.progress.expect(len(tasks))
            work = partial(run_task, settings)
            self.workers.run(tasks, work, ended, size=size, what="lacuna export")
        return [results[number] for number in range(len(tasks))]


def is_pattern(text: str) -> bool:
    """Whether a text is a shell pattern. Topic names contain none of the special characters."""
    return any(character in text for character in "*?[")


def find_topic(control: JobClient, name: str) -> Topic:
    """Returns the topic with this name. Raises PipelineError if there is none."""
    topics = control.topics()
    if name not in topics:
        raise PipelineError(
            f"there is no topic {name!r}{control.whose}; `lacuna topics list` shows the topics that exist"
        )
    return topics[name]


@contextmanager
def reading_under(hold: ReadHold) -> Iterator[None]:
    """Replaces a DataLossError in the block with a StaleMetadataError if the hold was lost.

    In that case, the missing objects were collected after the pin ended. No data is lost, and the next run plans again.
    """
    try:
        yield
    except Exception as error:
        if isinstance(cause_of(error), DataLossError):
            hold.confirm()
        raise


def identity_of(export: Export, topic: Topic) -> Identity:
    """Returns the identity of this export, to be compared with that of earlier runs."""
    layout = export.settings.layout_of(topic.name)
    return Identity(
        cluster_id=export.control.cluster_id,
        topic=topic.name,
        topic_id=show_id(topic.topic_id),
        partition_by=layout.partition_by,
        columns=leaf_columns(layout.schema()),
        upserts=layout.key_column() if export.settings.upserts else "",
    )


class Folders(NamedTuple):
    """The folder in which a run stages its files of one kind, and the folder in which readers will see them."""

    staged: str
    final: str


def write_run(
    export: Export,
    destination: Destination,
    begun: RunRecord,
    logs: Sequence[PartitionLog],
    data: Folders,
    quarantine: Folders,
    tombstones: Folders | None = None,
) -> tuple[RunRecord, int]:
    """Writes a run's files durably. Returns its prepared record and the number of records that were misfits."""
    settings = export.settings
    layout = settings.layout_of(begun.topic)
    files = FileSettings(
        staged=data.staged,
        final=data.final,
        partition_by=begun.partition_by,
        sort_by=layout.sort_by,
        compression=settings.compression,
        file_bytes=settings.file_bytes,
    )

    def beside(folders: Folders) -> FileSettings:
        return replace(files, **folders._asdict(), partition_by=NONE, sort_by=())

    results = export.run(
        TaskSettings(
            store=export.store,
            cluster_id=begun.cluster_id,
            topic=begun.topic,
            destination=destination.url,
            layout=layout,
            files=files,
            aside=beside(quarantine),
            tombstones=None if tombstones is None else beside(tombstones),
            on_error=settings.on_error,
            damage=settings.damage,
        ),
        plan_tasks(logs, begun.ranges, settings.task_bytes),
    )
    prepared = replace(
        begun,
        kind="prepared",
        files=tuple(file for result in results for file in result.files),
        skipped=tuple(each for result in results for each in result.skipped),
    )
    return prepared, sum(result.misfits for result in results)


def begin(
    export: Export,
    topic: Topic,
    last: RunRecord | None,
    logs: Sequence[PartitionLog],
    ends: Mapping[int, int],
    seen: RunRecord | None = None,
) -> RunRecord:
    """Returns the record of a new run that follows `last` (None for the first run) and exports up to the offsets
    `ends`.

    `seen` is the last run that readers see, whose columns are included. Raises DataLossError as `plan_ranges` does.
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
        ranges=plan_ranges(logs, positions, ends, allow_loss=export.settings.allow_loss),
        began_ms=wall_clock_ms(),
    )
