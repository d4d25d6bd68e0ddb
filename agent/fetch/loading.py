"""From pieces to stretches: what to read in which order, where it goes, and the read itself.

The pieces that a fetch misses are cut into loads in the order of the bucket, so that what stands
together in an object is read together, whichever partition it belongs to. In the buffer of a load
they stand by partition, in the order of their offsets: so many a small piece leaves as one slice.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from agent.fetch.plan import Piece
from agent.fetch.stretch import Load, Stretch
from controlplane.extents import FLAG_TRUE_OFFSETS
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
    pieces = [piece for run in runs for piece in run]
    heads = {0, *accumulate(map(len, runs))}
    by_bucket = sorted(range(len(pieces)), key=pieces.__getitem__)
    return [
        _plan_load(pieces, part, heads, key_of, read_gap, max_read_bytes)
        for part in _cut(pieces, by_bucket, load_bytes)
    ]


def _cut(pieces: list[Piece], by_bucket: list[int], load_bytes: int) -> Iterator[list[int]]:
    """Parts of about `load_bytes`; between two objects if possible."""
    first = size = 0
    last: tuple[int, ...] = ()
    for place, index in enumerate(by_bucket):
        piece = pieces[index]
        if size >= load_bytes and (size >= 2 * load_bytes or piece[:2] != last):
            yield by_bucket[first:place]
            first, size = place, 0
        size += piece[3]
        last = piece[:2]
    if first < len(by_bucket):
        yield by_bucket[first:]


def _plan_load(
    pieces: list[Piece],
    part: list[int],
    heads: set[int],
    key_of: Callable[[Piece], str],
    read_gap: int,
    max_read_bytes: int,
) -> LoadPlan:
    """The load of pieces[i] for i of `part`, which is in the order of the bucket.

    In memory they stand in the order of i; `heads` are the i where a run begins.
    """
    ordered = sorted(part)
    chosen = [pieces[index] for index in ordered]
    starts = array("q", (0, *accumulate(piece[3] for piece in chosen)))
    place_of = dict(zip(ordered, range(len(ordered)), strict=True))
    bounds = [0]
    bounds += [
        place
        for place, (before, index) in enumerate(pairwise(ordered), 1)
        if index != before + 1 or index in heads
    ]
    bounds.append(len(ordered))
    reads: list[RangeRead] = []
    sources: list[list[int]] = []
    for group in _group(pieces, part, read_gap, max_read_bytes):
        source = [place_of[index] for index in group]
        first, last = pieces[group[0]], pieces[group[-1]]
        size = last.position + last.size - first.position
        parts = [(chosen[place][2], chosen[place][3], starts[place]) for place in source]
        reads.append(RangeRead(key_of(first), first.position, size, parts))
        sources.append(source)
    return LoadPlan(pieces=chosen, starts=starts, bounds=bounds, reads=reads, sources=sources)


def _group(
    pieces: list[Piece], part: list[int], read_gap: int, max_read_bytes: int
) -> Iterator[list[int]]:
    """Neighbours in one object, in order."""
    group: list[int] = []
    begin = end = lease_id = sequence = -1
    for index in part:
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


def load(plan: LoadPlan, store: "ObjectStore", buffer: bytearray) -> Loaded:
    """Read, check and patch; for a thread."""
    pieces = plan.pieces
    outcomes = store.get_into(plan.reads, grow(buffer, plan.starts[-1]))
    _, _, _, _, base_offsets, next_offsets, flags = zip(*pieces, strict=True)
    walked = walk_pieces(
        buffer,
        plan.starts,
        array("q", base_offsets),
        array("q", next_offsets),
        array("q", [flag & FLAG_TRUE_OFFSETS for flag in flags]),
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
