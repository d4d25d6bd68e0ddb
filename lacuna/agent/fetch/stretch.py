"""Stretches, which are pieces of one partition in memory, ready to be sent, and spans of stretches.

Batches have their true offsets and leader epoch 0 (S6, S20). Batches of consecutive pieces are adjacent, so any run of
consecutive batches is one slice.
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

from lacuna.controlplane.shared.log.pieces import NO_PIECES, Pieces
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.logstore.records.layout import WalkedBatches, WalkedPieces

# Batches that are smaller than this on average are worth coalescing (S19).
SMALL_BATCH_BYTES: Final = 4096


class Load:
    """Pieces that are evicted from the cache together. `size` is the memory that they take up, in bytes.

    `stretches` is the load's content while it is in the cache. `is_coalesced` means that the batches differ from those
    produced. `is_ahead` means that the load was read ahead and has not been used yet, and `wants_ahead` that its first
    use starts the next read ahead. `unfinished` is the number of stretches whose last piece has not been used yet, or 0
    if they are not counted. `is_finished` means that there are no such stretches left.
    """

    __slots__ = (
        "is_ahead",
        "is_coalesced",
        "is_finished",
        "size",
        "stretches",
        "unfinished",
        "wants_ahead",
    )

    def __init__(self, size: int, is_coalesced: bool = False) -> None:
        self.size = size
        self.is_coalesced = is_coalesced
        self.stretches: list[Stretch] = []
        self.is_ahead = False
        self.wants_ahead = False
        self.unfinished = 0
        self.is_finished = False


class Stretch:
    """Pieces of one partition in memory, in order: batch i is data[positions[i]:positions[i + 1]].

    The batches of pieces[k] begin at index firsts[first_piece + k]. Stretches of the same load may share the columns.
    `firsts` is None if the pieces were coalesced: a batch may then hold records of several pieces. `is_finished` means
    that the stretch's last piece has been used. `uses` counts its uses from its start, until several consumers are
    known to use it.
    """

    __slots__ = (
        "base_offsets",
        "data",
        "first_piece",
        "firsts",
        "is_finished",
        "last_offsets",
        "load",
        "max_timestamps",
        "partition",
        "pieces",
        "positions",
        "uses",
    )

    def __init__(
        self,
        data: memoryview,
        walked: WalkedPieces | WalkedBatches,
        load: Load,
        partition: PartitionKey,
        pieces: Pieces,
        firsts: "array[int] | None" = None,
        first_piece: int = 0,
    ) -> None:
        self.data = data
        self.positions = walked.positions
        self.base_offsets = walked.base_offsets
        self.last_offsets = walked.last_offsets
        self.max_timestamps = walked.max_timestamps
        self.load = load
        self.partition = partition
        self.pieces = pieces
        self.firsts = firsts
        self.first_piece = first_piece
        self.is_finished = False
        self.uses = 0

    @property
    def first_offset(self) -> int:
        return self.pieces.base_offsets[0]

    @property
    def next_offset(self) -> int:
        return self.pieces.next_offsets[-1]

    def index_of(self, pieces: Pieces, index: int) -> int | None:
        """Return the index of pieces[index] in the stretch, or None if it is not there."""
        offset = pieces.base_offsets[index]
        first = bisect_left(self.pieces.base_offsets, offset)
        is_there = first < len(self.pieces) and self.pieces.is_same(first, pieces, index)
        return first if is_there else None

    def span(self, first: int, pieces: Pieces, index: int, asked_offset: int = 0) -> "Span | None":
        """Return the longest span that self.pieces[first:] and a plan's pieces[index:] have in common.

        Returns None if that span contains no complete batch, which happens only with coalesced pieces. If the requested
        offset lies in the first batch, that batch may hold records of earlier pieces (S15), which `Span.earlier_pieces`
        returns.
        """
        count = self.pieces.common(first, pieces, index)
        span = self.part(first, first + count, asked_offset)
        if span is None:
            return None
        # A client skips only records that lie before the offset that it requested.
        base_offset = pieces.base_offsets[index]
        is_whole = self.base_offsets[span.first] >= base_offset
        return span if is_whole or asked_offset >= base_offset else None

    def part(self, first: int, end: int, asked_offset: int = 0) -> "Span | None":
        """Return the batches of pieces[first:end], or None if no complete batch is at or after the requested offset.

        In a coalesced stretch, the first batch may also hold records of earlier pieces.
        """
        if self.firsts is not None:
            firsts, before = self.firsts, self.first_piece
            return Span(self, first, end, firsts[before + first], firsts[before + end])
        last_offsets = self.last_offsets
        first_offset = max(self.pieces.base_offsets[first], asked_offset)
        first_batch = bisect_left(last_offsets, first_offset)
        if first_batch == len(last_offsets):
            return None
        if end == len(self.pieces):
            return Span(self, first, end, first_batch, len(last_offsets))
        # A batch that also holds records of another piece cannot be sent.
        end_offset = self.pieces.base_offsets[end]
        end_batch = bisect_left(last_offsets, end_offset, first_batch)
        if first_batch == end_batch:
            return None
        cut = self.base_offsets[end_batch]
        return Span(self, first, end, first_batch, end_batch, cut if cut < end_offset else None)


@dataclass(frozen=True, slots=True)
class Span:
    """Batches [first, end) of a stretch, which hold the records of its pieces [first_piece, end_piece).

    If `cut_offset` is not None, the records from that offset on are missing, and the answer must continue there.
    """

    stretch: Stretch
    first_piece: int
    end_piece: int
    first: int
    end: int
    cut_offset: int | None = None

    @property
    def piece_count(self) -> int:
        """The number of pieces whose records the span holds."""
        return self.end_piece - self.first_piece

    @property
    def size(self) -> int:
        positions = self.stretch.positions
        return positions[self.end] - positions[self.first]

    @property
    def view(self) -> memoryview:
        positions = self.stretch.positions
        return self.stretch.data[positions[self.first] : positions[self.end]]

    @property
    def pieces(self) -> Pieces:
        return self.stretch.pieces[self.first_piece : self.end_piece]

    @property
    def earlier_pieces(self) -> Pieces:
        """The pieces before `pieces` that have records in the span's first batch."""
        stretch = self.stretch
        if stretch.firsts is not None:
            return NO_PIECES
        base_offset = stretch.base_offsets[self.first]
        pieces, end = stretch.pieces, self.first_piece
        return pieces[bisect_right(pieces.next_offsets, base_offset, 0, end) : end]

    @property
    def is_small(self) -> bool:
        """Whether the batches are small enough to be worth coalescing. False for coalesced batches."""
        count = self.end - self.first
        return self.stretch.firsts is not None and self.size < SMALL_BATCH_BYTES * count
