"""Pieces of one partition in memory, ready for the wire; and spans of them.

Batches carry their true offsets and leader epoch 0 (S6, S20), and those of consecutive pieces stand
one behind the other: any run of consecutive batches is one slice.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent.fetch.plan import Key, Piece

if TYPE_CHECKING:
    from logstore.records.layout import WalkedBatches, WalkedPieces

# Batches below this on average are worth coalescing (S19).
SMALL_BATCH_BYTES: Final = 4096


class Load:
    """What leaves the cache together; `size` counts what it keeps in memory, in bytes.

    `is_coalesced`: its batches are not as they were produced. `is_ahead`: it was read ahead and is
    not used yet. `wants_ahead`: meeting it starts the next read.
    """

    __slots__ = ("is_ahead", "is_coalesced", "keys", "size", "wants_ahead")

    def __init__(self, size: int, is_coalesced: bool = False) -> None:
        self.size = size
        self.is_coalesced = is_coalesced
        self.keys: list[Key] = []
        self.is_ahead = False
        self.wants_ahead = False


class Stretch:
    """Consecutive pieces: batch i is data[positions[i]:positions[i + 1]].

    The batches of piece k are those from firsts[first_piece + k] on; the columns may be shared with
    other stretches of the same read. `firsts` is None where the pieces were coalesced: batches then
    reach over several of them.
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
        """What pieces[index:], of a plan, and the pieces from `first` on have in common.

        None where that is no whole batch, which only happens where they were coalesced.
        """
        count = min(len(self.pieces) - first, len(pieces) - index)
        if self.pieces[first : first + count] != pieces[index : index + count]:
            same = (self.pieces[first + k] == pieces[index + k] for k in range(count))
            count = next((k for k, is_same in enumerate(same) if not is_same), count)
        span = self.part(first, first + count, asked_offset)
        if span is None:
            return None
        # Earlier records in the first batch may be any, aborted ones too: a client skips those only
        # that lie before the offset that it asked for (S15).
        base_offset = pieces[index].base_offset
        is_whole = self.base_offsets[span.first] >= base_offset
        return span if is_whole or asked_offset >= base_offset else None

    def part(self, first: int, end: int, asked_offset: int = 0) -> "Span | None":
        """The batches of pieces[first:end]; None where no whole batch from the asked offset on is theirs.

        The first may hold records of earlier pieces, if they were coalesced.
        """
        if self.firsts is not None:
            place = self.first_piece
            return Span(self, first, end, self.firsts[place + first], self.firsts[place + end])
        last_offsets = self.last_offsets
        first_offset = max(self.pieces[first].base_offset, asked_offset)
        first_batch = bisect_left(last_offsets, first_offset)
        if first_batch == len(last_offsets):
            return None
        if end == len(self.pieces):
            return Span(self, first, end, first_batch, len(last_offsets))
        # A batch that reaches into a piece that is not asked for cannot be given.
        end_offset = self.pieces[end].base_offset
        end_batch = bisect_left(last_offsets, end_offset, first_batch)
        if first_batch == end_batch:
            return None
        cut = self.base_offsets[end_batch]
        return Span(self, first, end, first_batch, end_batch, cut if cut < end_offset else None)


@dataclass(frozen=True, slots=True)
class Span:
    """Batches [first, end) of a stretch, which are those of its pieces [first_piece, end_piece).

    Where there is a `cut_offset`, records of those pieces from it on are missing: what follows has to
    begin there.
    """

    stretch: Stretch
    first_piece: int
    end_piece: int
    first: int
    end: int
    cut_offset: int | None = None

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        positions = self.stretch.positions
        return positions[self.end] - positions[self.first]

    @property
    def view(self) -> memoryview:
        """All batches."""
        positions = self.stretch.positions
        return self.stretch.data[positions[self.first] : positions[self.end]]

    @property
    def pieces(self) -> Sequence[Piece]:
        """What it stands for."""
        return self.stretch.pieces[self.first_piece : self.end_piece]

    @property
    def is_small(self) -> bool:
        """Whether it is worth coalescing."""
        count = self.end - self.first
        return self.stretch.firsts is not None and self.size < SMALL_BATCH_BYTES * count
