"""Stretches, which are pieces of one partition in memory, ready for the wire; and spans of them.

Batches carry their true offsets and leader epoch 0 (S6, S20), and those of consecutive pieces are adjacent, so any
run of consecutive batches is one slice.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from lacuna.controlplane.shared.log.pieces import Piece, Place

if TYPE_CHECKING:
    from lacuna.logstore.records.layout import WalkedBatches, WalkedPieces

# Batches that are smaller than this on average are worth coalescing (S19).
SMALL_BATCH_BYTES: Final = 4096

_next_offset_of = attrgetter("next_offset")


class Load:
    """Pieces that are evicted from the cache together; `size` is the memory that they take, in bytes.

    `places` are those of the pieces. `is_coalesced`: the batches were coalesced, and are not as they were produced.
    `is_ahead`: it was read ahead and is not used yet. `wants_ahead`: its first use starts the next reading ahead.
    """

    __slots__ = ("is_ahead", "is_coalesced", "places", "size", "wants_ahead")

    def __init__(self, size: int, is_coalesced: bool = False) -> None:
        self.size = size
        self.is_coalesced = is_coalesced
        self.places: list[Place] = []
        self.is_ahead = False
        self.wants_ahead = False


class Stretch:
    """Consecutive pieces of one partition in memory: batch i is data[positions[i]:positions[i + 1]].

    The batches of pieces[k] begin at index firsts[first_piece + k]. The columns may be shared with other stretches of
    the same load. `firsts` is None if the pieces were coalesced: a batch may then hold records of several pieces.
    """

    __slots__ = (
        "base_offsets",
        "data",
        "first_piece",
        "firsts",
        "last_offsets",
        "load",
        "max_timestamps",
        "pieces",
        "positions",
    )

    def __init__(
        self,
        data: memoryview,
        walked: "WalkedPieces | WalkedBatches",
        load: Load,
        pieces: Sequence[Piece],
        firsts: "array[int] | None" = None,
        first_piece: int = 0,
    ) -> None:
        self.data = data
        self.positions = walked.positions
        self.base_offsets = walked.base_offsets
        self.last_offsets = walked.last_offsets
        self.max_timestamps = walked.max_timestamps
        self.load = load
        self.pieces = pieces
        self.firsts = firsts
        self.first_piece = first_piece

    def span(
        self, first: int, pieces: Sequence[Piece], index: int, asked_offset: int = 0
    ) -> "Span | None":
        """Return the longest span that self.pieces[first:] and pieces[index:], of a plan, have in common.

        None if it has no whole batch, which happens only to coalesced pieces. If the asked offset lies in the first
        batch, that batch may hold records of earlier pieces (S15): see `Span.earlier_pieces`.
        """
        count = min(len(self.pieces) - first, len(pieces) - index)
        if self.pieces[first : first + count] != pieces[index : index + count]:
            same = (self.pieces[first + k] == pieces[index + k] for k in range(count))
            count = next((k for k, is_same in enumerate(same) if not is_same), count)
            if not count:
                return None  # the same bytes at other offsets, which only a broken log has: a walk must not stand still
        span = self.part(first, first + count, asked_offset)
        if span is None:
            return None
        # A client skips only records that lie before the offset that it asked for.
        base_offset = pieces[index].base_offset
        is_whole = self.base_offsets[span.first] >= base_offset
        return span if is_whole or asked_offset >= base_offset else None

    def part(self, first: int, end: int, asked_offset: int = 0) -> "Span | None":
        """Return the batches of pieces[first:end]; None if they have no whole batch from the asked offset on.

        If the pieces were coalesced, the first batch may also hold records of earlier pieces.
        """
        if self.firsts is not None:
            firsts, before = self.firsts, self.first_piece
            return Span(self, first, end, firsts[before + first], firsts[before + end])
        last_offsets = self.last_offsets
        first_offset = max(self.pieces[first].base_offset, asked_offset)
        first_batch = bisect_left(last_offsets, first_offset)
        if first_batch == len(last_offsets):
            return None
        if end == len(self.pieces):
            return Span(self, first, end, first_batch, len(last_offsets))
        # A batch that also holds records of a piece that is not asked for cannot be sent.
        end_offset = self.pieces[end].base_offset
        end_batch = bisect_left(last_offsets, end_offset, first_batch)
        if first_batch == end_batch:
            return None
        cut = self.base_offsets[end_batch]
        return Span(self, first, end, first_batch, end_batch, cut if cut < end_offset else None)


@dataclass(frozen=True, slots=True)
class Span:
    """Batches [first, end) of a stretch, which hold the records of its pieces [first_piece, end_piece).

    If `cut_offset` is not None, the pieces' records from that offset on are missing, and the answer must go on there.
    """

    stretch: Stretch
    first_piece: int
    end_piece: int
    first: int
    end: int
    cut_offset: int | None = None

    @property
    def piece_count(self) -> int:
        """How many pieces' records it holds."""
        return self.end_piece - self.first_piece

    @property
    def size(self) -> int:
        """The size of all batches, in bytes."""
        positions = self.stretch.positions
        return positions[self.end] - positions[self.first]

    @property
    def view(self) -> memoryview:
        """The bytes of all batches."""
        positions = self.stretch.positions
        return self.stretch.data[positions[self.first] : positions[self.end]]

    @property
    def pieces(self) -> Sequence[Piece]:
        """The pieces whose records it holds."""
        return self.stretch.pieces[self.first_piece : self.end_piece]

    @property
    def earlier_pieces(self) -> Sequence[Piece]:
        """Pieces before `pieces` that have records in its first batch."""
        stretch = self.stretch
        if stretch.firsts is not None:
            return ()
        base_offset = stretch.base_offsets[self.first]
        pieces, end = stretch.pieces, self.first_piece
        return pieces[bisect_right(pieces, base_offset, 0, end, key=_next_offset_of) : end]

    @property
    def is_small(self) -> bool:
        """Whether its batches are so small that coalescing is worth it; never if they were coalesced."""
        count = self.end - self.first
        return self.stretch.firsts is not None and self.size < SMALL_BATCH_BYTES * count
