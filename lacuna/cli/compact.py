"""`lacuna compact`: rewrites the bucket into a few large objects, without aborted or superseded records."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from lacuna.cli.command_line import option
from lacuna.cli.errors import fail, print_error
from lacuna.cli.job_workers import SparkOptions, check_report_file, choose_workers
from lacuna.cli.location import locate
from lacuna.cli.options import JobPlace
from lacuna.cli.units import parse_duration, parse_size, show_size
from lacuna.logstore.records.layout import Codec

if TYPE_CHECKING:
    from lacuna.cli.progress import Shown
    from lacuna.pipeline.compaction.job import Compaction
    from lacuna.pipeline.compaction.settings import CompactionSettings

_WHAT = "What to rewrite"
_HOW = "How to write it"
_WHEN = "When"
_REPORT = "Report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    topic: Annotated[
        list[str] | None,
        option(
            "--topic",
            "-t",
            help="Only this topic, or topics that match a pattern such as 'logs-*'. May be repeated.",
            panel=_WHAT,
        ),
    ] = None
    rewrite_all: Annotated[
        bool,
        option(
            "--all",
            help="Rewrite everything below the last stable offset, even large "
            "extents without waste, for example to change the codec.",
            panel=_WHAT,
        ),
    ] = False
    small_bytes: Annotated[
        str, option(help="Join neighbouring extents that are smaller than this.", panel=_WHAT)
    ] = "512KiB"
    codec: Annotated[
        str | None,
        option(
            help="Codec of the rewritten batches: none, gzip, snappy, lz4 or zstd. By default, batches "
            "keep their codec.",
            panel=_HOW,
        ),
    ] = None
    level: Annotated[int | None, option(help="Compression level of the codec.", panel=_HOW)] = None
    batch_bytes: Annotated[str, option(help="Size of a batch before compression.", panel=_HOW)] = (
        "256KiB"
    )
    segment_bytes: Annotated[
        str, option(help="Size of an object. Each task holds one object in memory.", panel=_HOW)
    ] = "64MiB"
    task_bytes: Annotated[
        str,
        option(
            help="Maximum number of bytes that one Spark task reads; larger partitions are split into several tasks.",
            panel=_HOW,
        ),
    ] = "256MiB"
    watch: Annotated[
        bool,
        option("--watch/--once", help="Repeat until Ctrl-C, instead of running once.", panel=_WHEN),
    ] = False
    interval: Annotated[str, option(help="Pause between two runs of --watch.", panel=_WHEN)] = "10m"
    threshold: Annotated[
        float,
        option(
            min=0,
            max=1,
            help="Skip partitions that waste a smaller share than this (aborted, expired "
            "or superseded bytes, and small extents); 0.3 means 30%.",
            panel=_WHEN,
        ),
    ] = 0.0
    dry_run: Annotated[
        bool, option(help="Show the plan without changing anything.", panel=_REPORT)
    ] = False
    json: Annotated[
        str | None,
        option(
            alone="-",
            metavar="[FILE]",
            help="Print the report as JSON, or write it to this file.",
            panel=_REPORT,
        ),
    ] = None
    prices: Annotated[
        Path | None,
        option(
            help="JSON file with your own prices: put_per_1000, get_per_1000, gib_month. "
            "Default: the service's list prices, or no prices for a folder.",
            panel=_REPORT,
        ),
    ] = None
    place: JobPlace
    spark: SparkOptions

    def settings(self) -> CompactionSettings:
        """Return the job's settings. Raises UserError."""
        from lacuna.pipeline.compaction.settings import CompactionSettings, RewriteSettings

        return CompactionSettings(
            rewrite=RewriteSettings(
                segment_bytes=parse_size(self.segment_bytes, "--segment-bytes"),
                batch_bytes=parse_size(self.batch_bytes, "--batch-bytes"),
                codec=_codec(self.codec),
                level=self.level,
            ),
            task_bytes=parse_size(self.task_bytes, "--task-bytes"),
            small_bytes=parse_size(self.small_bytes, "--small-bytes"),
            rewrites_all=self.rewrite_all,
            threshold=self.threshold,
        )


def compact(given: Given) -> None:
    """Rewrites the bucket into a few large objects, without aborted or superseded records.

    Topics with cleanup.policy=compact keep the last value of each key. Offsets, keys, values, headers and timestamps do
    not change, and consumers can keep reading. If a partition's extents change during its rewrite, the partition is
    left as it is until the next run. Up to 1 GiB is rewritten in this process. For more, the command uses Spark, which
    needs `pip install 'lacuna-log[spark]'` and Java 17 or 21.
    """
    from lacuna.cli.progress import bytes_done
    from lacuna.pipeline.compaction.job import Compaction
    from lacuna.pipeline.control import JobClient
    from lacuna.pipeline.spark_errors import job_errors

    settings = given.settings()
    report = _Report(given)
    uses_spark = given.spark.choice()
    location = locate(given.place)
    with job_errors(), ExitStack() as stack:
        _interrupt_on_sigterm()
        progress = stack.enter_context(bytes_done(lambda size: f"rewriting {show_size(size)}"))
        workers = choose_workers(
            "lacuna compact", False if given.dry_run else uses_spark, given.spark, progress, stack
        )
        control = stack.enter_context(JobClient(location.require_control()))
        job = Compaction(control, location.store, settings, workers, progress)
        is_well = report.show(job, location.store, progress)
    if not is_well:
        raise click.exceptions.Exit(1)


class _Report:
    """Where a compaction's results are printed. Raises UserError for invalid options before the job starts."""

    def __init__(self, given: Given) -> None:
        check_report_file("--json", given.json)
        self._given = given
        self._pause = parse_duration(given.interval, "--interval")

    def show(self, job: Compaction, store: str, progress: Shown) -> bool:
        """Run or plan the job, and print each result. Return whether the last run compacted everything."""
        from lacuna.cli.compaction import show_plan, show_report
        from lacuna.logstore.objects import kind_of
        from lacuna.logstore.objects.prices import Prices
        from lacuna.pipeline.compaction.job import watch

        given, topics = self._given, self._given.topic or ()
        if given.dry_run:
            plans = job.plan(topics)
            progress.end()
            show_plan(plans, given.json)
            return True
        prices = kind_of(store).prices
        if given.prices is not None:
            prices = Prices.load(given.prices, prices)
        reports = watch(job, topics, self._pause, print_error) if given.watch else [job.run(topics)]
        is_well = True
        for report in reports:
            progress.end()
            show_report(report, prices, given.json)
            is_well = not report.failed
        return is_well


def _codec(name: str | None) -> Codec | None:
    names = {each.name.lower(): each for each in Codec}
    if name is not None and name.lower() not in names:
        fail(f"--codec {name}: choose one of {', '.join(names)}")
    return None if name is None else names[name.lower()]


def _interrupt_on_sigterm() -> None:
    """Make SIGTERM end the command as cleanly as Ctrl-C does, so that it can run as a service."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
