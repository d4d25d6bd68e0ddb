"""What `lacuna compact` shows: progress, the plan, the report."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from lacuna.cli.console import err, is_for_people, out, table
from lacuna.cli.errors import print_error
from lacuna.cli.sizes import show_size
from pipeline.compaction.job import Compaction, Plan
from pipeline.compaction.report import CompactionReport, Size, Trouble
from pipeline.compaction.watching import watch
from pipeline.prices import Prices


class Bar:
    """A bar on a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._total = 0

    def stage(self, text: str) -> None:
        """What begins now."""
        self._progress.update(self._task, description=text)

    def begin(self, total: int) -> None:
        """So many bytes more."""
        self._total += total
        self._progress.update(self._task, total=self._total)
        self.stage("rewriting")

    def advance(self, size: int) -> None:
        """So many of them are done."""
        self._progress.advance(self._task, size)


class Lines:
    """A line for each stage, where nobody looks."""

    def stage(self, text: str) -> None:
        """What begins now."""
        err.print(text, markup=False, soft_wrap=True)

    def begin(self, total: int) -> None:
        """So many bytes more."""
        if total:
            self.stage(f"rewriting {show_size(total)}")

    def advance(self, size: int) -> None:
        """Not worth a line."""


@contextmanager
def open_progress() -> Iterator[Bar | Lines]:
    """For the block; on the standard error output."""
    if not err.is_terminal:
        yield Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        yield Bar(progress)


def watching(job: Compaction, topics: Sequence[str], pause: float) -> Iterator[CompactionReport]:
    """The report of each run, without end; an outage is a line."""
    return watch(job, topics, pause, print_error)


def show_plan(plans: Sequence[Plan], file: str | None) -> None:
    """What would be rewritten."""
    headings = (
        "topic", "partition", "from", "to", "extents", "read", "aborted", "expired", "tasks",
        "by key",
    )  # fmt: skip
    rows = [
        (
            found.topic,
            found.partition,
            found.first_offset,
            found.end_offset,
            found.extents,
            found.live_bytes,
            found.aborted_bytes,
            found.expired_bytes,
            -(-found.live_bytes // plan.task_bytes),
            "yes" if found.is_cleaned else "no",
        )
        for plan in plans
        for found in plan.ranges
    ]
    if file is not None:
        _write([dict(zip(headings, row, strict=True)) for row in rows], file)
    if file != "-":
        table(headings, rows, title="bytes; nothing was changed")


def show_report(report: CompactionReport, prices: Prices, file: str | None) -> None:
    """A table for people, lines for scripts; JSON into `file`, which is the output as "-"."""
    for trouble in report.failed:
        print_error(_named(trouble))
    if file is not None:
        _write(report.as_json(prices), file)
    if file == "-":
        return
    headings = ("topic", "bytes", "objects", "extents", "dead ranges", "metadata bytes")
    changed = [each for each in report.topics if each.before != each.after]
    everything = [("all", report.total.before, report.total.after)]
    rows = [(each.topic, each.before, each.after) for each in changed] + everything
    table(headings, ((name, *_change(before, after)) for name, before, after in rows))
    for line in _summary(report, prices):
        out.print(line, markup=False, soft_wrap=True)


def _change(before: Size, after: Size) -> Iterator[str]:
    for name in ("bytes", "objects", "extents", "dead_ranges", "metadata_bytes"):
        old, new = getattr(before, name), getattr(after, name)
        if is_for_people():
            show = show_size if name == "bytes" else str
            yield f"{show(old)} → {show(new)}" if old != new else show(old)
        else:
            yield f"{old}>{new}"


def _summary(report: CompactionReport, prices: Prices) -> Iterator[str]:
    work = report.work
    yield (
        f"{work.partitions} partitions compacted in {report.seconds:.1f} s by {work.tasks} tasks; "
        f"read {show_size(work.bytes_read)}, wrote {show_size(work.bytes_written)}; not read: "
        f"{show_size(work.aborted_bytes_not_read)} aborted, "
        f"{show_size(work.expired_bytes_not_read)} expired"
    )
    saved = prices.of_a_month(report.total.before.bytes - report.total.after.bytes)
    yield (
        f"{work.puts} PUTs, {work.gets} GETs: ${report.request_dollars(prices):.6f}; storage: "
        f"${abs(saved):.6f} {'more' if saved < 0 else 'less'} a month ({prices.source})"
    )
    for trouble in report.refused:
        yield f"left as it was: {_named(trouble)}"


def _named(trouble: Trouble) -> str:
    return f"{trouble.topic}-{trouble.partition}: {trouble.reason}"


def _write(found: Any, file: str) -> None:
    text = json.dumps(found, indent=2)
    if file == "-":
        typer.echo(text)
    else:
        Path(file).write_text(f"{text}\n")
