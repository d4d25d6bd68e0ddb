"""What a read_committed consumer gets between two offsets, as rows for people; pure.

Behind `lacuna explain`: the same extents and dead ranges that a fetch plans from, but every extent
is named, also those that a fetch jumps over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from controlplane.extents import DeadRanges, ExtentTable


class Fate(StrEnum):
    """What becomes of a range of offsets."""

    DELIVERED = "delivered"
    DROPPED = "dropped"
    HOLE = "hole"
    FILLER = "filler"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Offsets [first_offset, next_offset) and their fate.

    `producer_id`, `producer_epoch`, `transaction` (a serial number) as in the extent, -1, -1 and 0
    where there is none; `size` in bytes, 0 for holes and fillers; `segment`
    is the object, "" where there is none. A FILLER is what the consumer gets to pass the dropped
    offsets and holes up to its next_offset; those are listed before it.
    """

    fate: Fate
    first_offset: int
    next_offset: int
    producer_id: int = -1
    producer_epoch: int = -1
    transaction: int = 0
    size: int = 0
    segment: str = ""
    position: int = -1

    def describe(self) -> str:
        """The row in one line."""
        offsets = f"{self.first_offset}..{self.next_offset - 1}"
        if self.fate is Fate.HOLE:
            return f"{offsets} hole: compaction removed these offsets"
        if self.fate is Fate.FILLER:
            return f"{offsets} filler: one synthetic control record moves the consumer on"
        owner = "no transaction"
        if self.transaction:
            owner = (
                f"transaction {self.transaction} of producer {self.producer_id}"
                f" (epoch {self.producer_epoch})"
            )
        return f"{offsets} {self.fate}: {owner}, {self.size} bytes in {self.segment}"


def explain(
    extents: ExtentTable,
    dead: DeadRanges,
    first_offset: int,
    end_offset: int,
    last_stable_offset: int,
) -> Iterator[Row]:
    """Rows for [first_offset, end_offset) in order of offset.

    `end_offset` is at most the high watermark. Extents that the range cuts are shown whole; behind
    `last_stable_offset` nothing is decided.
    """
    bound = min(end_offset, last_stable_offset)
    position = first_offset
    live_end = first_offset
    index = extents.first_ending_after(first_offset)
    while index < len(extents) and extents.base_offsets[index] < end_offset:
        base_offset, next_offset = extents.base_offsets[index], extents.next_offsets[index]
        if base_offset >= bound and live_end < bound:
            yield from _gap(position, bound)
            yield Row(fate=Fate.FILLER, first_offset=live_end, next_offset=bound)
            position = live_end = bound
        yield from _gap(position, base_offset)
        fate = Fate.DELIVERED
        if base_offset >= last_stable_offset:
            fate = Fate.UNDECIDED
        elif dead.skip(base_offset) != base_offset:
            fate = Fate.DROPPED
        else:
            live_end = next_offset
        yield _row(extents, index, fate)
        position = next_offset
        index += 1
    yield from _gap(position, end_offset)
    if live_end < bound:
        yield Row(fate=Fate.FILLER, first_offset=live_end, next_offset=bound)


def _gap(first_offset: int, next_offset: int) -> Iterator[Row]:
    if first_offset < next_offset:
        yield Row(fate=Fate.HOLE, first_offset=first_offset, next_offset=next_offset)


def _row(extents: ExtentTable, index: int, fate: Fate) -> Row:
    return Row(
        fate=fate,
        first_offset=extents.base_offsets[index],
        next_offset=extents.next_offsets[index],
        producer_id=extents.producer_ids[index],
        producer_epoch=extents.producer_epochs[index],
        transaction=extents.transactions[index],
        size=extents.sizes[index],
        segment=f"{extents.lease_ids[index]:x}-{extents.sequences[index]:x}",
        position=extents.positions[index],
    )
