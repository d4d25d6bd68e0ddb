"""Pieces: extents as something to read, with their place, size and offsets."""

from array import array
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS, ExtentTable
from lacuna.controlplane.v1.log_pb2 import Extents
from lacuna.logstore.segments.paths import SegmentId, key_in_lease

#: Where the bytes of a piece are, which never change: (lease_id, sequence, position).
Place: TypeAlias = tuple[int, int, int]

#: The columns of an ExtentTable that make a Piece, in the order of its fields.
PIECE_COLUMNS: Final = (
    "lease_ids",
    "sequences",
    "positions",
    "sizes",
    "base_offsets",
    "next_offsets",
    "flags",
)

#: Gets those columns from an ExtentTable or a message.
piece_columns: Final = attrgetter(*PIECE_COLUMNS)


class Piece(NamedTuple):
    """One extent to read: `size` bytes at `position` of the object (lease_id, sequence).

    The offsets of its batches are within [base_offset, next_offset).
    """

    lease_id: int
    sequence: int
    position: int
    size: int
    base_offset: int
    next_offset: int
    flags: int

    @property
    def place(self) -> Place:
        """The lease id, sequence and position of the piece's bytes."""
        return self[:3]

    @property
    def has_true_offsets(self) -> bool:
        """Whether the stored batches contain their real offsets, as those written by merges do."""
        return self.flags & FLAG_TRUE_OFFSETS != 0

    @property
    def segment(self) -> SegmentId:
        """The segment that contains the piece."""
        return SegmentId(self.lease_id, self.sequence)

    def key(self, cluster_id: str) -> str:
        """Return the key of the object that contains the piece."""
        return key_in_lease(cluster_id, self.lease_id, self.sequence)

    def describe(self) -> str:
        """Describe the piece in words, for error messages."""
        return (
            f"segment {self.segment}, {self.size} bytes at position {self.position} "
            f"(offsets {self.base_offset} to {self.next_offset - 1})"
        )


def piece_at(extents: ExtentTable, index: int) -> Piece:
    """Return the piece of the extent with this index."""
    return Piece._make([column[index] for column in piece_columns(extents)])


def pieces_in(extents: ExtentTable, start: int, stop: int) -> Iterator[Piece]:
    """Yield the pieces of the extents with index in [start, stop)."""
    return pieces_of([column[start:stop] for column in piece_columns(extents)])


def pieces_of(columns: "Sequence[array[int]]") -> Iterator[Piece]:
    """Yield pieces from their columns, in the order of PIECE_COLUMNS. This is faster than indexing the columns."""
    return map(Piece._make, zip(*columns, strict=True))


def all_pieces(extents: ExtentTable | Extents) -> Iterator[Piece]:
    """Yield the pieces of all extents of a table or a message."""
    return pieces_of(piece_columns(extents))
