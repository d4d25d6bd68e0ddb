"""Read pieces of one partition from the bucket: in large reads, checked, with their offsets.

For tasks: memory is bounded by the size of a block, of which two are there at a time (the next one is
read while this one is worked on), whatever the partition holds.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from controlplane.extents import FLAG_TRUE_OFFSETS
from logstore.objects import (
    ObjectNotFoundError,
    ObjectStore,
    ObjectStoreError,
    ShortReadError,
)
from logstore.objects.reading import grow
from logstore.objects.store import RangeRead
from logstore.records.layout import WalkedPieces
from logstore.records.pieces import walk_pieces
from pipeline.errors import DamagedDataError, DataLossError, PipelineError
from pipeline.extents import Piece

BLOCK_BYTES: Final = 8 << 20
"""Bytes of payload that are read, checked and handed on together."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive pieces, one behind the other in `data`; piece i begins at `starts[i]`.

    The batches of all are checked, carry their true offsets and stand in the columns of `walked`, those
    of piece i from index walked.firsts[i] on. `data` is the reader's own, and may be changed.
    """

    pieces: Sequence[Piece]
    data: bytearray
    starts: "array[int]"
    walked: WalkedPieces


def load_blocks(
    store: ObjectStore,
    cluster_id: str,
    pieces: Iterable[Piece],
    *,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """Blocks of about `block_bytes`, or of one piece that is larger, in the order of `pieces`.

    Raises DataLossError where an object is gone, DamagedDataError where bytes are not what was
    written, PipelineError where the store fails.
    """
    groups = cut_pieces(pieces, block_bytes)
    first = next(groups, None)
    if first is None:
        return
    with ThreadPoolExecutor(1, thread_name_prefix="load") as executor:
        coming = executor.submit(load_block, store, cluster_id, first)
        for group in groups:
            block = coming.result()
            coming = executor.submit(load_block, store, cluster_id, group)
            yield block
        yield coming.result()


def cut_pieces(pieces: Iterable[Piece], block_bytes: int) -> Iterator[list[Piece]]:
    """Consecutive pieces of together at most `block_bytes`, or one that is larger."""
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        if group and size + piece.size > block_bytes:
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.size
    if group:
        yield group


def load_block(store: ObjectStore, cluster_id: str, pieces: Sequence[Piece]) -> Block:
    """Reads, checks and patches; raises as `load_blocks`."""
    starts = array("q", (0, *accumulate(piece.size for piece in pieces)))
    data = bytearray()
    groups = list(_neighbours(pieces, store.read_gap))
    reads = [_read_of(cluster_id, pieces, starts, group) for group in groups]
    outcomes = store.get_into(reads, grow(data, starts[-1]))
    for outcome, group in zip(outcomes, groups, strict=True):
        if outcome is not None:
            raise _error_of(outcome, pieces[group[0]], cluster_id) from outcome
    walked = walk_pieces(
        data,
        starts,
        array("q", [piece.base_offset for piece in pieces]),
        array("q", [piece.next_offset for piece in pieces]),
        array("q", [piece.flags & FLAG_TRUE_OFFSETS for piece in pieces]),
        True,
    )
    for index, found in walked.errors.items():
        raise damaged(pieces[index], cluster_id, str(found))
    return Block(pieces, data, starts, walked)


def damaged(piece: Piece, cluster_id: str, reason: str) -> DamagedDataError:
    """The error for bytes that are not what was written."""
    return DamagedDataError(
        f"object {piece.key(cluster_id)!r} is damaged: {piece.describe()}: {reason}; nothing of it "
        "was used: restore the object, or run `lacuna verify` to see what is lost"
    )


def _neighbours(pieces: Sequence[Piece], read_gap: int) -> Iterator[list[int]]:
    """Indexes of pieces that one read brings: in one object, at most `read_gap` bytes apart."""
    group: list[int] = []
    for index, piece in enumerate(pieces):
        if group:
            before = pieces[group[-1]]
            gap = piece.position - before.position - before.size
            if piece[:2] != before[:2] or not 0 <= gap <= read_gap:
                yield group
                group = []
        group.append(index)
    yield group


def _read_of(
    cluster_id: str, pieces: Sequence[Piece], starts: "array[int]", group: Sequence[int]
) -> RangeRead:
    first, last = pieces[group[0]], pieces[group[-1]]
    parts = [(pieces[index].position, pieces[index].size, starts[index]) for index in group]
    size = last.position + last.size - first.position
    return RangeRead(first.key(cluster_id), first.position, size, parts)


def _error_of(error: ObjectStoreError, piece: Piece, cluster_id: str) -> PipelineError:
    if isinstance(error, ObjectNotFoundError):
        return DataLossError(
            f"object {piece.key(cluster_id)!r} is gone, which held offsets {piece.base_offset} to "
            f"{piece.next_offset - 1}: it was collected after this job was planned; run the job "
            "again, and let the pin last longer if it was a long one"
        )
    if isinstance(error, ShortReadError):
        return damaged(piece, cluster_id, str(error))
    return PipelineError(f"{piece.describe()} could not be read: {error}")
