"""Exports to Parquet files. The protocol is described in docs/adr/0014: begun, prepared, published, committed.

| if an export dies | readers have seen | the next run |
|---|---|---|
| before `prepared` | nothing | deletes the staged files and plans again |
| between `prepared` and `committed` | no files, all files, or (in S3) some | publishes the missing files and commits |
| after `committed` | all files | deletes the staged files |
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.pipeline.errors import DestinationError, ExportRunningError
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
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.report import TopicReport
from lacuna.pipeline.export.runs import RunLog, RunRecord, check_same, run_folder, staging_folder
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.holding import ReadHold


@dataclass(frozen=True, slots=True)
class ParquetRun:
    """A prepared run, whose files are durable but still hidden. The topic is locked."""

    destination: Destination
    log: RunLog
    prepared: RunRecord
    report: TopicReport

    def publish(self) -> TopicReport:
        """Makes the files visible to readers, and returns the report of the run."""
        started = time.monotonic()
        committed = _publish(self.destination, self.log, self.prepared)
        seconds = time.monotonic() - started
        return self.report.of_run(committed, committed.run, committed.run, seconds)


@dataclass(frozen=True, slots=True)
class ParquetTarget:
    """The destination of a topic's files. The topic is locked."""

    export: Export
    topic: Topic
    destination: Destination
    log: RunLog

    def prepare(self, cut: RunCut) -> ParquetRun | TopicReport:
        """Finishes any interrupted run, and prepares an export up to a cut. Returns the report if there is nothing new.

        Raises PipelineError, ObjectStoreError, ControlPlaneUnavailable, and Spark's errors.
        """
        started = time.monotonic()
        export, topic, destination, log = self.export, self.topic, self.destination, self.log
        last = log.last()
        recovered = last is not None and last.kind == "prepared"
        if last is not None and recovered:
            last = _publish(destination, log, last)
        seen = log.last_committed()
        if seen is None:
            _check_unused(destination, topic.name)
        else:
            check_same(seen, identity_of(export, topic), export.settings.to)
        report = TopicReport(topic=topic.name, target=destination.uri(""), recovered=recovered)
        with ReadHold(export.control) as hold:
            logs = export.logs(topic)
            begun = begin(export, topic, last, logs, cut.ends_of(topic), seen)
            if seen is not None and not begun.moved:
                return replace(
                    report,
                    positions=begun.committed().positions,
                    state=seen.run,
                    seconds=time.monotonic() - started,
                )
            log.append(begun)
            with reading_under(hold):
                prepared, misfits = _prepare(export, destination, log, begun, logs)
        report = replace(report, misfits=misfits, seconds=time.monotonic() - started)
        return ParquetRun(destination, log, prepared, report)


def open_parquet(export: Export, topic: Topic, held: ExitStack) -> ParquetTarget:
    """Opens the destination of a topic's files. Its lock is added to `held`. Raises PipelineError."""
    export.settings.layout_of(topic.name).check_sorting()
    destination = open_destination(export.settings.to)
    destination.check()
    log = RunLog(destination, topic.name)
    held.enter_context(destination.lock(log.lock_name))
    return ParquetTarget(export, topic, destination, log)


def _check_unused(destination: Destination, topic: str) -> None:
    if destination.names(f"topic={topic}"):
        raise DestinationError(
            f"{destination.uri('')} contains files of topic {topic}, but no record of their export in _lacuna: "
            "export to a different destination, or delete these files"
        )


def _prepare(
    export: Export,
    destination: Destination,
    log: RunLog,
    begun: RunRecord,
    logs: Sequence[PartitionLog],
) -> tuple[RunRecord, int]:
    """Writes all files of the run, durable but hidden, and appends its `prepared` record.

    Returns that record, and the number of records that did not match their schema.
    """
    destination.delete_folder(staging_folder(begun.topic))  # left by earlier runs that died
    staged = staging_folder(begun.topic, begun.token)
    final = run_folder(begun.topic, begun.run)
    try:
        prepared, misfits = write_run(
            export,
            destination,
            begun,
            logs,
            data=Folders(staged, final),
            quarantine=Folders(f"{staged}/_quarantine", f"{final}/_quarantine"),
        )
        prepared = replace(prepared, sequence=begun.sequence + 1)
        log.append(prepared)
    except BaseException:
        destination.delete_folder(staged)
        raise
    return prepared, misfits


def _publish(destination: Destination, log: RunLog, prepared: RunRecord) -> RunRecord:
    """Makes the files of a prepared run visible. Appends and returns its `committed` record. May be repeated."""
    staging = staging_folder(prepared.topic, prepared.token)
    if prepared.files:
        moves = [file.move for file in prepared.files]
        destination.publish(moves, staging, run_folder(prepared.topic, prepared.run))
    committed = prepared.committed()
    try:
        log.append(committed)
    except ExportRunningError:
        last = log.last()
        if last is None or (last.token != prepared.token and last.run <= prepared.run):
            raise
        return committed  # the export that took over has published this run
    destination.delete_folder(staging)
    log.prune()
    return committed
