"""A partition as one line: what lies where between its log start and its high watermark; pure."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.audit.logs import holes_of
from pipeline.audit.tables import Fate, rows_of
from pipeline.extents import PartitionLog


class Cell(StrEnum):
    """What a place of the line shows; the letter is what is printed where there are no colours."""

    COMMITTED = "C"
    ABORTED = "A"
    COMPACTED = "M"
    UNDECIDED = "U"
    HOLE = "."
    DAMAGED = "X"


_CELL_OF: dict[Fate, Cell] = {
    Fate.COMMITTED: Cell.COMMITTED,
    Fate.ABORTED: Cell.ABORTED,
    Fate.COMPACTED: Cell.COMPACTED,
    Fate.UNDECIDED: Cell.UNDECIDED,
}
#: Extents with holes in them, in order: base offset, next offset, how many offsets have no record.
Sparse: TypeAlias = NDArray[np.int64]
NOT_SPARSE: Final = np.empty((0, 3), np.int64)
#: Of kinds that take as many offsets of a place the first is shown.
_SHOWN: tuple[Cell, ...] = (
    Cell.UNDECIDED,
    Cell.ABORTED,
    Cell.HOLE,
    Cell.COMMITTED,
    Cell.COMPACTED,
)


def draw(
    log: PartitionLog, damaged: Iterable[tuple[int, int]], width: int, sparse: Sparse = NOT_SPARSE
) -> str:
    """`width` letters of `Cell`, fewer where there are fewer offsets; empty for an empty partition.

    A place shows what most of its offsets are; damage is shown however little it is. `damaged` are
    offsets [first, end). Where in a sparse extent its holes are is not known: as many of its places
    show holes as there are, one here and one there.
    """
    offsets = log.high_watermark - log.log_start_offset
    width = min(width, max(offsets, 0))
    if not width:
        return ""
    edges = log.log_start_offset + (np.arange(width + 1, dtype=np.int64) * offsets) // width
    rows = rows_of(log)
    shares: dict[Cell, NDArray[np.float64]] = {}
    for fate, cell in _CELL_OF.items():
        own = rows[rows["fate"] == fate]
        shares[cell] = _covered(own["base_offset"], own["next_offset"], edges)
    holes = holes_of(log)
    shares[Cell.HOLE] = _covered(
        np.array([hole.first_offset for hole in holes], dtype=np.int64),
        np.array([hole.end_offset for hole in holes], dtype=np.int64),
        edges,
    )
    thinned = _covered(sparse[:, 0], sparse[:, 1], edges, sparse[:, 2])
    most = np.argmax(np.stack([shares[cell] for cell in _SHOWN]), axis=0)
    line = [_SHOWN[index] for index in most.tolist()]
    _thin(line, thinned / np.maximum(shares[Cell.COMPACTED], 1))
    for first, end in damaged:
        start = int(np.searchsorted(edges, max(first, int(edges[0])), side="right")) - 1
        stop = int(np.searchsorted(edges, end, side="left"))
        for index in range(max(start, 0), min(stop, width)):
            line[index] = Cell.DAMAGED
    return "".join(line)


def _thin(line: list[Cell], shares: NDArray[np.float64]) -> None:
    """Of what is compacted, makes such shares holes, spread evenly."""
    due = 0.0
    for index, share in enumerate(shares.tolist()):
        if line[index] is Cell.COMPACTED:
            due += share
            if due >= 1 / 2:
                line[index] = Cell.HOLE
                due -= 1


def _covered(
    firsts: NDArray[np.int64],
    ends: NDArray[np.int64],
    edges: NDArray[np.int64],
    counts: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """How many offsets of each place lie in these ranges, which are in order and apart.

    Or, with `counts`, how many of so many that are spread evenly over each range.
    """
    if not len(firsts):
        return np.zeros(len(edges) - 1)
    sizes = ends - firsts
    counts = sizes if counts is None else counts
    before = np.concatenate(([0], np.cumsum(counts)))
    index = np.searchsorted(firsts, edges, side="right") - 1
    at = np.maximum(index, 0)
    within = np.clip(edges - firsts[at], 0, sizes[at]) * (counts[at] / sizes[at])
    total = np.where(index >= 0, before[at] + within, 0)
    return np.diff(total.astype(np.float64))
