"""Pieces: the place, size and offsets of extents to be read."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, overload

from lacuna.controlplane.shared.extents import COLUMNS, FLAG_TRUE_OFFSETS, ExtentTable
from lacuna.controlplane.shared.log.choosing import count_common
from lacuna.controlplane.v1.log_pb2 import Extents
from lacuna.logstore.objects.reading import take
from lacuna.logstore.segments.paths import SegmentId, key_in_lease

#: The place of a piece's bytes, which never changes: (lease_id, sequence, position).
Place: TypeAlias = tuple[int, int, int]

#: The columns of an ExtentTable that make up a Piece, in the order of its fields.
PIECE_COLUMNS: Final = (
    "lease_ids",
    "sequences",
    "positions",
    "sizes",
    "base_offsets",
    "next_offsets",
    "flags",
)

#: Gets those columns from an ExtentTable, a message or Pieces.
piece_columns: Final = attrgetter(*PIECE_COLUMNS)

_TYPECODES: Final = tuple(COLUMNS[name] for name in PIECE_COLUMNS)


class Piece(NamedTuple):
    """One extent to be read: `size` bytes at `position` in the object (lease_id, sequence). The offsets of its batches
    lie in [base_offset, next_offset).
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
        """Whether the stored batches contain their true offsets, as those of merged extents do."""
        return self.flags & FLAG_TRUE_OFFSETS != 0

    @property
    def segment(self) -> SegmentId:
        return SegmentId(self.lease_id, self.sequence)

    def key(self, cluster_id: str) -> str:
        return key_in_lease(cluster_id, self.lease_id, self.sequence)

    def describe(self) -> str:
        return (
            f"segment {self.segment}, {self.size} bytes at position {self.position} "
            f"(offsets {self.base_offset} to {self.next_offset - 1})"
        )


class Pieces(Sequence[Piece]):
    """Pieces of one or more partitions, kept as columns to avoid many small objects and to allow slicing."""

    __slots__ = PIECE_COLUMNS

    lease_ids: "array[int]"
    sequences: "array[int]"
    positions: "array[int]"
    sizes: "array[int]"
    base_offsets: "array[int]"
    next_offsets: "array[int]"
    flags: "array[int]"

    def __init__(self, columns: "Iterable[array[int]]") -> None:
        (
            self.lease_ids,
            self.sequences,
            self.positions,
            self.sizes,
            self.base_offsets,
            self.next_offsets,
            self.flags,
        ) = columns

    @classmethod
    def of(cls, pieces: Iterable[Piece]) -> "Pieces":
        columns = tuple(zip(*pieces, strict=True)) or ((),) * len(PIECE_COLUMNS)
        return cls(map(array, _TYPECODES, columns))

    @classmethod
    def of_extents(cls, extents: ExtentTable, indexes: "array[int]") -> "Pieces":
        """Return the pieces of the extents with these indexes, which must be in order and not empty."""
        columns = piece_columns(extents)
        start, stop = indexes[0], indexes[-1] + 1
        if stop - start == len(indexes):
            return cls([column[start:stop] for column in columns])
        return cls([take(column, indexes) for column in columns])

    @classmethod
    def joined(cls, parts: "Sequence[Pieces]") -> "Pieces":
        if len(parts) == 1:
            return parts[0]
        joined = [array(typecode) for typecode in _TYPECODES]
        for part in parts:
            for column, more in zip(joined, piece_columns(part), strict=True):
                column += more
        return cls(joined)

    def __len__(self) -> int:
        return len(self.base_offsets)

    @overload
    def __getitem__(self, index: int) -> Piece: ...

    @overload
    def __getitem__(self, index: slice) -> "Pieces": ...

    def __getitem__(self, index: int | slice) -> "Piece | Pieces":
        taken = [column[index] for column in piece_columns(self)]
        return Pieces(taken) if isinstance(index, slice) else Piece._make(taken)

    def __iter__(self) -> Iterator[Piece]:
        return pieces_of(piece_columns(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pieces):
            return NotImplemented
        return bool(piece_columns(self) == piece_columns(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Pieces.of({list(self)!r})"

    def take(self, indexes: "array[int]") -> "Pieces":
        return Pieces([take(column, indexes) for column in piece_columns(self)])

    def is_same(self, index: int, others: "Pieces", at: int) -> bool:
        """Whether self[index] and others[at] are the same piece."""
        return count_common(piece_columns(self), index, piece_columns(others), at, 1) == 1

    def common(self, first: int, others: "Pieces", index: int) -> int:
        """Return how many pieces of self[first:] equal those of others[index:] before the first difference."""
        count = min(len(self) - first, len(others) - index)
        return count_common(piece_columns(self), first, piece_columns(others), index, count)


#: No pieces at all.
NO_PIECES: Final = Pieces.of(())


def piece_at(extents: ExtentTable, index: int) -> Piece:
    return Piece._make([column[index] for column in piece_columns(extents)])


def pieces_in(extents: ExtentTable, start: int, stop: int) -> Iterator[Piece]:
    return pieces_of([column[start:stop] for column in piece_columns(extents)])


def pieces_of(columns: "Sequence[array[int]]") -> Iterator[Piece]:
    """Yield pieces from their columns, which are ordered as in PIECE_COLUMNS. This is faster than indexing `Pieces`."""
    return map(Piece._make, zip(*columns, strict=True))


def all_pieces(extents: ExtentTable | Extents) -> Iterator[Piece]:
    """Yield the pieces of all extents in a table or a message."""
    return pieces_of(piece_columns(extents))
