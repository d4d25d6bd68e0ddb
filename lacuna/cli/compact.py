"""`lacuna compact`: rewrites small and aborted extents as few large ones."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from lacuna.cli.command_line import option
from lacuna.cli.durations import parse_duration
from lacuna.cli.errors import fail
from lacuna.cli.job_workers import UseSpark, asked_for_spark, choose_workers
from lacuna.cli.location import locate
from lacuna.cli.options import DEFAULT_MASTER, Control, Data, JobKeys, Master, SparkConf, Store
from lacuna.cli.report_files import check_report_file
from lacuna.cli.sizes import parse_size, show_size
from lacuna.logstore.records.layout import Codec

if TYPE_CHECKING:
    from lacuna.pipeline.compaction.settings import CompactionSettings

_WHAT = "What to rewrite"
_HOW = "How to write it"
_WHEN = "When"
_REPORT = "Report"

Topics = Annotated[
    list[str] | None,
    option(
        "--topic",
        "-t",
        help="Only this topic, or topics that match a pattern such as 'logs-*'. May be repeated.",
        panel=_WHAT,
    ),
]
All = Annotated[
    bool,
    option(
        "--all",
        help="Rewrite everything below the last stable offset, even large extents without waste, for "
        "example to change the codec.",
        panel=_WHAT,
    ),
]
Small = Annotated[
    str,
    option(
        "--small-bytes", help="Join neighbouring extents that are smaller than this.", panel=_WHAT
    ),
]
Threshold = Annotated[
    float,
    option(
        "--threshold",
        min=0,
        max=1,
        help="Skip partitions with a smaller wasted share (aborted, expired or superseded bytes, and "
        "small extents); 0.3 is 30 %.",
        panel=_WHEN,
    ),
]
CodecName = Annotated[
    str | None,
    option(
        "--codec",
        help="Codec of the rewritten batches: none, gzip, snappy, lz4 or zstd. Without it, batches "
        "keep their own.",
        panel=_HOW,
    ),
]
Level = Annotated[
    int | None,
    option("--level", help="Compression level of the codec.", panel=_HOW),
]
BatchBytes = Annotated[
    str,
    option("--batch-bytes", help="Size of a batch before compression.", panel=_HOW),
]
SegmentBytes = Annotated[
    str,
    option(
        "--segment-bytes",
        help="Size of an object. Each task holds one in memory.",
        panel=_HOW,
    ),
]
TaskBytes = Annotated[
    str,
    option(
        "--task-bytes",
        help="The most that one Spark task reads; larger partitions are split into several tasks.",
        panel=_HOW,
    ),
]
Watch = Annotated[
    bool,
    option("--watch/--once", help="Repeat until Ctrl-C, instead of running once.", panel=_WHEN),
]
Interval = Annotated[
    str, option("--interval", help="Pause between two runs of --watch.", panel=_WHEN)
]
DryRun = Annotated[
    bool,
    option("--dry-run", help="Show the plan without changing anything.", panel=_REPORT),
]
Json = Annotated[
    str | None,
    option(
        "--json",
        alone="-",
        metavar="[FILE]",
        help="Print the report as JSON, or write it to this file.",
        panel=_REPORT,
    ),
]
PriceFile = Annotated[
    Path | None,
    option(
        "--prices",
        help="JSON file with your own prices: put_per_1000, get_per_1000, gib_month. Default: the list prices of the "
        "service, and none for a folder.",
        panel=_REPORT,
    ),
]


def compact(
    context: click.Context,
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
    encryption_keys: JobKeys = None,
    spark: UseSpark = None,
    master: Master = DEFAULT_MASTER,
    conf: SparkConf = None,
) -> None:
    """Rewrites the bucket: few large objects, without aborted or superseded records.

    Topics with cleanup.policy=compact keep the last value of each key. Offsets, keys, values, headers and timestamps
    do not change, and consumers can read all the time. A partition that changes during its rewrite stays unchanged
    until the next run. This process rewrites up to 1 GiB. For more, it uses Spark, which needs
    `pip install 'lacuna-log[spark]'` and Java 17 or 21.
    """
    from lacuna.cli.compaction import show_plan, show_report, watching
    from lacuna.cli.progress import bytes_done
    from lacuna.logstore.objects import kind_of
    from lacuna.logstore.objects.prices import Prices
    from lacuna.pipeline.compaction.job import Compaction
    from lacuna.pipeline.control import ControlPlane
    from lacuna.pipeline.spark_errors import job_errors

    pause = parse_duration(interval, "--interval")
    settings = _settings(
        _codec(codec), level, (small_bytes, batch_bytes, segment_bytes, task_bytes)
    )
    settings = replace(settings, rewrites_all=rewrite_all, threshold=threshold)
    check_report_file("--json", json)
    spark = asked_for_spark(context, spark, conf)
    location = locate(data, control, store, encryption_keys)
    table = kind_of(location.store).prices
    if prices is not None:
        table = Prices.load(prices, table)
    with job_errors(), ExitStack() as stack:
        _interrupt_on_sigterm()
        progress = stack.enter_context(bytes_done(lambda size: f"rewriting {show_size(size)}"))
        uses_spark = False if dry_run else spark
        given = (master, conf or ())
        workers = choose_workers("lacuna compact", uses_spark, given, progress, stack)
        plane = stack.enter_context(ControlPlane(location.require_control()))
        job = Compaction(plane, location.store, settings, workers, progress)
        if dry_run:
            plans = job.plan(topic or ())
            progress.end()
            show_plan(plans, json)
            return
        reports = watching(job, topic or (), pause) if watch else [job.run(topic or ())]
        is_well = True
        for report in reports:
            progress.end()
            show_report(report, table, json)
            is_well = not report.failed
    if not is_well:
        raise click.exceptions.Exit(1)


def _codec(name: str | None) -> Codec | None:
    names = {each.name.lower(): each for each in Codec}
    if name is not None and name.lower() not in names:
        fail(f"--codec {name}: choose one of {', '.join(names)}")
    return None if name is None else names[name.lower()]


def _settings(
    codec: Codec | None, level: int | None, sizes: tuple[str, str, str, str]
) -> CompactionSettings:
    from lacuna.pipeline.compaction.settings import CompactionSettings, RewriteSettings

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
    """Makes SIGTERM end the command as cleanly as Ctrl-C does, for when it runs as a service."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
