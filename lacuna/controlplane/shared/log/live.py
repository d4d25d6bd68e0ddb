"""Finds live extents: those that no dead range covers (S14, S18).

No extent spans two transactions, so each is live or dead as a whole. Bisection finds the ends of runs, so the cost
depends on the number of runs rather than that of extents.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import compress, count
from typing import Final

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable

# The number of extents whose timestamps are compared in one step.
_STEP: Final = 1024


def dead_slices(
    extents: ExtentTable, dead: DeadRanges | None, start: int, stop: int
) -> Iterator[tuple[int, int]]:
    """Yield the (start, stop) indexes of each run of dead extents among those with index in [start, stop), in order.

    `dead` is None for read_uncommitted, for which all extents are live.
    """
    if dead is None or start >= stop:
        return
    bases, firsts, ends = extents.base_offsets, dead.firsts, dead.ends
    last = bases[stop - 1]
    for index in range(bisect_right(ends, bases[start]), len(firsts)):
        first_offset, end_offset = firsts[index], ends[index]
        if first_offset > last:
            return
        # If many short transactions follow each other, the search usually ends at one of the next extents.
        if bases[start] < first_offset:
            start += 1
            if bases[start] < first_offset:
                start = bisect_left(bases, first_offset, start, stop)
        if bases[start] >= end_offset:  # a range without extents
            continue
        end = start + 1
        if end < stop and bases[end] < end_offset:
            end = bisect_left(bases, end_offset, end, stop)
        yield start, end
        if end == stop:
            return
        start = end


def live_slices(
    extents: ExtentTable, dead: DeadRanges | None, start: int, stop: int
) -> Iterator[tuple[int, int]]:
    """Yield the (start, stop) indexes of each run of live extents among those with index in [start, stop), in order."""
    for first, end in dead_slices(extents, dead, start, stop):
        if start < first:
            yield start, first
        start = end
    if start < stop:
        yield start, stop


def runs(
    extents: ExtentTable, dead: DeadRanges | None, start: int, stop: int
) -> Iterator[tuple[int, int, bool]]:
    """Yield the extents with index in [start, stop) as runs (start, stop, is_live), in order."""
    for first, end in dead_slices(extents, dead, start, stop):
        if start < first:
            yield start, first, True
        yield first, end, False
        start = end
    if start < stop:
        yield start, stop, True


def late_extents(
    extents: ExtentTable, dead: DeadRanges | None, start: int, stop: int, timestamp: int
) -> Iterator[int]:
    """Yield the indexes in [start, stop) of live extents whose largest timestamp is at least `timestamp`, in order."""
    max_timestamps = extents.max_timestamps
    for begin, end in live_slices(extents, dead, start, stop):
        for first in range(begin, end, _STEP):
            latest = max_timestamps[first : min(end, first + _STEP)]
            if max(latest) >= timestamp:
                yield from compress(count(first), [each >= timestamp for each in latest])


def live_mask(extents: ExtentTable, dead: DeadRanges, start: int, stop: int) -> bytearray:
    """Return one byte per extent with index in [start, stop): 1 if it is live, otherwise 0."""
    mask = bytearray(b"\1") * (stop - start)
    for first, end in dead_slices(extents, dead, start, stop):
        mask[first - start : end - start] = bytes(end - first)
    return mask


def is_dead(dead: DeadRanges | None, offset: int) -> bool:
    """Whether a dead range covers this offset."""
    return dead is not None and dead.skip(offset) != offset
