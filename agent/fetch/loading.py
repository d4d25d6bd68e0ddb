"""From pieces to stretches: what to read in which order, where it goes, and the read itself.

The pieces that a fetch misses are cut into loads in the order of the bucket, so that what stands
together in an object is read together, whichever partition it belongs to. In the buffer of a load
they stand by partition, in the order of their offsets: so many a small piece leaves as one slice.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from agent.fetch.plan import Piece
from agent.fetch.stretch import Load, Stretch
from logstore.objects.reading import grow
from logstore.objects.store import (
    ObjectNotFoundError,
    ObjectStoreError,
    RangeRead,
    ShortReadError,
)
from logstore.records.pieces import walk_pieces
from logstore.segments.paths import SegmentId, segment_key

if TYPE_CHECKING:
    from logstore.objects.store import ObjectStore

# What the columns of a batch, the bookkeeping of a piece and of a load take beside the payload.
BATCH_OVERHEAD: Final = 32
PIECE_OVERHEAD: Final = 300
LOAD_OVERHEAD: Final = 2000

#: piece, number of its run, its place in the run
_Tagged: TypeAlias = tuple[Piece, int, int]
_tag: Final = itemgetter(1, 2)


class ExtentError(Exception):
    """An extent that could not be read; the message names the object and the range."""


class ExtentGoneError(ExtentError):
    """Its object does not exist: it was collected, plan again."""


class ExtentCorruptError(ExtentError):
    """Its bytes are not what was written: nothing of it is served."""


class ExtentUnavailableError(ExtentError):
    """The store did not give it now."""


@dataclass(slots=True, kw_only=True)
class LoadPlan:
    """One load. `pieces` stand in its buffer from `starts` on, which has one more (the buffer's size).

    Stretch i is pieces[bounds[i]:bounds[i + 1]]; read i brings those of the indexes in sources[i].
    """

    pieces: list[Piece]
    starts: "array[int]"
    bounds: list[int]
    reads: list[RangeRead]
    sources: list[list[int]]


@dataclass(slots=True)
class Loaded:
    """What a load brought: stretches, and for every piece that is in none of them its error."""

    load: Load
    stretches: list[Stretch]
    errors: list[tuple[Piece, ExtentError]]
    bytes_read: int


def describe(piece: Piece) -> str:
    """An extent in words, for errors."""
    segment = SegmentId(piece.lease_id, piece.sequence)
    return (
        f"segment {segment}, {piece.size} bytes at {piece.position}"
        f" (offsets {piece.base_offset} to {piece.next_offset - 1})"
    )


def plan_loads(
    runs: Sequence[Sequence[Piece]],
    key_of: Callable[[Piece], str],
    *,
    read_gap: int,
    max_read_bytes: int,
    load_bytes: int,
) -> list[LoadPlan]:
    """Loads of about `load_bytes` for runs of consecutive pieces, in the order of the bucket.

    Two pieces with at most `read_gap` bytes between them are one read (S18), which spans at most
    `max_read_bytes` unless one piece is larger.
    """
    tagged = sorted(
        (piece, number, index) for number, run in enumerate(runs) for index, piece in enumerate(run)
    )
    return [_plan_load(part, key_of, read_gap, max_read_bytes) for part in _cut(tagged, load_bytes)]


def _cut(tagged: list[_Tagged], load_bytes: int) -> Iterator[list[_Tagged]]:
    """Parts of about `load_bytes`; between two objects if possible."""
    first = size = 0
    for index, (piece, _, _) in enumerate(tagged):
        if size >= load_bytes and (size >= 2 * load_bytes or piece[:2] != tagged[index - 1][0][:2]):
            yield tagged[first:index]
            first, size = index, 0
        size += piece.size
    if first < len(tagged):
        yield tagged[first:]


def _plan_load(
    tagged: list[_Tagged], key_of: Callable[[Piece], str], read_gap: int, max_read_bytes: int
) -> LoadPlan:
    ordered = sorted(tagged, key=_tag)
    starts = array("q", (0, *accumulate(piece.size for piece, _, _ in ordered)))
    index_of: dict[tuple[int, int], int] = {}
    bounds = []
    expected = (-1, -1)
    for index, (_, number, place) in enumerate(ordered):
        if (number, place) != expected:
            bounds.append(index)
        index_of[number, place] = index
        expected = (number, place + 1)
    bounds.append(len(ordered))
    reads: list[RangeRead] = []
    sources: list[list[int]] = []
    for group in _group(tagged, read_gap, max_read_bytes):
        indexes = [index_of[number, place] for _, number, place in group]
        first, last = group[0][0], group[-1][0]
        parts = [
            (piece.position, piece.size, starts[index])
            for (piece, _, _), index in zip(group, indexes, strict=True)
        ]
        size = last.position + last.size - first.position
        reads.append(RangeRead(key_of(first), first.position, size, parts))
        sources.append(indexes)
    return LoadPlan(
        pieces=[piece for piece, _, _ in ordered],
        starts=starts,
        bounds=bounds,
        reads=reads,
        sources=sources,
    )


def _group(tagged: list[_Tagged], read_gap: int, max_read_bytes: int) -> Iterator[list[_Tagged]]:
    """Neighbours in one object, in order."""
    group: list[_Tagged] = []
    begin = end = 0
    segment: tuple[int, ...] = ()
    for item in tagged:
        piece = item[0]
        position = piece.position
        piece_end = position + piece.size
        if (
            piece[:2] == segment
            and 0 <= position - end <= read_gap
            and piece_end - begin <= max_read_bytes
        ):
            group.append(item)
        else:
            if group:
                yield group
            group, begin, segment = [item], position, piece[:2]
        end = piece_end
    if group:
        yield group


class ReadBuffer(bytearray):
    """The bytes of a load; it can be watched until nobody holds them any more."""

    __slots__ = ("__weakref__",)


def load(plan: LoadPlan, store: "ObjectStore", buffer: bytearray) -> Loaded:
    """Read, check and patch; for a thread."""
    pieces = plan.pieces
    outcomes = store.get_into(plan.reads, grow(buffer, plan.starts[-1]))
    walked = walk_pieces(
        buffer,
        plan.starts,
        array("q", [piece.base_offset for piece in pieces]),
        array("q", [piece.next_offset for piece in pieces]),
        array("q", [piece.has_true_offsets for piece in pieces]),
        True,
    )
    failed: dict[int, ExtentError] = {}
    for index, found in walked.errors.items():
        failed[index] = ExtentCorruptError(f"{describe(pieces[index])}: {found}")
    # What a read that failed left in the buffer is anything, even an old batch with a right checksum.
    for outcome, read, source in zip(outcomes, plan.reads, plan.sources, strict=True):
        if outcome is not None:
            error = _error_of(outcome, pieces[source[0]])
            failed.update(dict.fromkeys(source, error))
        elif walked.errors:
            for index in source:
                if index in failed:
                    failed[index] = ExtentCorruptError(f"object {read.key!r}: {failed[index]}")
    size = plan.starts[-1] + BATCH_OVERHEAD * len(walked.base_offsets)
    result = Load(size + PIECE_OVERHEAD * len(pieces) + LOAD_OVERHEAD)
    data = memoryview(buffer)
    stretches = [
        Stretch(data, walked, result, pieces[begin:end], walked.firsts, begin)
        for begin, end in _without(plan.bounds, failed)
    ]
    errors = [(pieces[index], error) for index, error in failed.items()]
    bytes_read = plan.starts[-1] - sum(piece.size for piece, _ in errors)
    return Loaded(result, stretches, errors, bytes_read)


def _without(bounds: list[int], failed: dict[int, ExtentError]) -> Iterator[tuple[int, int]]:
    """The stretches between the bounds, cut where a piece failed."""
    for i in range(len(bounds) - 1):
        begin, stop = bounds[i], bounds[i + 1]
        if failed:
            for index in range(begin, stop):
                if index in failed:
                    if begin < index:
                        yield begin, index
                    begin = index + 1
        if begin < stop:
            yield begin, stop


def _error_of(error: ObjectStoreError, piece: Piece) -> ExtentError:
    if isinstance(error, ObjectNotFoundError):
        return ExtentGoneError(f"{describe(piece)}: {error}")
    if isinstance(error, ShortReadError):
        return ExtentCorruptError(f"{describe(piece)}: {error}")
    return ExtentUnavailableError(f"{describe(piece)}: {error}")


def object_key(cluster_id: str, piece: Piece) -> str:
    """The key of the object that holds a piece."""
    return segment_key(cluster_id, SegmentId(piece.lease_id, piece.sequence))
