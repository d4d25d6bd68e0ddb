"""Draws a partition as one line that shows the contents between its log start and its high watermark; pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from lacuna.pipeline.audit.logs import holes_of
from lacuna.pipeline.audit.tables import spans_of
from lacuna.pipeline.extents import PartitionLog


class Cell(StrEnum):
    """The content of one place in the line. Its letter is printed if there are no colours."""

    COMMITTED = "C"
    ABORTED = "A"
    COMPACTED = "M"
    UNDECIDED = "U"
    HOLE = "."
    DAMAGED = "X"


#: By `Outcome`.
_CELLS: Final = (Cell.COMMITTED, Cell.ABORTED, Cell.COMPACTED, Cell.UNDECIDED)


class Sparse(NamedTuple):
    """`held` offsets at unknown places in the range from `first_offset` to `end_offset` (exclusive)."""

    first_offset: int
    end_offset: int
    held: int


#: If several kinds have equally many offsets in a place, the first in this order is shown.
_SHOWN: tuple[Cell, ...] = (
    Cell.UNDECIDED,
    Cell.ABORTED,
    Cell.HOLE,
    Cell.COMMITTED,
    Cell.COMPACTED,
)


def draw(
    log: PartitionLog,
    damaged: Iterable[tuple[int, int]],
    width: int,
    sparse: Sequence[Sparse] = (),
) -> str:
    """The line as letters of `Cell`: `width` letters, or one per offset if there are fewer offsets.

    A place shows the kind of most of its offsets, but damage is always shown. `damaged` are ranges of offsets [first,
    end). `sparse` are extents, in order, in which offsets are missing. It is unknown where in an extent they are
    missing, so a matching share of the extent's places, evenly spread, is shown as holes.
    """
    offsets = log.high_watermark - log.log_start_offset
    width = min(width, max(offsets, 0))
    if not width:
        return ""
    edges = [log.log_start_offset + place * offsets // width for place in range(width + 1)]
    ranges: dict[Cell, list[Sparse]] = {cell: [] for cell in _SHOWN}
    for first, end, outcome in spans_of(log):
        ranges[_CELLS[outcome]].append(Sparse(first, end, end - first))
    for hole in holes_of(log):
        size = hole.end_offset - hole.first_offset
        ranges[Cell.HOLE].append(Sparse(hole.first_offset, hole.end_offset, size))
    shares = {cell: _covered(own, edges) for cell, own in ranges.items()}
    line = [max(_SHOWN, key=lambda cell: shares[cell][place]) for place in range(width)]
    thinned = zip(_covered(sparse, edges), shares[Cell.COMPACTED], strict=True)
    _thin(line, [holes / max(compacted, 1) for holes, compacted in thinned])
    for first, end in damaged:
        start = bisect_right(edges, max(first, edges[0])) - 1
        stop = bisect_left(edges, end)
        for index in range(max(start, 0), min(stop, width)):
            line[index] = Cell.DAMAGED
    return "".join(line)


def _thin(line: list[Cell], shares: Iterable[float]) -> None:
    """Turns the given shares of the compacted places into holes, spread evenly."""
    due = 0.0
    for index, share in enumerate(shares):
        if line[index] is Cell.COMPACTED:
            due += share
            if due >= 1 / 2:
                line[index] = Cell.HOLE
                due -= 1


def _covered(ranges: Sequence[Sparse], edges: Sequence[int]) -> list[float]:
    """How many offsets of the ranges lie in each place between two edges. The ranges must be in order and disjoint."""
    firsts = [each.first_offset for each in ranges]
    before = list(accumulate((each.held for each in ranges), initial=0))
    totals = []
    for edge in edges:
        index = bisect_right(firsts, edge) - 1
        total = float(before[max(index, 0)])
        if index >= 0:
            first, end, held = ranges[index]
            total += held * min(edge - first, end - first) / max(end - first, 1)
        totals.append(total)
    return [after - total for total, after in pairwise(totals)]
