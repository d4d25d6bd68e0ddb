"""Exports to an Iceberg table: executors write data files, and the driver adds them in one snapshot.

| if an export dies | the table | the next run |
|---|---|---|
| before the snapshot | is unchanged; `data/TOKEN/` contains files unknown to it | deletes these, and exports again |
| after the snapshot | contains both the files and the offsets | continues after them |
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.table import Table

from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.pipeline.errors import ExportRunningError
from lacuna.pipeline.export.cuts import RunCut
from lacuna.pipeline.export.destination import Destination
from lacuna.pipeline.export.job import (
    Export,
    Folders,
    begin,
    identity_of,
    reading_under,
    write_run,
)
from lacuna.pipeline.export.partitioning import check_partitions
from lacuna.pipeline.export.report import TopicReport
from lacuna.pipeline.export.runs import ROWS, TOMBSTONES, RunLog, RunRecord
from lacuna.pipeline.export.tables import (
    Change,
    TopicTable,
    catalog_of,
    destination_of,
    files_of,
    offsets_of,
    snapshot_of,
)
from lacuna.pipeline.export.upserts import Deletes, Upserts
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.holding import ReadHold


@dataclass(frozen=True, slots=True)
class IcebergRun:
    """A prepared run, whose files are durable but not yet in a snapshot. The topic is locked."""

    change: Change
    destination: Destination
    log: RunLog
    report: TopicReport

    def finish(self, after: Table) -> TopicReport:
        """Deletes the leftovers of earlier runs, once this run's snapshot has been added, and returns the report of the
        run.
        """
        started = time.monotonic()
        committed = self.change.run.committed()
        self._delete_unused(after)
        with suppress(
            ExportRunningError
        ):  # the offsets are in the table, so an export that took over cannot add them again
            self.log.append(committed)
            _delete_leftovers(self.destination, self.log, after, committed.token)
            self.log.prune()
        snapshot = snapshot_of(after, committed.token)
        run = None if snapshot is None else str(snapshot)
        return self.report.of_run(committed, run, snapshot, time.monotonic() - started)

    def _delete_unused(self, after: Table) -> None:
        """Deletes a run's tombstone files, and the delete files of attempts that lost to a concurrent commit."""
        run, upserts = self.change.run, self.change.upserts
        if upserts is None:
            return
        self.destination.delete_folder(_folders(run.token)["tombstones"])
        used = {*upserts.rows, *Deletes.of(after, snapshot_of(after, run.token)).paths()}
        names = self.destination.names(upserts.folder)
        self.destination.delete(n for n in names if f"{after.location()}/{n}" not in used)


@dataclass(frozen=True, slots=True)
class IcebergTarget:
    """A topic's table. The topic is locked."""

    export: Export
    topic: Topic
    into: TopicTable
    schema: pa.Schema
    destination: Destination
    log: RunLog

    def prepare(self, cut: RunCut) -> IcebergRun | TopicReport:
        """Prepares an export up to a cut, or returns the report if there is nothing new.

        Raises PipelineError, ObjectStoreError, ControlPlaneUnavailable, and Spark's errors.
        """
        started = time.monotonic()
        export, topic, found = self.export, self.topic, self.into
        destination, log = self.destination, self.log
        report = TopicReport(topic=topic.name, target=found.name)
        with ReadHold(export.control) as hold:
            logs = export.logs(topic)
            current = found.reload()
            begun = _begin(export, topic, log, current, logs, cut)
            if begun.positions and not begun.moved:
                snapshot = current.current_snapshot()
                return replace(
                    report,
                    positions=begun.committed().positions,
                    state=None if snapshot is None else snapshot.snapshot_id,
                    seconds=time.monotonic() - started,
                )
            log.append(begun)
            with reading_under(hold):
                prepared, misfits = _write(export, destination, begun, logs)
        rows, tombstones = (
            [f"{current.location()}/{file.staged}" for file in prepared.files if file.kind == kind]
            for kind in (ROWS, TOMBSTONES)
        )
        upserts = None
        if begun.upserts:
            upserts = Upserts(
                key=begun.upserts,
                rows=rows,
                tombstones=tombstones,
                destination=destination,
                folder=_folders(begun.token)["data"],
            )
        return IcebergRun(
            change=Change(found, prepared, self.schema, rows, cut, upserts),
            destination=destination,
            log=log,
            report=replace(report, misfits=misfits, seconds=time.monotonic() - started),
        )


