"""Plans which records a fetch of one partition reads, drops and skips (S13-S18). Has no side effects.

A plan is built from the extents and dead ranges in the partition's view, without reading records. An extent is live or
dead as a whole, since none spans two transactions. A dead range is found by bisection and skipped in one step, however
many extents it covers, so aborted records cost neither reads nor time.
"""

from array import array
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.choosing import choose_live
from lacuna.controlplane.shared.log.live import is_dead
from lacuna.controlplane.shared.log.pieces import NO_PIECES, Piece, Pieces, piece_at
from lacuna.controlplane.shared.partitions import PartitionKey

_NONE: Final = array("q")


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """The reads of one partition's fetch for [asked_offset, end_offset), or the error that the fetch returns.

    `size` estimates the bytes of `pieces` at and after `asked_offset`. `resume_offset` is where the first live extent
    after the planned ones begins, or `end_offset` if there is none; between the last piece (or `asked_offset`) and
    `resume_offset`, there are no live records. `max_bytes`, `extents` and `dead` are the input to the plan.
    """

    asked_offset: int
    end_offset: int
    pieces: Pieces
    size: int
    resume_offset: int
    max_bytes: int
    partition: PartitionKey
    extents: ExtentTable = field(repr=False, compare=False)
    dead: DeadRanges | None = field(repr=False, compare=False)
    error_code: int = 0

    @property
    def promise(self) -> int:
        """An estimate of the bytes that can be sent: at least 1 if there is only a filler (S17), and 0 for an error."""
        return max(self.size, 1) if self.asked_offset < self.end_offset else 0

    @property
    def has_more(self) -> bool:
        """Whether live records follow the planned pieces."""
        return self.resume_offset < self.end_offset

    def pieces_after(self, max_bytes: int) -> Pieces:
        """Return the pieces that follow the planned pieces, up to a total of `max_bytes`."""
        start, end = self.resume_offset, self.end_offset
        return plan_fetch(self.extents, self.dead, start, end, max_bytes, self.partition).pieces

    def may_show(self, pieces: Pieces) -> bool:
        """Whether these extents, which precede the planned extents, may be sent along with them.

        They may if all of them are still live. A read_committed client gets no byte from an aborted transaction, not
        even at offsets that it skips.
        """
        return all(map(self._is_live, pieces))

    def _is_live(self, piece: Piece) -> bool:
        extents, base_offset = self.extents, piece.base_offset
        index = extents.first_at_or_after(base_offset)
        if index == len(extents) or piece_at(extents, index) != piece:
            return False
        return not is_dead(self.dead, base_offset)


@cache
def refuse(error_code: int) -> FetchPlan:
    """Return a plan that answers with an error, or with no records if `error_code` is 0."""
    return FetchPlan(0, 0, NO_PIECES, 0, 0, 0, (b"", -1), ExtentTable(), None, error_code)


#: The plan for a partition whose client is at its end.
NOTHING: Final = refuse(0)


def plan_fetch(
    extents: ExtentTable,
    dead: DeadRanges | None,
    asked_offset: int,
    end_offset: int,
    max_bytes: int,
    partition: PartitionKey,
) -> FetchPlan:
    """Plan to read the live extents of [asked_offset, end_offset) in order, until they reach `max_bytes`.

    The first extent is planned regardless of its size. The extent that reaches the limit is included, and the answer is
    cut between its batches. `dead` is None for read_uncommitted, which drops nothing.
    """
    start, stop = extents.first_ending_after(asked_offset), extents.first_at_or_after(end_offset)
    before = 0
    base_offset = extents.base_offsets[start] if start < stop else asked_offset
    if base_offset < asked_offset and not is_dead(dead, base_offset):
        # Only a read shows which batches lie before the offset, so an estimated share is subtracted.
        count = extents.next_offsets[start] - base_offset
        before = extents.sizes[start] * (asked_offset - base_offset) // count
    firsts, ends = (dead.firsts, dead.ends) if dead is not None else (_NONE, _NONE)
    chosen, size, following = choose_live(
        extents.base_offsets,
        extents.sizes,
        firsts,
        ends,
        start,
        stop,
        -before,
        max_bytes,
    )
    return FetchPlan(
        asked_offset,
        end_offset,
        Pieces.of_extents(extents, chosen) if chosen else NO_PIECES,
        size,
        extents.base_offsets[following] if following < stop else end_offset,
        max_bytes,
        partition,
        extents,
        dead,
    )
