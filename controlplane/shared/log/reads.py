"""Reads: which pieces one request to the store fetches, the checks of what it returned, and why a read failed."""

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto

from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.log.pieces import Pieces
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
    pieces: Pieces,
    starts: Sequence[int],
    order: Iterable[int],
    key_of: Callable[[int, int], str],
    *,
    read_gap: int,
    max_read_bytes: int = sys.maxsize,
) -> Iterator[tuple[RangeRead, list[int]]]:
    """Yield the reads that fetch the pieces with the indexes in `order`, each with the indexes that it fetches.

    Piece i goes to position starts[i] of a buffer. Consecutive pieces share a read if they are in one object with at
    most `read_gap` bytes between them (S18). A read spans at most `max_read_bytes`, unless one piece is larger.
    `key_of` gives the key of a segment by its lease id and sequence.
    """
    lease_ids, sequences, positions = pieces.lease_ids, pieces.sequences, pieces.positions
    parts = [*zip(positions, pieces.sizes, starts, strict=False)]
    for group in _read_groups(pieces, order, read_gap, max_read_bytes):
        first = group[0]
        position, size, _ = parts[group[-1]]
        yield (
            RangeRead(
                key_of(lease_ids[first], sequences[first]),
                positions[first],
                position + size - positions[first],
                [parts[index] for index in group],
            ),
            group,
        )


def _read_groups(
    pieces: Pieces, order: Iterable[int], read_gap: int, max_read_bytes: int
) -> Iterator[list[int]]:
    lease_ids, sequences = pieces.lease_ids, pieces.sequences
    positions, sizes = pieces.positions, pieces.sizes
    group: list[int] = []
    begin = end = lease_id = sequence = -1
    for index in order:
        position, size = positions[index], sizes[index]
        if (
            sequences[index] == sequence
            and lease_ids[index] == lease_id
            and 0 <= position - end <= read_gap
            and position + size - begin <= max_read_bytes
        ):
            group.append(index)
        else:
            if group:
                yield group
            group = [index]
            begin, lease_id, sequence = position, lease_ids[index], sequences[index]
        end = position + size
    if group:
        yield group


def walk_read(data: bytearray, starts: "array[int]", pieces: Pieces) -> WalkedPieces:
    """Check the batches of `pieces`, and write their offsets into them.

    Piece i begins at starts[i] of `data`; the last item of `starts` is the size of `data`. The result's `errors` say
    what is wrong with a piece.
    """
    return walk_pieces(
        data,
        starts,
        pieces.base_offsets,
        pieces.next_offsets,
        array("q", [flag & FLAG_TRUE_OFFSETS for flag in pieces.flags]),
        True,
    )