def open_iceberg(export: Export, topic: Topic, held: ExitStack) -> IcebergTarget:
    """Opens a topic's table, creating it if necessary, and adds its lock to `held`. Raises PipelineError."""
    settings = export.settings
    layout = settings.layout_of(topic.name)
    schema = layout.schema()
    layout.check_sorting()
    check_partitions(layout.partition_by, schema)
    found = TopicTable(catalog_of(settings), settings.table_of(topic.name))
    destination = destination_of(found.open(identity_of(export, topic), schema))
    destination.check()
    log = RunLog(destination, topic.name)
    held.enter_context(destination.lock(log.lock_name))
    return IcebergTarget(export, topic, found, schema, destination, log)


def _begin(
    export: Export,
    topic: Topic,
    log: RunLog,
    table: Table,
    logs: Sequence[PartitionLog],
    cut: RunCut,
) -> RunRecord:
    """Returns the record of a new run, with start offsets from the table, and the rest from the log of earlier runs."""
    positions, ends = offsets_of(table), cut.ends_of(topic)
    last = log.last()
    if last is not None:
        last = replace(last, positions=positions)
        return begin(export, topic, last, logs, ends)
    first = begin(export, topic, None, logs, ends)
    if not positions:
        return first
    blank = replace(first, sequence=0, run=0, kind="committed", positions=positions, ranges={})
    return begin(export, topic, blank, logs, ends)


def _write(
    export: Export, destination: Destination, begun: RunRecord, logs: Sequence[PartitionLog]
) -> tuple[RunRecord, int]:
    """Writes all data files durably to their final locations, where no reader looks before the snapshot is added.

    Returns the record of the prepared run, and the number of records that did not match their schema.
    """
    folders = _folders(begun.token)
    data, quarantine, tombstones = (Folders(folder, folder) for folder in folders.values())
    try:
        prepared, misfits = write_run(
            export,
            destination,
            begun,
            logs,
            data=data,
            quarantine=quarantine,
            tombstones=tombstones if export.settings.upserts else None,
        )
    except BaseException:
        for folder in folders.values():
            destination.delete_folder(folder)
        raise
    _delete_lost_attempts(destination, begun.token, {file.staged for file in prepared.files})
    return prepared, misfits


def _folders(token: str) -> Mapping[str, str]:
    places = {"data": "data", "quarantine": "_quarantine", "tombstones": "_tombstones"}
    return {name: f"{place}/{token}" for name, place in places.items()}


def _delete_lost_attempts(destination: Destination, token: str, known: set[str]) -> None:
    for folder in _folders(token).values():
        destination.delete(name for name in destination.names(folder) if name not in known)


def _delete_leftovers(destination: Destination, log: RunLog, table: Table, own: str) -> None:
    """Deletes the files of runs that died, unless a snapshot contains them.

    This is safe only once this run's snapshot (token `own`) has been added, since theirs can then no longer be added.
    """
    for token in {record.token for record in log.unfinished().values()} - {own}:
        folders, used = _folders(token), files_of(table, token)
        destination.delete_folder(folders["tombstones"])
        if used or snapshot_of(table, token) is not None:
            names = destination.names(folders["data"])
            destination.delete(n for n in names if n.partition(f"/{token}/")[2] not in used)
        else:
            destination.delete_folder(folders["data"])
            destination.delete_folder(folders["quarantine"])
