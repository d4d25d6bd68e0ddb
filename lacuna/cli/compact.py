"""`lacuna compact`: rewrites small and aborted extents as few large ones, on Spark."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lacuna.cli.durations import parse_duration
from lacuna.cli.errors import fail
from lacuna.cli.location import locate
from lacuna.cli.options import DEFAULT_MASTER, Control, Data, Master, SparkConf, Store
from lacuna.cli.report_files import check_report_file
from lacuna.cli.sizes import parse_size
from logstore.records.layout import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.compaction.settings import CompactionSettings

_WHAT = "What is rewritten"
_HOW = "How it is written"
_WHEN = "When"
_REPORT = "Report"

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        help="Only this topic, or those that match a pattern such as 'logs-*'; as often as you like.",
        rich_help_panel=_WHAT,
    ),
]
All = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Everything below the last stable offset, also what is large and live: to change the "
        "codec.",
        rich_help_panel=_WHAT,
    ),
]
Small = Annotated[
    str,
    typer.Option(
        "--small-bytes", help="Neighbours smaller than this are joined.", rich_help_panel=_WHAT
    ),
]
Threshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        min=0,
        max=1,
        help="Leave partitions alone of which less is wasted: aborted, expired or superseded bytes, "
        "or small extents; 0.3 is 30 %.",
        rich_help_panel=_WHEN,
    ),
]
CodecName = Annotated[
    str | None,
    typer.Option(
        "--codec",
        help="none, gzip, snappy, lz4 or zstd for what is rewritten; batches keep their own if not "
        "given.",
        rich_help_panel=_HOW,
    ),
]
Level = Annotated[
    int | None,
    typer.Option("--level", help="The codec's level.", rich_help_panel=_HOW),
]
BatchBytes = Annotated[
    str,
    typer.Option("--batch-bytes", help="Size of a batch before compression.", rich_help_panel=_HOW),
]
SegmentBytes = Annotated[
    str,
    typer.Option(
        "--segment-bytes",
        help="Size of an object; a task holds one in memory.",
        rich_help_panel=_HOW,
    ),
]
TaskBytes = Annotated[
    str,
    typer.Option(
        "--task-bytes",
        help="What one task of Spark's reads at most; larger partitions are several tasks.",
        rich_help_panel=_HOW,
    ),
]
Watch = Annotated[
    bool,
    typer.Option("--watch/--once", help="Go on until Ctrl-C, or once.", rich_help_panel=_WHEN),
]
Interval = Annotated[
    str, typer.Option("--interval", help="The pause of --watch.", rich_help_panel=_WHEN)
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the plan and change nothing.", rich_help_panel=_REPORT),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        help="The report as JSON, into this file; - is the output.",
        rich_help_panel=_REPORT,
    ),
]
PriceFile = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        help="A JSON file with prices of your own: put_per_1000, get_per_1000, gib_month.",
        rich_help_panel=_REPORT,
    ),
]


def compact(
    topic: Topics = None,
    rewrite_all: All = False,
    small_bytes: Small = "512KiB",
    codec: CodecName = None,
    level: Level = None,
    batch_bytes: BatchBytes = "256KiB",
    segment_bytes: SegmentBytes = "64MiB",
    task_bytes: TaskBytes = "256MiB",
    watch: Watch = False,
    interval: Interval = "10m",
    threshold: Threshold = 0.0,
    dry_run: DryRun = False,
    json: Json = None,
    prices: PriceFile = None,
    control: Control = None,
    data: Data = None,
    store: Store = None,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
) -> None:
    """Rewrites the bucket on Spark: few large objects, no aborted or superseded records.

    Topics whose cleanup.policy is compact keep the last value of each key. Offsets, keys, values, headers and
    timestamps stay as they are, and consumers read on meanwhile. What changes while it is rewritten stays as it
    was, for the next run. Needs `pip install 'lacuna[spark]'` and Java 17 or 21.
    """
    from lacuna.cli.compaction import open_progress, show_plan, show_report, watching
    from pipeline.compaction.job import Compaction
    from pipeline.control import ControlPlane
    from pipeline.master import check_master
    from pipeline.prices import Prices
    from pipeline.session import parse_settings, spark_session
    from pipeline.spark_errors import job_errors

    pause = parse_duration(interval, "--interval")
    settings = _settings(
        _codec(codec), level, (small_bytes, batch_bytes, segment_bytes, task_bytes)
    )
    settings = replace(settings, rewrites_all=rewrite_all, threshold=threshold)
    check_report_file("--json", json)
    table = Prices.load(prices)
    spark_settings = parse_settings(conf or ())
    location = locate(data, control, store)
    if not dry_run:
        check_master(spark_settings.get("spark.master", master))
    with job_errors(), ExitStack() as stack:
        _interrupt_on_sigterm()
        plane = stack.enter_context(ControlPlane(location.require_control()))
        progress = stack.enter_context(open_progress())

        @cache
        def open_spark() -> SparkSession:
            progress.stage(f"starting Spark on {master}")
            return stack.enter_context(spark_session("lacuna compact", master, spark_settings))

        job = Compaction(plane, location.store, settings, open_spark, progress)
        if dry_run:
            show_plan(job.plan(topic or ()), json)
            return
        reports = watching(job, topic or (), pause) if watch else [job.run(topic or ())]
        is_well = True
        for report in reports:
            show_report(report, table, json)
            is_well = not report.failed
    if not is_well:
        raise typer.Exit(1)


def _codec(name: str | None) -> Codec | None:
    names = {each.name.lower(): each for each in Codec}
    if name is not None and name.lower() not in names:
        fail(f"--codec {name}: there are {', '.join(names)}")
    return None if name is None else names[name.lower()]


def _settings(
    codec: Codec | None, level: int | None, sizes: tuple[str, str, str, str]
) -> CompactionSettings:
    from pipeline.compaction.settings import CompactionSettings, RewriteSettings

    options = ("--small-bytes", "--batch-bytes", "--segment-bytes", "--task-bytes")
    small_bytes, batch_bytes, segment_bytes, task_bytes = map(parse_size, sizes, options)
    return CompactionSettings(
        rewrite=RewriteSettings(
            segment_bytes=segment_bytes, batch_bytes=batch_bytes, codec=codec, level=level
        ),
        task_bytes=task_bytes,
        small_bytes=small_bytes,
    )


def _interrupt_on_sigterm() -> None:
    """A clean end, as by Ctrl-C, also for whoever stops a service."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
