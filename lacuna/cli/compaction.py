"""The output of `lacuna compact`: the plan and the report."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from lacuna.cli.console import is_for_people, paragraph, table
from lacuna.cli.errors import print_error
from lacuna.cli.units import show_count, show_size
from lacuna.logstore.objects.prices import Prices
from lacuna.pipeline.compaction.job import RewritePlan
from lacuna.pipeline.compaction.report import CompactionReport, Size, Trouble, Work


def show_plan(plans: Sequence[RewritePlan], file: str | None) -> None:
    """Prints the plan as a table and, if `file` is given, writes it there as JSON. "-" prints only the JSON."""
    headings = (
        "topic", "partition", "from", "to", "extents", "read", "aborted", "expired", "tasks",
        "by key",
    )  # fmt: skip
    rows = [
        (
            each.topic,
            each.partition,
            each.first_offset,
            each.end_offset,
            each.extents,
            each.live_bytes,
            each.aborted_bytes,
            each.expired_bytes,
            -(-each.live_bytes // plan.task_bytes),
            "yes" if each.is_cleaned else "no",
        )
        for plan in plans
        for each in plan.ranges
    ]
    if file is not None:
        _write([dict(zip(headings, row, strict=True)) for row in rows], file)
    if file != "-":
        shown = rows if not is_for_people() else [_with_units(headings, row) for row in rows]
        table(headings, shown, title="Plan only; nothing was changed")


def _with_units(headings: Sequence[str], row: Sequence[Any]) -> list[Any]:
    sizes = ("read", "aborted", "expired")
    return [
        show_size(cell) if name in sizes else cell for name, cell in zip(headings, row, strict=True)
    ]


def show_report(report: CompactionReport, prices: Prices | None, file: str | None) -> None:
    """Prints a table for people or lines for scripts and, if `file` is given, writes JSON there. "-" prints only JSON.

    Costs are included only if there are `prices`.
    """
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
        paragraph(line)


def _change(before: Size, after: Size) -> Iterator[str]:
    for name in ("bytes", "objects", "extents", "dead_ranges", "metadata_bytes"):
        old, new = getattr(before, name), getattr(after, name)
        if is_for_people():
            show = show_size if name == "bytes" else str
            yield f"{show(old)} → {show(new)}" if old != new else show(old)
        else:
            yield f"{old}>{new}"


def _summary(report: CompactionReport, prices: Prices | None) -> Iterator[str]:
    work = report.work
    yield (
        f"{show_count(work.partitions, 'partition')} compacted in {report.seconds:.1f} s by "
        f"{show_count(work.tasks, 'task')}; "
        f"read {show_size(work.bytes_read)}{_between(work)}, wrote "
        f"{show_size(work.bytes_written)}; not read: "
        f"{show_size(work.aborted_bytes_not_read)} aborted, "
        f"{show_size(work.expired_bytes_not_read)} expired"
    )
    if prices is not None:
        saved = prices.of_a_month(report.total.before.bytes - report.total.after.bytes)
        yield (
            f"{show_count(work.puts, 'PUT')}, {show_count(work.gets, 'GET')}: "
            f"${report.request_dollars(prices):.6f}; storage: "
            f"${abs(saved):.6f} {'more' if saved < 0 else 'less'} a month ({prices.source})"
        )
    for trouble in report.refused:
        yield f"not compacted: {_named(trouble)}"


def _between(work: Work) -> str:
    """Return a note about aborted bytes that were read because they lie between others, or "" if there were none."""
    size = work.bytes_between
    return f" ({show_size(size)} of it aborted, between committed records)" if size else ""


def _named(trouble: Trouble) -> str:
    return f"{trouble.topic}-{trouble.partition}: {trouble.reason}"


def _write(report: Any, file: str) -> None:
    text = json.dumps(report, indent=2)
    if file == "-":
        click.echo(text)
    else:
        Path(file).write_text(f"{text}\n")
