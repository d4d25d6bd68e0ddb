"""From missing pieces to stretches: plans what to read in which order, and does the reads.

The pieces that a fetch misses are divided into loads in the order of their places in the bucket, so that neighbours
in an object are read together, whichever partition they belong to. In the buffer of a load they are ordered by
partition and offset, so that many small pieces can be sent as one slice.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from lacuna.agent.fetch.stretch import Load, Stretch
from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.controlplane.shared.log.reads import ReadFailure, failure_of, plan_reads, walk_read
from lacuna.logstore.objects.reading import grow
from lacuna.logstore.objects.store import ObjectStoreError, RangeRead

if TYPE_CHECKING:
    from lacuna.logstore.objects.store import ObjectStore

# Bytes of memory, besides the payload, for the columns of a batch, and for the bookkeeping of a piece and a load.
BATCH_OVERHEAD: Final = 32
PIECE_OVERHEAD: Final = 300
LOAD_OVERHEAD: Final = 2000


class ExtentError(Exception):
    """An extent that could not be read; the message names the object and the range."""


class ExtentGoneError(ExtentError):
    """The extent's object does not exist. It was collected: plan again."""


class ExtentCorruptError(ExtentError):
    """The extent's bytes are not what was written. None of it is served."""


class ExtentUnavailableError(ExtentError):
    """The store could not deliver the extent now. A later attempt may succeed."""


_ERRORS: Final = {
    ReadFailure.GONE: ExtentGoneError,
    ReadFailure.DAMAGED: ExtentCorruptError,
    ReadFailure.UNAVAILABLE: ExtentUnavailableError,
}


@dataclass(slots=True, kw_only=True)
class LoadPlan:
    """The plan of one load.

    pieces[i] is at starts[i]:starts[i + 1] of the load's buffer, so `starts` ends with the buffer's size. Stretch i is
    pieces[bounds[i]:bounds[i + 1]]. reads[i] brings the pieces whose indexes are in sources[i].
    """

    pieces: list[Piece]
    starts: "array[int]"
    bounds: list[int]
    reads: list[RangeRead]
    sources: list[list[int]]


@dataclass(slots=True)
class Loaded:
    """The result of a load: its stretches, and an error for each piece that is in none of them.

    `bytes_read` counts the bytes read from the store, including those between the pieces.
    """

    load: Load
    stretches: list[Stretch]
    errors: list[tuple[Piece, ExtentError]]
    bytes_read: int


def plan_loads(
    runs: Sequence[Sequence[Piece]],
    key_of: Callable[[Piece], str],
    *,
    read_gap: int,
    max_read_bytes: int,
    load_bytes: int,
) -> list[LoadPlan]:
    """Plan loads of about `load_bytes` for runs of consecutive pieces, in the order of their places in the bucket.

    Pieces with at most `read_gap` bytes between them share a read (S18), which spans at most `max_read_bytes`
    unless one piece is larger. `key_of` gives the key of a piece's object.
    """
    pieces = [piece for run in runs for piece in run]
    heads = {0, *accumulate(map(len, runs))}
    by_bucket = sorted(range(len(pieces)), key=pieces.__getitem__)
    return [
        _plan_load(pieces, part, heads, key_of, read_gap, max_read_bytes)
        for part in _cut(pieces, by_bucket, load_bytes)
    ]


def _cut(pieces: list[Piece], by_bucket: list[int], load_bytes: int) -> Iterator[list[int]]:
    """Yield parts of about `load_bytes`, cut between two objects if possible."""
    first = size = 0
    last: tuple[int, ...] = ()
    for at, index in enumerate(by_bucket):
        piece = pieces[index]
        if size >= load_bytes and (size >= 2 * load_bytes or piece[:2] != last):
            yield by_bucket[first:at]
            first, size = at, 0
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
    """Plan the load of pieces[i] for each i in `part`, which is in the order of places in the bucket.

    In the buffer they are in the order of i. `heads` are the i at which runs begin.
    """
    ordered = sorted(part)
    chosen = [pieces[index] for index in ordered]
    starts = array("q", (0, *accumulate(piece[3] for piece in chosen)))
    chosen_at = dict(zip(ordered, range(len(ordered)), strict=True))
    bounds = [0]
    bounds += [
        at
        for at, (before, index) in enumerate(pairwise(ordered), 1)
        if index != before + 1 or index in heads
    ]
    bounds.append(len(ordered))
    order = [chosen_at[index] for index in part]
    planned = list(
        plan_reads(chosen, starts, order, key_of, read_gap=read_gap, max_read_bytes=max_read_bytes)
    )
    return LoadPlan(
        pieces=chosen,
        starts=starts,
        bounds=bounds,
        reads=[read for read, _ in planned],
        sources=[source for _, source in planned],
    )


def load(plan: LoadPlan, store: "ObjectStore", buffer: bytearray) -> Loaded:
    """Read the plan's pieces into `buffer`, check them and write their true offsets. Blocks, so it runs in a thread."""
    pieces = plan.pieces
    outcomes = store.get_into(plan.reads, grow(buffer, plan.starts[-1]))
    walked = walk_read(buffer, plan.starts, pieces)
    failed: dict[int, ExtentError] = {}
    for index, found in walked.errors.items():
        failed[index] = ExtentCorruptError(f"{pieces[index].describe()}: {found}")
    # A failed read may leave anything in the buffer, even an old batch with a correct checksum.
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
    bytes_read = sum(
        read.size for outcome, read in zip(outcomes, plan.reads, strict=True) if outcome is None
    )
    return Loaded(result, stretches, errors, bytes_read)


def _without(bounds: list[int], failed: dict[int, ExtentError]) -> Iterator[tuple[int, int]]:
    """Yield the stretches (begin, end) between the bounds, without the pieces that failed."""
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
    return _ERRORS[failure_of(error)](f"{piece.describe()}: {error}")
