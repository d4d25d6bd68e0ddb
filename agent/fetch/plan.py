"""What a fetch of one partition reads, drops and jumps over; pure (S13-S18).

A plan is made from the extents and dead ranges of the partition's view and touches no byte of
payload. Whole extents are live or dead, since none spans two transactions: a dead range is
bisected and jumped, however many extents it covers, so that aborted records cost neither reading
nor time.
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from controlplane.extents import FLAG_TRUE_OFFSETS, DeadRanges, ExtentTable

Key: TypeAlias = tuple[int, int, int]

_NEVER = 1 << 63
_STEP = 64


class Piece(NamedTuple):
    """One extent to read: `size` bytes at `position` of the object (lease_id, sequence)."""

    lease_id: int
    sequence: int
    position: int
    size: int
    base_offset: int
    next_offset: int
    flags: int

    @property
    def key(self) -> Key:
        """What the bytes are cached under: they never change."""
        return self[:3]

    @property
    def has_true_offsets(self) -> bool:
        """Whether the batches carry their own offsets, as merged ones do."""
        return self.flags & FLAG_TRUE_OFFSETS != 0


_columns_of = attrgetter(
    "lease_ids", "sequences", "positions", "sizes", "base_offsets", "next_offsets", "flags"
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to read for [asked_offset, end_offset).

    `size` estimates the bytes of `pieces` from `asked_offset` on. `resume_offset` is where the next
    live extent begins, which was not planned, or `end_offset` where there is none: from the last
    piece on (or from `asked_offset`) up to there is a hole. `max_bytes` is the limit it was made for.
    """

    asked_offset: int
    end_offset: int
    pieces: list[Piece]
    size: int
    resume_offset: int
    max_bytes: int

    @property
    def is_nothing_left(self) -> bool:
        """Offsets were asked for and none of them has a live record: the filler's case (S17)."""
        return not self.pieces and self.asked_offset < self.end_offset

    def describe(self) -> str:
        """The plan in one line."""
        pieces = ", ".join(
            f"[{piece.base_offset}, {piece.next_offset}) from {piece.lease_id:x}-{piece.sequence:x}"
            f" at {piece.position}, {piece.size} bytes"
            for piece in self.pieces
        )
        return (
            f"[{self.asked_offset}, {self.end_offset}): read {pieces or 'nothing'};"
            f" resume at {self.resume_offset}"
        )


def plan_fetch(
    extents: ExtentTable,
    dead: DeadRanges | None,
    asked_offset: int,
    end_offset: int,
    max_bytes: int,
) -> Plan:
    """The live extents of [asked_offset, end_offset) in order, until they reach `max_bytes`.

    The first one is planned whatever its size, and the one that reaches the limit is included (the
    answer is cut between its batches). `dead` is None for read_uncommitted, which drops nothing.
    """
    base_offsets, next_offsets = extents.base_offsets, extents.next_offsets
    columns = _columns_of(extents)
    count = len(base_offsets)
    index = bisect_right(next_offsets, asked_offset)
    dead_index, dead_first = _dead_from(dead, asked_offset)
    pieces: list[Piece] = []
    total = 0
    while index < count:
        base_offset = base_offsets[index]
        if base_offset >= end_offset:
            break
        if dead is not None and base_offset >= dead_first:
            dead_end = dead.ends[dead_index]
            if base_offset < dead_end:
                index = bisect_right(next_offsets, dead_end, index)
                base_offset = dead_end
            dead_index, dead_first = _dead_from(dead, base_offset)
            continue
        if total >= max_bytes and pieces:
            return Plan(asked_offset, end_offset, pieces, total, base_offset, max_bytes)
        some = _pieces(columns, index, min(dead_first, end_offset), max_bytes - total)
        if base_offset < asked_offset:
            # Which batches lie before the offset is known when they are read: leave out their share.
            first = some[0]
            span = first.next_offset - base_offset
            total -= first.size * (asked_offset - base_offset) // span
        total += sum([piece[3] for piece in some])
        pieces += some
        index += len(some)
    return Plan(asked_offset, end_offset, pieces, total, end_offset, max_bytes)


def _pieces(
    columns: "tuple[array[int], ...]", index: int, end_offset: int, max_bytes: int
) -> list[Piece]:
    """The extents from `index` on that begin below `end_offset`, until they reach `max_bytes`.

    At least one, and no more than _STEP: columns are cut and put together faster than one by one.
    """
    _, _, _, sizes, base_offsets, _, _ = columns
    stop = bisect_left(base_offsets, end_offset, index + 1, min(index + _STEP, len(base_offsets)))
    if stop == index + 1 or sizes[index] >= max_bytes:
        return [Piece._make([column[index] for column in columns])]
    ends = list(accumulate(sizes[index:stop]))
    stop = index + min(bisect_left(ends, max_bytes) + 1, len(ends))
    return list(map(Piece._make, zip(*[column[index:stop] for column in columns], strict=True)))


def _dead_from(dead: DeadRanges | None, offset: int) -> tuple[int, int]:
    """The first range that ends behind `offset`: its index and its first offset."""
    if dead is None:
        return 0, _NEVER
    index = bisect_right(dead.ends, offset)
    return index, dead.firsts[index] if index < len(dead.firsts) else _NEVER


def piece_at(extents: ExtentTable, index: int) -> Piece:
    """The extent at `index`, as it is to be read."""
    return Piece._make([column[index] for column in _columns_of(extents)])
