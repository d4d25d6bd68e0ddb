"""Renders an audit's report as a single static HTML page, which loads no scripts or other files."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Final

from lacuna.pipeline.audit import Finding, PartitionReport, Report
from lacuna.pipeline.audit.picture import Cell

_COLOUR: Final[dict[Cell, str]] = {
    Cell.COMMITTED: "#2e9e5b",
    Cell.COMPACTED: "#2b8fb3",
    Cell.ABORTED: "#d1495b",
    Cell.HOLE: "#d9d9d9",
    Cell.UNDECIDED: "#e6b422",
    Cell.DAMAGED: "#a4189b",
}
CELL_NAMES: Final[dict[Cell, str]] = {
    Cell.COMMITTED: "committed",
    Cell.COMPACTED: "compacted",
    Cell.ABORTED: "aborted",
    Cell.HOLE: "hole",
    Cell.UNDECIDED: "undecided",
    Cell.DAMAGED: "affected by a finding",
}
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8883; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .2rem 0; } .verdict { font-weight: 600; padding: .5rem .8rem; border-radius: .3rem; }
.sound { background: #2e9e5b33; } .wrong { background: #d1495b33; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th { font-weight: 600; white-space: nowrap; } th:first-child, td:first-child { text-align: left; }
tr.numbers td { border-bottom: 0; padding-bottom: 0; }
svg { display: block; width: 100%; height: 1.1rem; border-radius: .15rem; }
ul { list-style: none; padding: 0; margin: 0; }
li { padding: .5rem .8rem; margin: .4rem 0; background: var(--soft); border-radius: .3rem; }
li { overflow-wrap: anywhere; }
.legend span { margin-right: 1.2rem; white-space: nowrap; }
.legend i { display: inline-block; width: .9rem; height: .9rem; margin-right: .35rem; }
.legend i { vertical-align: -.1rem; border-radius: .15rem; }
small { opacity: .75; }
"""
#: The attributes of a partition that have their own columns.
_NUMBERS: Final = (
    "extents", "objects", "bytes", "committed", "aborted", "compacted", "holes", "undecided",
    "findings",
)  # fmt: skip
_HEADINGS: Final = ("partition", "offsets", *_NUMBERS)


def page(report: Report, summary: Iterable[str], verdict: str) -> str:
    """Return the page as HTML. `summary` and `verdict` are plain text."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in summary)
    kind = "sound" if report.is_sound else "wrong"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Audit of {escape(report.cluster_id)}</title><style>{_STYLE}</style>"
        f"<h1>Audit of cluster {escape(report.cluster_id)}</h1>"
        f'<p class="verdict {kind}">{escape(verdict)}</p>{lines}'
        f"{_findings('Findings', report.errors)}{_findings('Notes', report.notes)}"
        f"<h2>Partitions</h2>{_legend()}{_table(report.partitions)}</html>\n"
    )


def _findings(title: str, findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    items = "".join(
        f"<li>{escape(str(each))}<br><small>{escape(each.advice)}</small></li>" for each in findings
    )
    return f"<h2>{title}</h2><ul>{items}</ul>"


def _legend() -> str:
    cells = "".join(
        f'<span><i style="background:{_COLOUR[cell]}"></i>{CELL_NAMES[cell]}</span>'
        for cell in Cell
    )
    return f'<p class="legend">{cells}</p>'


def _table(partitions: Iterable[PartitionReport]) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    rows = "".join(_row(each) for each in partitions)
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _row(each: PartitionReport) -> str:
    numbers = (
        f"{each.log_start_offset:,} to {each.high_watermark:,}",
        *(f"{getattr(each, name):,}" for name in _NUMBERS),
    )
    cells = "".join(f"<td>{number}</td>" for number in numbers)
    name = f"<td>{escape(each.topic)} [{each.partition}]</td>"
    picture = f'<tr><td colspan="{len(_HEADINGS)}">{_picture(each.picture)}</td></tr>'
    return f'<tr class="numbers">{name}{cells}</tr>{picture}'


def _picture(line: str) -> str:
    if not line:
        return ""
    parts, at = [], 0
    for letter, run in groupby(line):
        width = len(list(run))
        cell = Cell(letter)
        parts.append(
            f'<rect x="{at}" width="{width}" height="1" fill="{_COLOUR[cell]}">'
            f"<title>{CELL_NAMES[cell]}</title></rect>"
        )
        at += width
    return (
        f'<svg viewBox="0 0 {len(line)} 1" preserveAspectRatio="none" role="img" '
        f'shape-rendering="crispEdges">{"".join(parts)}</svg>'
    )
