"""The extents of one partition, and the ranges of aborted records among them, as columns.

Extents are many, so they are arrays and not objects. The control plane keeps one table per partition as
its truth; an agent keeps the same table as its view, fed by deltas. Offsets are log offsets, positions and
sizes are bytes in an object. See docs/adr/0001-flat-extents.md for why a run is an extent.
"""

from array import array
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Final

from controlplane.v1.log_pb2 import Extents

FLAG_LOG_APPEND_TIME: Final = 1
FLAG_TRUE_OFFSETS: Final = 2

#: column name -> typecode, in the order of the message's fields.
COLUMNS: Final = {
    "lease_ids": "q",
    "sequences": "q",
    "positions": "q",
    "sizes": "q",
    "base_offsets": "q",
    "next_offsets": "q",
    "max_timestamps": "q",
    "producer_ids": "q",
    "producer_epochs": "h",
    "transactions": "q",
    "flags": "B",
}


_columns_of: Final = attrgetter(*COLUMNS)


class ExtentTable:
    """Extents ordered by base_offset, one array a column; gaps between neighbours are holes."""

    __slots__ = tuple(COLUMNS)

    lease_ids: "array[int]"
    sequences: "array[int]"
    positions: "array[int]"
    sizes: "array[int]"
    base_offsets: "array[int]"
    next_offsets: "array[int]"
    max_timestamps: "array[int]"
    producer_ids: "array[int]"
    producer_epochs: "array[int]"
    transactions: "array[int]"
    flags: "array[int]"

    def __init__(self) -> None:
        for name, typecode in COLUMNS.items():
            setattr(self, name, array(typecode))

    def __len__(self) -> int:
        return len(self.base_offsets)

    def append(self, extents: Extents) -> None:
        """Adds extents at the end; they must begin at or after the last one's next_offset."""
        if (
            len(self)
            and len(extents.base_offsets)
            and extents.base_offsets[0] < self.next_offsets[-1]
        ):
            raise ValueError(
                f"extent at offset {extents.base_offsets[0]} overlaps the end {self.next_offsets[-1]}"
            )
        if (
            len(extents.base_offsets) == 1
        ):  # nearly always; extending by one costs several times more
            for column, values in zip(_columns_of(self), _columns_of(extents), strict=True):
                column.append(values[0])
            return
        for column, values in zip(_columns_of(self), _columns_of(extents), strict=True):
            column.extend(values)

    def first_ending_after(self, offset: int) -> int:
        """Index of the first extent whose next_offset is greater than `offset` (len(self) if none)."""
        return bisect_right(self.next_offsets, offset)

    def first_at_or_after(self, offset: int) -> int:
        """Index of the first extent whose base_offset is at or after `offset`."""
        return bisect_left(self.base_offsets, offset)

    def slice(self, start: int, stop: int) -> Extents:
        """The extents with index in [start, stop), as a message."""
        return Extents(**{name: getattr(self, name)[start:stop] for name in COLUMNS})

    def replace(self, first_offset: int, end_offset: int, extents: Extents) -> None:
        """Puts `extents` in the place of those that lie in [first_offset, end_offset)."""
        start, stop = self.range_of(first_offset, end_offset)
        for name, typecode in COLUMNS.items():
            getattr(self, name)[start:stop] = array(typecode, getattr(extents, name))

    def range_of(self, first_offset: int, end_offset: int) -> tuple[int, int]:
        """Indexes (start, stop) of the extents that lie in [first_offset, end_offset)."""
        start = self.first_at_or_after(first_offset)
        return start, max(start, self.first_at_or_after(end_offset))

    def drop_below(self, offset: int) -> Extents:
        """Removes and returns the extents that end at or below `offset`."""
        stop = self.first_ending_after(offset)
        dropped = self.slice(0, stop)
        for name in COLUMNS:
            del getattr(self, name)[:stop]
        return dropped


class DeadRanges:
    """Disjoint, ordered ranges [first, end) of aborted records; neighbours that touch are one range."""

    __slots__ = ("ends", "firsts")

    def __init__(self) -> None:
        self.firsts: array[int] = array("q")
        self.ends: array[int] = array("q")

    def __len__(self) -> int:
        return len(self.firsts)

    def add(self, first: int, end: int) -> None:
        """Adds [first, end), merging it with what it touches or overlaps."""
        start = bisect_left(self.ends, first)
        stop = bisect_right(self.firsts, end)
        if start < stop:
            first = min(first, self.firsts[start])
            end = max(end, self.ends[stop - 1])
        self.firsts[start:stop] = array("q", (first,))
        self.ends[start:stop] = array("q", (end,))

    def remove(self, first: int, end: int) -> None:
        """Takes [first, end) out; a range that reaches over an edge is cut there."""
        start = bisect_right(self.ends, first)
        stop = bisect_left(self.firsts, end)
        if start >= stop:
            return
        firsts, ends = array("q"), array("q")
        if self.firsts[start] < first:
            firsts.append(self.firsts[start])
            ends.append(first)
        if self.ends[stop - 1] > end:
            firsts.append(end)
            ends.append(self.ends[stop - 1])
        self.firsts[start:stop] = firsts
        self.ends[start:stop] = ends

    def drop_below(self, offset: int) -> None:
        """Takes out the ranges that end at or below `offset`; one that reaches over it stays whole.

        An extent that reaches over a log start stays whole too, and is dead in all of its length or in
        none: were its range cut, a merge would take it for a live one.
        """
        stop = bisect_right(self.ends, offset)
        del self.firsts[:stop], self.ends[:stop]

    def skip(self, offset: int) -> int:
        """The end of the range that holds `offset`, or `offset` itself where it is not dead."""
        index = bisect_right(self.firsts, offset) - 1
        if index >= 0 and self.ends[index] > offset:
            return self.ends[index]
        return offset

    def between(self, first: int, end: int) -> list[tuple[int, int]]:
        """The ranges that meet [first, end), whole, in order."""
        start = bisect_right(self.ends, first)
        stop = bisect_left(self.firsts, end)
        return list(zip(self.firsts[start:stop], self.ends[start:stop], strict=True))
