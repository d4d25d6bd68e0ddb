"""Reads: which pieces one request to the store fetches, the checks of what it returned, and why a read failed."""

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto

from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.logstore.objects.store import (
    ObjectNotFoundError,
    ObjectStoreError,
    RangeRead,
    ShortReadError,
)
from lacuna.logstore.records.layout import WalkedPieces
from lacuna.logstore.records.pieces import walk_pieces


class ReadFailure(Enum):
    """Why pieces could not be read.

    GONE: their object no longer exists, since it was collected. DAMAGED: the object is not as it was written.
    UNAVAILABLE: the store could not return them now.
    """

    GONE = auto()
    DAMAGED = auto()
    UNAVAILABLE = auto()


def failure_of(error: ObjectStoreError) -> ReadFailure:
    """Return what a store's error means for the pieces that were to be read."""
    if isinstance(error, ObjectNotFoundError):
        return ReadFailure.GONE
    if isinstance(error, ShortReadError):
        return ReadFailure.DAMAGED
    return ReadFailure.UNAVAILABLE


def plan_reads(
    pieces: Sequence[Piece],
    starts: "Sequence[int]",
    order: Iterable[int],
    key_of: Callable[[Piece], str],
    *,
    read_gap: int,
    max_read_bytes: int = sys.maxsize,
) -> Iterator[tuple[RangeRead, list[int]]]:
    """Yield the reads that fetch the pieces with the indexes in `order`, each with the indexes that it fetches.

    Piece i goes to position starts[i] of a buffer. Consecutive pieces share a read if they are in one object with at
    most `read_gap` bytes between them (S18). A read spans at most `max_read_bytes`, unless one piece is larger.
    """
    for group in _read_groups(pieces, order, read_gap, max_read_bytes):
        first, last = pieces[group[0]], pieces[group[-1]]
        size = last.position + last.size - first.position
        parts = [(pieces[index][2], pieces[index][3], starts[index]) for index in group]
        yield RangeRead(key_of(first), first.position, size, parts), group


def _read_groups(
    pieces: Sequence[Piece], order: Iterable[int], read_gap: int, max_read_bytes: int
) -> Iterator[list[int]]:
    group: list[int] = []
    begin = end = lease_id = sequence = -1
    for index in order:
        piece_lease_id, piece_sequence, position, size, _, _, _ = pieces[index]
        if (
            piece_sequence == sequence
            and piece_lease_id == lease_id
            and 0 <= position - end <= read_gap
            and position + size - begin <= max_read_bytes
        ):
            group.append(index)
        else:
            if group:
                yield group
            group = [index]
            begin, lease_id, sequence = position, piece_lease_id, piece_sequence
        end = position + size
    if group:
        yield group


def walk_read(data: bytearray, starts: "array[int]", pieces: Sequence[Piece]) -> WalkedPieces:
    """Check the batches of `pieces`, and write their offsets into them.

    Piece i begins at starts[i] of `data`; the last item of `starts` is the size of `data`. The result's `errors` say
    what is wrong with a piece.
    """
    _, _, _, _, base_offsets, next_offsets, flags = zip(*pieces, strict=True)
    return walk_pieces(
        data,
        starts,
        array("q", base_offsets),
        array("q", next_offsets),
        array("q", [flag & FLAG_TRUE_OFFSETS for flag in flags]),
        True,
    )
