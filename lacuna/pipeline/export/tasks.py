"""The work of a task: reads its slices from the bucket, makes rows, and writes Parquet files."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa

from lacuna.logstore.records.column_layout import RecordColumns
from lacuna.logstore.records.columns import ColumnBuilder
from lacuna.pipeline.decoding import Bounds, binary, decode
from lacuna.pipeline.errors import UndecodableRecordError
from lacuna.pipeline.export.damage import ConfirmedDamage, Skipped
from lacuna.pipeline.export.destination import Destination
from lacuna.pipeline.export.files import FileSettings, FileWriter
from lacuna.pipeline.export.layout import Layout
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.planning import Slice, Task
from lacuna.pipeline.export.rows import Misfit, RowMaker, raw_rows
from lacuna.pipeline.export.runs import QUARANTINE as QUARANTINED
from lacuna.pipeline.export.runs import TOMBSTONES, ExportedFile
from lacuna.pipeline.loading import Skip, load_blocks
from lacuna.pipeline.salvage import Lost
from lacuna.pipeline.stores import shared_store

FAIL: Final = "fail"
NULL: Final = "null"
QUARANTINE: Final = "quarantine"
ON_ERROR: Final = (FAIL, NULL, QUARANTINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """The settings that all tasks of a run share; can be pickled.

    `store` and `destination` are URLs. Records that do not match their schema go to `aside`, and those without a value
    to `tombstones`, if given. Data listed in `damage` may be left out if it cannot be read.
    """

    store: str
    cluster_id: str
    topic: str
    destination: str
    layout: Layout
    files: FileSettings
    aside: FileSettings
    tombstones: FileSettings | None = None
    on_error: str = FAIL
    damage: ConfirmedDamage | None = None


@dataclass(slots=True)
class TaskResult:
    """The files that a task wrote, the offsets it could not read, and the number of records that were misfits."""

    files: list[ExportedFile] = field(default_factory=list)
    misfits: int = 0
    skipped: list[Skipped] = field(default_factory=list)


def run_task(settings: TaskSettings, task: Task, attempt: int) -> TaskResult:
    """Exports the slices of a task. Each attempt writes to its own folder, so that concurrent ones do not collide.

    Raises UndecodableRecordError, DestinationError, and the same errors as `load_blocks`.
    """
    folder = f"{task.index:05d}-{attempt}"
    settings = replace(
        settings,
        files=settings.files.within(folder),
        aside=settings.aside.within(folder),
        tombstones=settings.tombstones and settings.tombstones.within(folder),
    )
    destination = open_destination(settings.destination)
    result = TaskResult()
    for part in task.slices:
        _export_slice(settings, destination, part, result)
    return result


def _export_slice(
    settings: TaskSettings, destination: Destination, part: Slice, result: TaskResult
) -> None:
    writer = FileWriter(destination, settings.files, part.partition)
    aside = FileWriter(destination, settings.aside, part.partition, QUARANTINED)
    tombstones = settings.tombstones and FileWriter(
        destination, settings.tombstones, part.partition, TOMBSTONES
    )
    writers = [each for each in (writer, aside, tombstones) if each]
    try:
        maker = RowMaker(settings.layout, part.partition)
        for columns in _records(settings, part, partial(_skip, settings, part, result)):
            rows, misfits = maker.rows(columns)
            values = binary(columns.values, columns.count)
            if misfits and settings.on_error == FAIL:
                raise _failure(settings.topic, part.partition, misfits[0])
            unfit = {misfit.row for misfit in misfits}
            result.misfits += len(unfit)
            if misfits and settings.on_error == QUARANTINE:
                aside.add(raw_rows(columns, misfits, part.partition))
                is_fit = pa.array([row not in unfit for row in range(columns.count)])
                rows, values = rows.filter(is_fit), values.filter(is_fit)
            if tombstones:
                tombstones.add(rows.filter(values.is_null()))
                rows = rows.filter(values.is_valid())
            writer.add(rows)
        for each in writers:
            result.files += each.finish()
    finally:
        for each in writers:
            each.abandon()


def _failure(topic: str, partition: int, misfit: Misfit) -> UndecodableRecordError:
    reason = " ".join(misfit.reason.split())
    return UndecodableRecordError(
        f"topic {topic}, partition {partition}, offset {misfit.offset}: the {misfit.part} does not "
        f"match its schema: {reason}; nothing from this run is visible: correct the schema, or continue "
        "with --on-error null or --on-error quarantine"
    )


def _records(settings: TaskSettings, part: Slice, skip: Skip) -> Iterator[RecordColumns]:
    store = shared_store(settings.store)
    blocks = load_blocks(store, settings.cluster_id, part.pieces, skip=skip)
    bounds = Bounds(first_offset=part.first_offset, end_offset=part.end_offset)
    return decode(ColumnBuilder(headers=True), blocks, settings.cluster_id, bounds, skip)


def _skip(settings: TaskSettings, part: Slice, result: TaskResult, lost: Lost) -> None:
    """Records unreadable offsets. Raises an error like `lost.error` if their damage is not confirmed."""
    first = max(lost.first_offset, part.first_offset)
    end = min(lost.end_offset, part.end_offset)
    if first >= end:
        return
    damage = settings.damage
    where = (lost.key, settings.topic, part.partition, first, end)
    kind = None if damage is None else damage.kind_of(*where)
    if kind is None:
        start = (
            "the given report does not list this damage:" if damage else "if it is lost for good,"
        )
        raise type(lost.error)(
            f"{lost.error}; {start} run `lacuna verify` with --json, and export the remaining records by passing its "
            "report to --skip-damage"
        )
    result.skipped.append(
        Skipped(
            partition=part.partition,
            first_offset=first,
            end_offset=end,
            key=lost.key,
            kind=kind,
        )
    )
