"""Reports an audit: tables and pictures for people, lines for scripts, JSON, or an HTML page."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.cells import cell_len
from rich.markup import escape
from rich.text import Text

from lacuna.cli.console import is_for_people, out, printable, table
from lacuna.cli.units import show_count, show_size
from lacuna.cli.verification_page import CELL_NAMES, page
from lacuna.pipeline.audit import Finding, PartitionReport, Report
from lacuna.pipeline.audit.picture import Cell

_STYLE: dict[Cell, str] = {
    Cell.COMMITTED: "green",
    Cell.COMPACTED: "cyan",
    Cell.ABORTED: "red",
    Cell.HOLE: "bright_black",
    Cell.UNDECIDED: "yellow",
    Cell.DAMAGED: "bold white on red",
}
_BLOCK: dict[Cell, str] = {Cell.HOLE: "░", Cell.DAMAGED: "X"}
_FIELDS = (
    "topic",
    "partition",
    "log_start_offset",
    "last_stable_offset",
    "high_watermark",
    "extents",
    "objects",
    "bytes",
    "committed",
    "aborted",
    "compacted",
    "undecided",
    "holes",
    "committed_records",
    "compacted_records",
    "findings",
    "picture",
)
_MOST_NOTES = 20


def print_report(report: Report) -> None:
    """Prints a report as tables and pictures or, for scripts, as tab-separated lines: one per partition or finding."""
    if not is_for_people():
        _print_lines(report)
        return
    _print_partitions(report.partitions)
    _print_pictures(report.partitions)
    for finding in report.errors:
        _print_finding(finding, "red")
    for finding in report.notes[:_MOST_NOTES]:
        _print_finding(finding, "yellow")
    if len(report.notes) > _MOST_NOTES:
        more = len(report.notes) - _MOST_NOTES
        out.print(f"and {more} more notes; --json lists all notes", style="yellow")
    for line in summary(report):
        out.print(line, markup=False)
    out.print(verdict(report), style="bold green" if report.is_sound else "bold red")


def summary(report: Report) -> list[str]:
    """Return lines that say how much was audited, and list the objects that no extent refers to."""
    rate = show_size(_rate(report.bytes_read, report.task_seconds))
    read = show_count(report.objects_checked, "object")
    lines = [
        f"cluster {report.cluster_id} in {report.store}",
        f"listed {show_count(report.objects, 'object')}, {show_size(report.bytes)}",
        f"read {read}, {show_size(report.bytes_read)} in {report.seconds:.1f} s",
    ]
    if report.task_seconds:
        lines.append(f"{report.task_seconds:.1f} s of task time: {rate} per second per core")
    left = report.unreferenced
    unreferenced = [
        f"{count} {what}"
        for count, what in (
            (left.replaced, "were replaced and will be deleted by collection"),
            (
                left.of_the_living,
                "are being written or were replaced (their writers are still running)",
            ),
            (left.garbage, f"were never committed ({show_size(left.garbage_bytes)})"),
        )
        if count
    ]
    if unreferenced:
        lines.append(f"objects that no extent refers to: {', '.join(unreferenced)}")
    if report.unreferenced_batch_bytes:
        lines.append(
            f"{show_size(report.unreferenced_batch_bytes)} of batches belong to no extent: they were "
            "rejected, replaced or deleted"
        )
    if report.unsettled:
        lines.append(
            f"in {report.unsettled} partitions, the last stable offset moved on every read, so it was not "
            "compared with the ongoing transactions"
        )
    return [*lines, *report.remarks]


def verdict(report: Report) -> str:
    """Return the last line of the report: whether the bucket is sound, and how many findings and notes there are."""
    notes = len(report.notes) + report.notes_left_out
    noted = f", {show_count(notes, 'note')}" if notes else ""
    if report.is_sound:
        return f"all is sound{noted}"
    errors = len(report.errors) + report.errors_left_out
    hidden = f" ({report.errors_left_out} are not shown)" if report.errors_left_out else ""
    return f"something is wrong: {show_count(errors, 'finding')}{hidden}{noted}"


def write_json(report: Report, path: Path) -> None:
    """Writes the report as JSON to `path`; "-" is standard output."""
    text = json.dumps(report.as_json(), indent=2)
    if str(path) == "-":
        click.echo(text)
    else:
        path.write_text(text + "\n")


def write_html(report: Report, path: Path) -> None:
    """Writes the report as one self-contained HTML page."""
    path.write_text(page(report, summary(report), verdict(report)), encoding="utf-8")


def _print_partitions(partitions: Iterable[PartitionReport]) -> None:
    rows = [
        (
            each.topic,
            each.partition,
            f"{each.log_start_offset}-{each.high_watermark}",
            each.extents,
            each.objects,
            show_size(each.bytes),
            each.committed,
            each.aborted,
            each.compacted,
            each.holes,
            each.undecided,
            _records(each),
            *(() if each.keys is None else (each.keys.distinct_keys,)),
            each.findings,
        )
        for each in partitions
    ]
    keys = ("keys",) if rows and len(rows[0]) > _WIDTH else ()
    if keys:
        rows = [row if len(row) > _WIDTH else (*row[:-1], 0, row[-1]) for row in rows]
    table((*_HEADINGS, *keys, "findings"), rows, title="Partitions (numbers of offsets)")


_HEADINGS = (
    "topic", "partition", "offsets", "extents", "objects", "bytes", "committed", "aborted",
    "compacted", "holes", "undecided", "records",
)  # fmt: skip
_WIDTH = len(_HEADINGS) + 1


def _records(each: PartitionReport) -> str:
    if each.committed_records is None or each.compacted_records is None:
        return "not read"
    return str(each.committed_records + each.compacted_records)


def _print_pictures(partitions: Iterable[PartitionReport]) -> None:
    drawn = [each for each in partitions if each.picture]
    if not drawn:
        return
    legend = Text("Picture: ")
    for cell in Cell:
        legend.append(_BLOCK.get(cell, "█"), _STYLE[cell])
        legend.append(f" {CELL_NAMES[cell]}  ")
    out.print(legend)
    names = [f"{printable(each.topic)} [{each.partition}]" for each in drawn]
    width = max(map(cell_len, names))
    is_wide = width + 1 + max(len(each.picture) for each in drawn) > out.width
    for name, each in zip(names, drawn, strict=True):
        if is_wide:
            out.print(name, markup=False, soft_wrap=True)
        line = Text("  " if is_wide else name + " " * (width + 1 - cell_len(name)))
        for letter in each.picture:
            cell = Cell(letter)
            line.append(_BLOCK.get(cell, "█"), _STYLE[cell])
        out.print(line, soft_wrap=True)


def _print_finding(finding: Finding, style: str) -> None:
    out.print(
        f"[{style}]{'note' if finding.is_note else 'FOUND'}[/] {escape(str(finding))}",
        soft_wrap=True,
    )
    out.print(f"      {escape(finding.advice)}", style="dim", soft_wrap=True)


def _print_lines(report: Report) -> None:
    lines: list[Iterable[Any]] = [_FIELDS]
    lines += [[_cell(getattr(each, name)) for name in _FIELDS] for each in report.partitions]
    for line in lines:
        click.echo("\t".join(str(cell) for cell in line))
    legend = ", ".join(f"{cell} {CELL_NAMES[cell]}" for cell in Cell)
    click.echo(f"# picture: {legend}")
    for finding in report.findings:
        click.echo(f"# {'note' if finding.is_note else 'FOUND'}\t{finding}\t{finding.advice}")
    for line in (*summary(report), verdict(report)):
        click.echo(f"# {line}")


def _cell(value: object) -> object:
    return "" if value is None else value


def _rate(size: int, seconds: float) -> int:
    return int(size / seconds) if seconds else 0
