"""Determines what happens to each range of a partition's offsets when a consumer reads past it."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.live import runs


class Fate(StrEnum):
    """The fate of a range of offsets when a read_committed consumer passes it."""

    DELIVERED = "delivered"
    DROPPED = "dropped"
    HOLE = "hole"
    FILLER = "filler"
    UNDECIDED = "undecided"


class FatedRange(NamedTuple):
    """The offsets [first_offset, next_offset) and their fate. `extent` is the index of their extent, or -1 for a
    hole.
    """

    fate: Fate
    first_offset: int
    next_offset: int
    extent: int = -1


def fates(
    extents: ExtentTable,
    dead: DeadRanges | None,
    first_offset: int,
    end_offset: int,
    last_stable_offset: int,
) -> Iterator[FatedRange]:
    """Yield the extents and holes in [first_offset, end_offset) with their fates, in order. Extents are not cut.

    A dead extent is dropped, even beyond `last_stable_offset`. A live one that ends beyond it is undecided.
    """
    reached = first_offset
    start, stop = extents.first_ending_after(first_offset), extents.first_at_or_after(end_offset)
    for run_start, run_stop, is_live in runs(extents, dead, start, stop):
        for index in range(run_start, run_stop):
            base_offset, next_offset = extents.base_offsets[index], extents.next_offsets[index]
            if reached < base_offset:
                yield FatedRange(Fate.HOLE, reached, base_offset)
            fate = Fate.DELIVERED if is_live else Fate.DROPPED
            if is_live and next_offset > last_stable_offset:
                fate = Fate.UNDECIDED
            yield FatedRange(fate, base_offset, next_offset, index)
            reached = next_offset
    if reached < end_offset:
        yield FatedRange(Fate.HOLE, reached, end_offset)
