"""`lacuna explain`: shows the records that a read_committed consumer receives from a partition, and why."""

from collections.abc import Sequence
from typing import Annotated

import click

from lacuna.cli.command_line import argument, option
from lacuna.cli.console import asynchronous, is_for_people, out, print_table, printable, table
from lacuna.cli.errors import fail
from lacuna.cli.options import AskedPlace
from lacuna.controlplane.shared.log.fates import Fate
from lacuna.operating.control import open_control
from lacuna.operating.explained import Explanation, Line, explain_partition

_STYLE: dict[Fate, str] = {
    Fate.DELIVERED: "green",
    Fate.DROPPED: "red",
    Fate.HOLE: "dim",
    Fate.FILLER: "cyan",
    Fate.UNDECIDED: "yellow",
}
_FIELDS = ("first_offset", "end_offset", "what", "hole_end", "whose", "bytes", "extents", "object")


@asynchronous
async def explain(
    topic: Annotated[str, argument(help="Name of the topic.")],
    place: AskedPlace,
    partition: Annotated[int, argument(help="The partition.", min=0)] = 0,
    first: Annotated[
        int | None,
        option("--from", min=0, help="First offset to show. Default: the start of the log."),
    ] = None,
    end: Annotated[
        int | None,
        option("--to", min=0, help="Offset before which to stop. Default: the end of the log."),
    ] = None,
    limit: Annotated[int, option("--limit", "-n", min=1, help="Maximum number of rows.")] = 100,
) -> None:
    """Shows which records of a partition a read_committed consumer receives, and why.

    The output lists the offsets that are delivered, the offsets that were dropped and the transaction that dropped
    them, and where the consumer continues after each hole. The command queries the control plane through an agent, and
    changes nothing. If the output is not a terminal, the columns are separated by tabs.
    """
    if first is not None and end is not None and first > end:
        fail(f"--from {first} is greater than --to {end}: swap them")
    async with open_control(place.control, place.data, place.bootstrap) as client:
        explanation = await explain_partition(client, topic, partition, first, end, limit)
    show(explanation)


def show(explanation: Explanation) -> None:
    """Prints an explanation for people or programs. If rows were omitted, says how to show them."""
    if is_for_people():
        print_explanation(explanation)
    else:
        table(_FIELDS, (_fields(line, explanation) for line in explanation.lines))
    if explanation.more_from >= 0:
        rest = (
            f"there are more rows: continue with --from {explanation.more_from}, or show more rows with "
            "--limit"
        )
        click.echo(rest, err=True)


def print_explanation(explanation: Explanation) -> None:
    title = (
        f"{explanation.topic} [{explanation.partition}]: what a read_committed consumer receives"
    )
    print_table(
        ("offsets", "what", "whose", "bytes", "object"),
        [_row(line, explanation) for line in explanation.lines],
        title=title,
        styles=[_STYLE[line.row.fate] for line in explanation.lines],
    )
    bounds = (
        f"log start {explanation.log_start_offset}, "
        f"last stable offset {explanation.last_stable_offset}, "
        f"high watermark {explanation.high_watermark}"
    )
    out.print(bounds, style="dim", soft_wrap=True)


def _fields(line: Line, explanation: Explanation) -> Sequence[object]:
    row = line.row
    return (
        row.first_offset,
        row.next_offset,
        row.fate.value,
        line.hole_end if line.hole_end >= 0 else None,
        owner(line, explanation.transactional_ids),
        row.size,
        line.extents if row.segment else 0,
        row.segment,
    )


def _row(line: Line, explanation: Explanation) -> Sequence[str]:
    row = line.row
    return (
        _offsets(row.first_offset, row.next_offset),
        _what(line, explanation.last_stable_offset),
        owner(line, explanation.transactional_ids),
        str(row.size) if row.size else "",
        row.segment if line.extents == 1 else f"{row.segment} +{line.extents - 1}",
    )


def owner(line: Line, transactional_ids: dict[int, str]) -> str:
    """Return the transactional id, or else the producer id, of the producer that wrote a row's records."""
    row = line.row
    if row.is_merged:
        return "unknown, because merged"
    if not row.transaction:
        return "" if row.fate in (Fate.HOLE, Fate.FILLER) else "no transaction"
    name = printable(transactional_ids.get(row.producer_id, f"producer {row.producer_id}"))
    return f"{name}, transaction {row.transaction}"


def _offsets(first: int, end: int) -> str:
    return str(first) if end == first + 1 else f"{first}-{end - 1}"


def _what(line: Line, last_stable_offset: int) -> str:
    goes_on = f"; continues at {line.hole_end}"
    match line.row.fate:
        case Fate.DELIVERED:
            return "delivered"
        case Fate.DROPPED:
            return f"dropped: aborted{goes_on}"
        case Fate.HOLE:
            return f"hole: no records remain here{goes_on}"
        case Fate.FILLER:
            end = line.row.next_offset
            return f"filler: a control record that moves the consumer on to {end}"
    return f"not yet readable: at or above the last stable offset, {last_stable_offset}"
