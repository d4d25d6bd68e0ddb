"""Plans what a fetch of one partition reads, drops and jumps over; pure (S13-S18).

A plan is made from the extents and dead ranges in the partition's view, without reading any records. An extent is
live or dead as a whole, since none spans two transactions. A dead range is found by bisection and skipped at once,
however many extents it covers, so that aborted records cost neither reads nor time.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Final

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.live import is_dead, live_slices
from lacuna.controlplane.shared.log.pieces import Piece, piece_at, piece_columns, pieces_of

_STEP = 64


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What a fetch of one partition reads for [asked_offset, end_offset), or the error that it is answered with.

    `size` estimates the bytes of `pieces` from `asked_offset` on. `resume_offset` is where the next live extent begins,
    which was not planned, or `end_offset` if there is none; between the last piece (or `asked_offset`) and it there are
    no live records. `max_bytes` is the limit that the plan was made for, `extents` and `dead` are its input.
    """

    asked_offset: int
    end_offset: int
    pieces: list[Piece]
    size: int
    resume_offset: int
    max_bytes: int
    extents: ExtentTable = field(repr=False, compare=False)
    dead: DeadRanges | None = field(repr=False, compare=False)
    error_code: int = 0

    @property
    def promise(self) -> int:
        """An estimate of the bytes that can be sent; at least 1 if there is only a filler (S17), 0 for an error."""
        return max(self.size, 1) if self.asked_offset < self.end_offset else 0

    @property
    def has_more(self) -> bool:
        """Whether live records follow those that are planned."""
        return self.resume_offset < self.end_offset

    def pieces_after(self, max_bytes: int) -> list[Piece]:
        """Return the pieces that follow the planned ones, until they reach `max_bytes`."""
        start, end = self.resume_offset, self.end_offset
        return plan_fetch(self.extents, self.dead, start, end, max_bytes).pieces

    def may_show(self, pieces: Sequence[Piece]) -> bool:
        """Whether these extents, which lie before the planned ones, may be sent along with them.

        They may if all of them are still live. A read_committed client gets no byte of an aborted transaction, not
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
    """Plan to answer with an error, or with no records if `error_code` is 0."""
    return FetchPlan(0, 0, [], 0, 0, 0, ExtentTable(), None, error_code)


#: The plan for a partition at whose end the client is.
NOTHING: Final = refuse(0)


def plan_fetch(
    extents: ExtentTable,
    dead: DeadRanges | None,
    asked_offset: int,
    end_offset: int,
    max_bytes: int,
) -> FetchPlan:
    """Plan to read the live extents of [asked_offset, end_offset) in order, until they reach `max_bytes`.

    The first one is planned whatever its size, and the one that reaches the limit is included (the answer is cut
    between its batches). `dead` is None for read_uncommitted, which drops nothing.
    """
    columns = piece_columns(extents)
    pieces: list[Piece] = []
    size = 0
    for index, stop in live_slices(
        extents,
        dead,
        extents.first_ending_after(asked_offset),
        extents.first_at_or_after(end_offset),
    ):
        while index < stop:
            base_offset = extents.base_offsets[index]
            if size >= max_bytes and pieces:
                return FetchPlan(
                    asked_offset, end_offset, pieces, size, base_offset, max_bytes, extents, dead
                )
            some = _pieces(columns, index, stop, max_bytes - size)
            if base_offset < asked_offset:
                # Which batches lie before the offset is known only when they are read: subtract an estimated share.
                first = some[0]
                size -= (
                    first.size * (asked_offset - base_offset) // (first.next_offset - base_offset)
                )
            size += sum([piece[3] for piece in some])
            pieces += some
            index += len(some)
    return FetchPlan(asked_offset, end_offset, pieces, size, end_offset, max_bytes, extents, dead)


def _pieces(
    columns: "tuple[array[int], ...]", index: int, stop: int, max_bytes: int
) -> list[Piece]:
    """Return the extents of [index, stop) until they reach `max_bytes`: at least one, at most _STEP."""
    sizes = columns[3]
    if stop == index + 1 or sizes[index] >= max_bytes:
        return [Piece._make([column[index] for column in columns])]
    ends = list(accumulate(sizes[index : min(stop, index + _STEP)]))
    stop = index + min(bisect_left(ends, max_bytes) + 1, len(ends))
    return list(pieces_of([column[index:stop] for column in columns]))
