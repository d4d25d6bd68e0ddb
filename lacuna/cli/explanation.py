"""An explanation for people (a table) and for scripts (tab-separated lines)."""

import typer
from rich.markup import escape
from rich.table import Table

from agent.fetch.explain import Fate
from lacuna.cli.console import is_for_people, out, printable
from lacuna.explained import Explanation, Stretch

_STYLE: dict[Fate, str] = {
    Fate.DELIVERED: "green",
    Fate.DROPPED: "red",
    Fate.HOLE: "dim",
    Fate.FILLER: "cyan",
    Fate.UNDECIDED: "yellow",
}
_FIELDS = ("first_offset", "end_offset", "what", "hole_end", "whose", "bytes", "extents", "object")


def show(explanation: Explanation) -> None:
    """Prints an explanation, and says how to go on where it is not whole."""
    if is_for_people():
        print_table(explanation)
    else:
        _print_lines(explanation)
    if explanation.more_from >= 0:
        rest = (
            f"there is more: --from {explanation.more_from} goes on there, --limit shows more rows"
        )
        typer.echo(rest, err=True)


def print_table(explanation: Explanation) -> None:
    """Prints the explanation for people."""
    title = f"{explanation.topic} [{explanation.partition}]: what read_committed gets"
    out.print(title, style="bold", markup=False, soft_wrap=True)
    out.print(_table(explanation))
    bounds = (
        f"log start {explanation.log_start_offset}, "
        f"last stable offset {explanation.last_stable_offset}, "
        f"high watermark {explanation.high_watermark}"
    )
    out.print(bounds, style="dim", soft_wrap=True)


def _table(explanation: Explanation) -> Table:
    table = Table(header_style="bold")
    for heading in ("offsets", "what", "whose", "bytes", "object"):
        is_number = heading in ("offsets", "bytes")
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for stretch in explanation.stretches:
        row = stretch.row
        table.add_row(
            _offsets(row.first_offset, row.next_offset),
            _what(stretch, explanation.last_stable_offset),
            escape(owner(stretch, explanation.transactional_ids)),
            str(row.size) if row.size else "",
            row.segment if stretch.extents == 1 else f"{row.segment} +{stretch.extents - 1}",
            style=_STYLE[row.fate],
        )
    return table


def owner(stretch: Stretch, transactional_ids: dict[int, str]) -> str:
    """Whose records a row is about: the transactional id, or the producer id where that is gone."""
    row = stretch.row
    if not row.transaction:
        return "" if row.fate in (Fate.HOLE, Fate.FILLER) else "no transaction"
    name = printable(transactional_ids.get(row.producer_id, f"producer {row.producer_id}"))
    return f"{name}, transaction {row.transaction}"


def _offsets(first: int, end: int) -> str:
    return str(first) if end == first + 1 else f"{first}-{end - 1}"


def _what(stretch: Stretch, last_stable_offset: int) -> str:
    goes_on = f"; goes on at {stretch.hole_end}"
    match stretch.row.fate:
        case Fate.DELIVERED:
            return "delivered"
        case Fate.DROPPED:
            return f"dropped: aborted{goes_on}"
        case Fate.HOLE:
            return f"hole: nothing is left here{goes_on}"
        case Fate.FILLER:
            end = stretch.row.next_offset
            return f"filler: a control record moves the consumer to {end}"
    return f"waits: not before the last stable offset, {last_stable_offset}"


def _print_lines(explanation: Explanation) -> None:
    typer.echo("\t".join(_FIELDS))
    for stretch in explanation.stretches:
        row = stretch.row
        cells = (
            row.first_offset,
            row.next_offset,
            row.fate.value,
            stretch.hole_end if stretch.hole_end >= 0 else "",
            owner(stretch, explanation.transactional_ids),
            row.size,
            stretch.extents if row.segment else 0,
            row.segment,
        )
        typer.echo("\t".join(str(cell) for cell in cells))
