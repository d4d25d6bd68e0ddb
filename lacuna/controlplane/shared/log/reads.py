"""Groups pieces into requests to the store, checks the results, and classifies failures."""

import sys
from array import array
from collections.abc import Callable
from enum import Enum, auto

from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.log.pieces import Pieces
from lacuna.logstore.objects.reading import group_ranges
from lacuna.logstore.objects.store import (
    DamagedObjectError,
    ObjectNotFoundError,
    ObjectStoreError,
    Reads,
    ShortReadError,
    WritableBuffer,
)
from lacuna.logstore.records.layout import WalkedPieces
from lacuna.logstore.records.pieces import walk_pieces


class ReadFailure(Enum):
    """Why pieces could not be read.

    GONE: their object has been collected. DAMAGED: the object differs from what was written. UNAVAILABLE: the store
    could not return them now.
    """

    GONE = auto()
    DAMAGED = auto()
    UNAVAILABLE = auto()


def failure_of(error: ObjectStoreError) -> ReadFailure:
    """Return the read failure that corresponds to an error of the store."""
    if isinstance(error, ObjectNotFoundError):
        return ReadFailure.GONE
    if isinstance(error, (DamagedObjectError, ShortReadError)):
        return ReadFailure.DAMAGED
    return ReadFailure.UNAVAILABLE


def plan_reads(
    pieces: Pieces,
    starts: "array[int]",
    order: "array[int]",
    key_of: Callable[[int, int], str],
    *,
    read_gap: int,
    max_read_bytes: int = sys.maxsize,
    chunk_bytes: int = sys.maxsize,
) -> Reads:
    """Return the reads that fetch the pieces with the indexes in `order`, so that piece order[i] becomes part i.

    Piece i goes to position starts[i] of a buffer. Consecutive pieces share a read if they are in one object, at most
    `read_gap` bytes apart (S18), and begin in the same chunk of `chunk_bytes`. A read spans at most `max_read_bytes`,
    unless a single piece is larger. `key_of` returns the key of a segment, given its lease id and sequence.
    """
    lease_ids, sequences = pieces.lease_ids, pieces.sequences
    firsts, *columns = group_ranges(
        lease_ids,
        sequences,
        pieces.positions,
        pieces.sizes,
        starts,
        order,
        read_gap,
        max_read_bytes,
        chunk_bytes,
    )
    heads = map(order.__getitem__, firsts[:-1])
    return Reads([key_of(lease_ids[at], sequences[at]) for at in heads], firsts, *columns)


def walk_read(data: WritableBuffer, starts: "array[int]", pieces: Pieces) -> WalkedPieces:
    """Check the batches of `pieces`, and set their offsets.

    Piece i begins at starts[i] of `data`; the last item of `starts` is the size of `data`. The `errors` of the result
    describe the problem with each bad piece.
    """
    return walk_pieces(
        data,
        starts,
        pieces.base_offsets,
        pieces.next_offsets,
        array("q", [flag & FLAG_TRUE_OFFSETS for flag in pieces.flags]),
        True,
    )
