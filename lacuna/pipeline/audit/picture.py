"""Draws the contents of a partition, from its log start to its high watermark, as a line of characters, without side
effects.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from lacuna.pipeline.audit.logs import holes_of
from lacuna.pipeline.audit.tables import spans_of
from lacuna.pipeline.extents import PartitionLog


class Cell(StrEnum):
    """The content that a character of the line shows. The letter is printed if colours are off."""

    COMMITTED = "C"
    ABORTED = "A"
    COMPACTED = "M"
    UNDECIDED = "U"
    HOLE = "."
    DAMAGED = "X"


#: Indexed by `Outcome`.
_CELLS: Final = (Cell.COMMITTED, Cell.ABORTED, Cell.COMPACTED, Cell.UNDECIDED)


class Sparse(NamedTuple):
    """A range [first_offset, end_offset) in which only `held` offsets have a record. It is not known which ones."""

    first_offset: int
    end_offset: int
    held: int


#: If several kinds are equally frequent in a place, the first one in this order is shown.
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
    """Returns a line of `Cell` letters: `width` of them, or one per offset if there are fewer offsets.

    Each letter shows the content of most of its offsets, except that damage is always shown. `damaged` lists ranges
    [first, end). `sparse` lists, in order, the extents in which some offsets are missing, at unknown places; a matching
    share of their letters, evenly spread, becomes holes.
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
    """Turns compacted letters into holes, evenly spread, according to the share of missing offsets in each."""
    due = 0.0
    for index, share in enumerate(shares):
        if line[index] is Cell.COMPACTED:
            due += share
            if due >= 1 / 2:
                line[index] = Cell.HOLE
                due -= 1


def _covered(ranges: Sequence[Sparse], edges: Sequence[int]) -> list[float]:
    """Returns how many offsets of the ranges, which must be sorted and disjoint, lie between consecutive edges."""
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
