"""Finds the stretches in memory that hold a plan's pieces, by partition and offset.

Entries are ranges of offsets, so the cost of a stretch does not depend on its number of pieces. A piece is identified
by its place in the bucket, since an extent may be swapped for another one with the same offsets.
"""

import sys
from bisect import bisect_left, bisect_right

from lacuna.agent.fetch.stretch import Stretch
from lacuna.controlplane.shared.log.pieces import Pieces
from lacuna.controlplane.shared.partitions import PartitionKey


class Stretches:
    """Stretches from any number of partitions. If several cover an offset, `find` considers only the one added last."""

    def __init__(self) -> None:
        self._ranges: dict[PartitionKey, _Ranges] = {}

    def __len__(self) -> int:
        return sum(len(ranges.begins) for ranges in self._ranges.values())

    def find(
        self, partition: PartitionKey, pieces: Pieces, index: int
    ) -> tuple[Stretch, int] | None:
        """Return the stretch that holds pieces[index] and the piece's index in it, or None."""
        ranges = self._ranges.get(partition)
        if ranges is None:
            return None
        at = ranges.index_of(pieces.base_offsets[index])
        if at is None:
            return None
        stretch = ranges.stretches[at]
        first = stretch.index_of(pieces, index)
        return None if first is None else (stretch, first)

    def next_after(self, partition: PartitionKey, offset: int) -> int:
        """Return the smallest offset after `offset` at which a piece may be found, or sys.maxsize if there is none."""
        ranges = self._ranges.get(partition)
        return sys.maxsize if ranges is None else ranges.next_after(offset)

    def put(self, stretch: Stretch) -> None:
        ranges = self._ranges.get(stretch.partition)
        if ranges is None:
            ranges = self._ranges[stretch.partition] = _Ranges()
        ranges.put(stretch)

    def drop(self, stretch: Stretch) -> None:
        """Remove a stretch, except at offsets where later stretches cover it."""
        ranges = self._ranges.get(stretch.partition)
        if ranges is not None:
            ranges.drop(stretch)
            if not ranges.begins:
                del self._ranges[stretch.partition]


class _Ranges:
    """Disjoint ranges of offsets in ascending order. The range [begins[i], ends[i]) belongs to stretches[i]."""

    __slots__ = ("begins", "ends", "stretches")

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.stretches: list[Stretch] = []

    def index_of(self, offset: int) -> int | None:
        at = bisect_right(self.begins, offset) - 1
        return at if at >= 0 and offset < self.ends[at] else None

    def next_after(self, offset: int) -> int:
        following = bisect_right(self.begins, offset)
        at = self.index_of(offset)
        if at is not None:
            bases = self.stretches[at].pieces.base_offsets
            index = bisect_right(bases, offset)
            if index < len(bases) and bases[index] < self.ends[at]:
                return bases[index]
        return self.begins[following] if following < len(self.begins) else sys.maxsize

    def put(self, stretch: Stretch) -> None:
        begin, end = stretch.first_offset, stretch.next_offset
        start, stop = bisect_right(self.ends, begin), bisect_left(self.begins, end)
        begins, ends, stretches = [begin], [end], [stretch]
        if start < stop and self.begins[start] < begin:
            begins.insert(0, self.begins[start])
            ends.insert(0, begin)
            stretches.insert(0, self.stretches[start])
        if start < stop and self.ends[stop - 1] > end:
            begins.append(end)
            ends.append(self.ends[stop - 1])
            stretches.append(self.stretches[stop - 1])
        self._replace(start, stop, begins, ends, stretches)

    def drop(self, stretch: Stretch) -> None:
        start = bisect_right(self.ends, stretch.first_offset)
        stop = bisect_left(self.begins, stretch.next_offset)
        kept = [at for at in range(start, stop) if self.stretches[at] is not stretch]
        self._replace(
            start,
            stop,
            [self.begins[at] for at in kept],
            [self.ends[at] for at in kept],
            [self.stretches[at] for at in kept],
        )

    def _replace(
        self, start: int, stop: int, begins: list[int], ends: list[int], stretches: list[Stretch]
    ) -> None:
        self.begins[start:stop] = begins
        self.ends[start:stop] = ends
        self.stretches[start:stop] = stretches
