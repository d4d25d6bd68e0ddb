"""The fates of a read_committed consumer's records between two offsets, as readable rows for `lacuna explain`.

Uses the same extents and dead ranges as a fetch plan, but lists every extent, including those that a fetch skips. Has
no side effects.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.fates import Fate, FatedRange, fates
from lacuna.controlplane.shared.log.pieces import piece_at
from lacuna.logstore.segments.hot import show_segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The fate of offsets [first_offset, next_offset).

    `producer_id`, `producer_epoch` and `transaction` (a serial number) are the extent's, or -1, -1 and 0 if there is no
    extent. `is_merged` means that a merge or a compaction wrote the extent. Such an extent names no transaction, though
    its records may come from several. `size` is in bytes, and is 0 for holes and fillers. `segment` names the object
    and `position` is the position in it; without an object, they are "" and -1. A FILLER moves the consumer to its
    next_offset, past the dropped offsets and holes listed before it.
    """

    fate: Fate
    first_offset: int
    next_offset: int
    producer_id: int = -1
    producer_epoch: int = -1
    transaction: int = 0
    is_merged: bool = False
    size: int = 0
    segment: str = ""
    position: int = -1


def explain(
    extents: ExtentTable,
    dead: DeadRanges,
    first_offset: int,
    end_offset: int,
    last_stable_offset: int,
) -> Iterator[Row]:
    """Yield rows for [first_offset, end_offset) in order of offset.

    `end_offset` is at most the high watermark. An extent that is only partly in the range is shown whole. From
    `last_stable_offset` on, extents are undecided.
    """
    bound = min(end_offset, last_stable_offset)
    live_end = reached = first_offset
    for found in fates(extents, dead, first_offset, bound, last_stable_offset):
        yield _row(extents, found)
        reached = found.next_offset
        if found.fate is Fate.DELIVERED:
            live_end = reached
    if live_end < bound:
        yield Row(fate=Fate.FILLER, first_offset=live_end, next_offset=bound)
    for found in fates(extents, None, max(reached, bound), end_offset, last_stable_offset):
        yield _row(extents, found)


def _row(extents: ExtentTable, found: FatedRange) -> Row:
    if found.fate is Fate.HOLE:
        return Row(fate=Fate.HOLE, first_offset=found.first_offset, next_offset=found.next_offset)
    index, piece = found.extent, piece_at(extents, found.extent)
    return Row(
        fate=found.fate,
        first_offset=found.first_offset,
        next_offset=found.next_offset,
        producer_id=extents.producer_ids[index],
        producer_epoch=extents.producer_epochs[index],
        transaction=extents.transactions[index],
        is_merged=piece.has_true_offsets,
        size=piece.size,
        segment=show_segment(piece.lease_id, piece.sequence),
        position=piece.position,
    )
