"""Finds the readable parts of a damaged piece: the batches before and after the damage."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.logstore.objects import ObjectStore, ObjectStoreError
from lacuna.logstore.records.errors import RecordsError
from lacuna.logstore.records.kernel import walk_and_patch, walk_stored
from lacuna.logstore.records.layout import WalkedBatches
from lacuna.pipeline.errors import DamagedDataError, DataLossError

#: The first fields of a batch: its base offset, and the length of the rest.
_OVERHEAD: Final = 12


class Lost(NamedTuple):
    """The unreadable offsets [first_offset, end_offset), their object, and the error."""

    key: str
    first_offset: int
    end_offset: int
    error: DataLossError | DamagedDataError


def intact_pieces(store: ObjectStore, cluster_id: str, piece: Piece) -> list[Piece]:
    """Returns the intact batches at the start and end of a damaged piece, as pieces; none if it cannot be read."""
    try:
        data = store.get(piece.key(cluster_id), piece.position, piece.size)
    except ObjectStoreError:
        return []
    return intact_in(bytearray(data), piece)


def intact_in(data: bytearray, piece: Piece) -> list[Piece]:
    """Returns the parts of a piece before its first and after its last damaged batch, unless they are empty.

    The offsets of the batches after the damage are found by counting back from the end of the piece.
    """
    frames = list(_frames(data))
    walk = walk_stored if piece.has_true_offsets else walk_and_patch
    found: list[Piece] = []
    at, offset = 0, piece.base_offset
    for start, end in frames:
        walked = _walked(partial(walk, base_offset=offset), data[start:end])
        if walked is None:
            break
        at, offset = end, walked.last_offsets[-1] + 1
    if at == len(data):
        return []  # each batch is intact, but together they are not the expected piece
    if at:
        found.append(piece._replace(size=at, next_offset=offset))
    behind, first = len(data), piece.next_offset
    for start, end in reversed(frames):
        walked = _walked(partial(walk, base_offset=0), data[start:end])
        if walked is None or start < at or end != behind:
            break
        held = walked.last_offsets[-1] + 1
        first = walked.base_offsets[0] if piece.has_true_offsets else first - held
        behind = start
    if behind < len(data) and first >= offset:
        found.append(
            piece._replace(
                position=piece.position + behind, size=len(data) - behind, base_offset=first
            )
        )
    return found


def lost_between(piece: Piece, kept: list[Piece]) -> tuple[int, int]:
    """Returns the offsets [first, end) that are missing from the intact pieces `kept`."""
    first, end = piece.base_offset, piece.next_offset
    for part in kept:
        if part.position == piece.position:
            first = part.next_offset
        else:
            end = part.base_offset
    return first, end


def _frames(data: bytearray) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each batch, as stated in the batches, up to the first impossible size."""
    at = 0
    while at + _OVERHEAD <= len(data):
        end = at + _OVERHEAD + int.from_bytes(data[at + 8 : at + _OVERHEAD], "big", signed=True)
        if not at + _OVERHEAD < end <= len(data):
            return
        yield at, end
        at = end


def _walked(walk: Callable[[bytearray], WalkedBatches], batch: bytearray) -> WalkedBatches | None:
    try:
        return walk(batch)
    except RecordsError:
        return None
