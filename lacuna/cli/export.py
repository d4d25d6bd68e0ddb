"""`lacuna export`: writes each committed record exactly once, to Parquet files or Iceberg tables."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, NoReturn

import click

from lacuna.cli.console import is_for_people, print_line, table
from lacuna.cli.errors import fail, print_error
from lacuna.cli.export_options import Given
from lacuna.cli.job_workers import choose_workers
from lacuna.cli.location import locate
from lacuna.cli.progress import Shown, tasks_done
from lacuna.cli.units import parse_duration, show_count, show_size
from lacuna.controlplane.client import show_time

if TYPE_CHECKING:
    from lacuna.pipeline.export.cuts import CutReport
    from lacuna.pipeline.export.job import ExportSettings
    from lacuna.pipeline.export.report import TopicReport
    from lacuna.pipeline.location import ClusterLocation
    from lacuna.pipeline.workers import Workers


#: The maximum number of cuts that --status lists, and of open transactions that a report names; `--json` lists all.
_MOST_CUTS = 10
_MOST_NAMED = 3
#: With --follow, the time from the beginning of one run to the beginning of the next. A record that just misses a cut
#: waits for the next run to begin and end.
_FOLLOW_SECONDS: Final = 20.0


def export(given: Given) -> None:
    """Exports each committed record exactly once, to Parquet files or Iceberg tables.

    Each run continues where the last one ended. All topics in a run stop at one cut, which splits no transaction.
    Readers of the folder or table never see part of a run: if a run dies, the next one repairs what it left behind.
    Aborted records are not even read. If the export of one topic fails, the other topics are still exported.
    """
    from lacuna.pipeline.spark_errors import job_errors

    with job_errors():
        settings = given.settings()
        if given.status:
            _show_cuts(settings)
            return
        if not given.topics:
            fail(
                "specify the topics to export, or list the complete cuts of earlier exports with --status"
            )
        if given.watch and given.follow:
            fail("--watch and --follow both repeat the export: use only one of them")
        pause = parse_duration(given.watch, "--watch") if given.watch else 0.0
        location = locate(given.place)
        uses_spark = given.spark.choice()
        with tasks_done() as progress, ExitStack() as stack:
            workers = choose_workers("lacuna export", uses_spark, given.spark, progress, stack)
            job = _Job(location, settings, given.topics, workers, progress, as_json=given.as_json)
            is_well = job.follow() if given.follow else job.run(pause)
    if not is_well:
        raise click.exceptions.Exit(1)


def _show_cuts(settings: "ExportSettings") -> None:
    """List the newest complete cuts, newest first, with the run or snapshot to read for each topic or table."""
    from lacuna.pipeline.export.running import check_settings, complete_cuts

    check_settings(settings)
    cuts = complete_cuts(settings, _MOST_CUTS)
    if not cuts:
        print_line("no cut is complete: export several topics with one command")
    table(
        ("cut", "at", "table" if settings.format == "iceberg" else "topic", "read", "still there"),
        (
            (cut.id, show_time(cut.at_ms), name, state, "yes" if name in readable else "no")
            for cut, readable in reversed(cuts)
            for name, state in sorted(cut.states.items())
        ),
    )


@dataclass(frozen=True, slots=True)
class _Job:
    location: "ClusterLocation"
    settings: "ExportSettings"
    topics: Sequence[str]
    workers: "Workers"
    progress: "Shown"
    as_json: bool

    def run(self, pause: float) -> bool:
        """Export once, or repeatedly with a pause in seconds. Return whether every topic succeeded in the first run."""
        is_well = self._begin()
        while pause:
            sleep(pause)
            self._continue()
        return is_well

    def follow(self) -> NoReturn:
        """Export indefinitely. Runs begin at fixed intervals, or once the previous one has ended if that is later."""
        began = monotonic()
        self._begin()
        while True:
            sleep(max(0.0, began + _FOLLOW_SECONDS - monotonic()))
            began = monotonic()
            self._continue()

    def _begin(self) -> bool:
        """Export for the first time. An error that concerns more than one topic ends the command."""
        from lacuna.pipeline.export.running import check_destination, check_topics

        check_topics(self.location, self.topics)
        check_destination(self.settings)
        return self._export_once()

    def _continue(self) -> None:
        """Export again. An error may be gone by the next run, so only Ctrl-C ends the command."""
        from lacuna.pipeline.errors import JobInterrupted
        from lacuna.pipeline.spark_errors import EXPLAINED, job_errors

        try:
            with job_errors():
                self._export_once()
        except JobInterrupted:
            raise
        except EXPLAINED as error:
            print_error(str(error))

    def _export_once(self) -> bool:
        """Export and report each topic, even if another one fails. Return whether all succeeded."""
        from lacuna.pipeline.export.report import TopicFailure
        from lacuna.pipeline.export.running import export_topics

        reports: list[TopicReport] = []
        failures: list[TopicFailure] = []
        outcomes = export_topics(
            self.workers, self.location, self.settings, self.topics, self.progress
        )
        try:
            for outcome in outcomes:
                if self.as_json:
                    click.echo(json.dumps(outcome.as_json()))
                if isinstance(outcome, TopicFailure):
                    failures.append(outcome)
                else:
                    reports.append(outcome)
        finally:
            self.progress.end()
            if reports and not self.as_json:
                print_reports(reports)
            for failure in failures:
                print_error(f"{failure.topic} was not exported: {failure.error}")
        return not failures


def print_reports(reports: Sequence["TopicReport"]) -> None:
    """Prints a row for each partition with new records, and a sentence for each topic."""
    table(
        ("topic", "partition", "from", "to"),
        (
            (report.topic, partition, first, end)
            for report in reports
            for partition, (first, end) in sorted(report.offsets.items())
        ),
    )
    sentences = [_sentence(report) for report in reports]
    if (cut := reports[0].cut) is not None and (cut.topics > 1 or cut.holders):
        sentences.append(_cut_sentence(cut))
    for sentence in sentences:
        print_line(sentence if is_for_people() else f"# {sentence}")


def _cut_sentence(cut: "CutReport") -> str:
    """Return a sentence that says whether the topics end at one cut, and which open transactions hold it back."""
    text = f"{show_count(cut.topics, 'topic')}, " if cut.topics > 1 else ""
    text += f"cut at {show_time(cut.at_ms)}: "
    text += "no transaction is split" if cut.is_complete else "not all topics have reached it"
    for holder in cut.holders[:_MOST_NAMED]:
        name = holder.transactional_id or f"producer {holder.producer_id}"
        open_ms = max(cut.at_ms - holder.start_time_ms, 0)
        text += (
            f"; {show_count(holder.partitions, 'partition')} end before the open transaction of {name}, which had been "
            f"open for {open_ms / 1000:.1f} s and times out after {holder.timeout_ms / 1000:.0f} s"
        )
    return text


def _sentence(report: "TopicReport") -> str:
    if report.run is None:
        return f"{report.topic}: nothing new for {report.target}"
    text = (
        f"{report.topic}: {show_count(report.records, 'record')} in {show_count(report.files, 'file')}, "
        f"{show_size(report.bytes)}, in {report.seconds:.1f} s, to {report.target}"
    )
    if report.skipped:
        count = sum(each.end_offset - each.first_offset for each in report.skipped)
        text += f"; {show_count(count, 'offset')} could not be read and were skipped"
    if report.misfits:
        text += f"; {report.misfits} did not match their schema"
    if report.quarantined:
        text += f" ({report.quarantined} in _quarantine)"
    return text
