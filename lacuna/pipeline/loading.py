"""Reads a partition's pieces from the bucket in large reads, checks them, and sets their true offsets.

Made for tasks: memory is limited to two blocks, however large the partition is, because the next block is read while
the current one is processed.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Final, TypeAlias

from lacuna.controlplane.shared.log.pieces import Piece, Pieces
from lacuna.controlplane.shared.log.reads import ReadFailure, failure_of, plan_reads, walk_read
from lacuna.logstore.objects import ObjectStore, ObjectStoreError
from lacuna.logstore.objects.reading import grow
from lacuna.logstore.records.layout import WalkedPieces
from lacuna.logstore.segments.paths import key_in_lease
from lacuna.pipeline.errors import DamagedDataError, DataLossError, PipelineError
from lacuna.pipeline.salvage import Lost, intact_pieces, lost_between

#: Receives data that cannot be read, and either returns, so that reading continues without it, or raises.
Skip: TypeAlias = Callable[[Lost], None]

BLOCK_BYTES: Final = 8 << 20
"""The bytes of payload that are read, checked and passed on together."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive pieces, stored back to back in `data`, where piece i begins at `starts[i]`.

    All batches have been checked and have their true offsets. The columns of `walked` describe them; those of piece i
    begin at index `walked.firsts[i]`. The receiver owns `data` and may change it.
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
    skip: Skip | None = None,
) -> Iterator[Block]:
    """Yields the pieces, in order, in blocks of at most `block_bytes`, unless a single piece is larger.

    Raises DataLossError if an object is gone, DamagedDataError if bytes differ from those written, and PipelineError if
    the store fails. If `skip` is given, it receives the first two errors instead, in another thread, and the readable
    parts of a damaged piece are yielded as smaller pieces.
    """
    groups = cut_pieces(pieces, block_bytes)
    first = next(groups, None)
    if first is None:
        return
    with ThreadPoolExecutor(1, thread_name_prefix="load") as executor:
        coming = executor.submit(_load_group, store, cluster_id, first, skip)
        for group in groups:
            blocks = coming.result()
            coming = executor.submit(_load_group, store, cluster_id, group, skip)
            yield from blocks
        yield from coming.result()


def _load_group(
    store: ObjectStore, cluster_id: str, group: Sequence[Piece], skip: Skip | None
) -> list[Block]:
    try:
        return [load_block(store, cluster_id, group)]
    except (DataLossError, DamagedDataError):
        if skip is None:
            raise
    return [block for piece in group for block in _load_intact(store, cluster_id, piece, skip)]


def _load_intact(store: ObjectStore, cluster_id: str, piece: Piece, skip: Skip) -> Iterator[Block]:
    key = piece.key(cluster_id)
    try:
        yield load_block(store, cluster_id, [piece])
    except DataLossError as error:
        skip(Lost(key, piece.base_offset, piece.next_offset, error))
    except DamagedDataError as error:
        kept = intact_pieces(store, cluster_id, piece)
        skip(Lost(key, *lost_between(piece, kept), error))
        for part in kept:
            yield load_block(store, cluster_id, [part])


def cut_pieces(pieces: Iterable[Piece], block_bytes: int) -> Iterator[list[Piece]]:
    """Divides consecutive pieces into groups of at most `block_bytes`, unless a single piece is larger."""
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


def load_block(
    store: ObjectStore, cluster_id: str, pieces: Sequence[Piece], data: bytearray | None = None
) -> Block:
    """Reads and checks pieces, and sets true offsets. Reuses the buffer `data`. Raises the same errors as
    `load_blocks`.
    """
    columns = Pieces.of(pieces)
    starts = array("q", accumulate(columns.sizes, initial=0))
    data = bytearray() if data is None else data
    reads = plan_reads(
        columns,
        starts,
        array("q", range(len(pieces))),
        partial(key_in_lease, cluster_id),
        read_gap=store.read_gap,
    )
    outcomes = store.get_into(reads, grow(data, starts[-1]))
    for at, outcome in enumerate(outcomes):
        if outcome is not None:
            raise _error_of(outcome, pieces[reads.firsts[at]], cluster_id) from outcome
    walked = walk_read(data, starts, columns)
    for index, found in walked.errors.items():
        raise damaged(pieces[index], cluster_id, str(found))
    return Block(pieces, data, starts, walked)


def damaged(piece: Piece, cluster_id: str, reason: str) -> DamagedDataError:
    """Returns the error for a piece whose bytes are not as written. `reason` describes the difference."""
    return DamagedDataError(
        f"object {piece.key(cluster_id)!r} is damaged: {piece.describe()}: {reason}; none of it "
        "was used: restore the object, or run `lacuna verify` to see what is lost"
    )


def _error_of(error: ObjectStoreError, piece: Piece, cluster_id: str) -> PipelineError:
    failure = failure_of(error)
    if failure is ReadFailure.GONE:
        return DataLossError(
            f"object {piece.key(cluster_id)!r}, which held offsets {piece.base_offset} to "
            f"{piece.next_offset - 1}, is gone: it is lost, or was collected because this job "
            "took longer than its pin; `lacuna verify` shows which"
        )
    if failure is ReadFailure.DAMAGED:
        return damaged(piece, cluster_id, str(error))
    return PipelineError(f"{piece.describe()} could not be read: {error}")
