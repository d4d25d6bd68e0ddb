"""Turns missing pieces into stretches by planning the reads and their order, and performing them.

The pieces that a fetch lacks are divided into loads in the order of their places in the bucket, so that neighbours in
an object are read together, even if they belong to different partitions. In a load's buffer they are ordered by
partition and offset, so that many small pieces can be sent as one slice.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from lacuna.agent.fetch.stretch import Load, Stretch
from lacuna.controlplane.shared.log.pieces import Piece, Pieces
from lacuna.controlplane.shared.log.reads import ReadFailure, failure_of, plan_reads, walk_read
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.logstore.objects.reading import divide_runs, sort_ranges, take
from lacuna.logstore.objects.store import ObjectStore, ObjectStoreError, Reads, WritableBuffer
from lacuna.logstore.records.layout import WalkedPieces

# The memory needed in addition to the payload, in bytes: for the columns of a batch and a piece, and for the
# bookkeeping of a stretch and a load.
BATCH_OVERHEAD: Final = 32
PIECE_OVERHEAD: Final = 64
STRETCH_OVERHEAD: Final = 1500
LOAD_OVERHEAD: Final = 2000

NOTHING_BROUGHT: Final[Mapping[int, ObjectStoreError | None]] = MappingProxyType({})


class ExtentError(Exception):
    """An extent could not be read. The message names the object and the range."""


class ExtentGoneError(ExtentError):
    """The extent's object has been collected. The caller must plan again."""


class ExtentCorruptError(ExtentError):
    """The extent's bytes differ from those that were written. None of them are served."""


class ExtentUnavailableError(ExtentError):
    """The store could not return the extent. A later attempt may succeed."""


_ERRORS: Final = {
    ReadFailure.GONE: ExtentGoneError,
    ReadFailure.DAMAGED: ExtentCorruptError,
    ReadFailure.UNAVAILABLE: ExtentUnavailableError,
}


class Run(NamedTuple):
    """Consecutive pieces of one partition, which will be adjacent in memory."""

    partition: PartitionKey
    pieces: Pieces


@dataclass(slots=True, kw_only=True)
class LoadPlan:
    """The plan of one load.

    pieces[i] is at starts[i]:starts[i + 1] of the load's buffer, so `starts` ends with the buffer's size. Stretch i is
    pieces[bounds[i]:bounds[i + 1]], of partitions[i]. The i-th part of the reads is pieces[order[i]].
    """

    pieces: Pieces
    starts: "array[int]"
    bounds: "array[int]"
    partitions: list[PartitionKey]
    reads: Reads
    order: "array[int]"

    def source(self, at: int) -> "array[int]":
        """Return the indexes of the pieces that reads[at] returns."""
        return self.order[self.reads.firsts[at] : self.reads.firsts[at + 1]]

    def runs(self) -> list[Run]:
        """Return the stretches that the load will have if nothing fails."""
        pairs = zip(self.partitions, pairwise(self.bounds), strict=True)
        return [Run(partition, self.pieces[begin:end]) for partition, (begin, end) in pairs]


@dataclass(slots=True)
class Loaded:
    """The result of a load: its stretches, and an error for each piece that is in none of them.

    `reads` counts the reads from the store, and `bytes_read` their bytes, including gaps between the pieces. `mended`
    holds the indexes of the reads whose bytes were damaged when another agent delivered them, but intact in the store.
    """

    load: Load
    stretches: list[Stretch]
    errors: list[tuple[Piece, ExtentError]]
    reads: int
    bytes_read: int
    mended: list[int] = field(default_factory=list)


def plan_loads(
    runs: Sequence[Run],
    key_of: Callable[[int, int], str],
    *,
    read_gap: int,
    max_read_bytes: int,
    load_bytes: int,
    chunk_bytes: int = sys.maxsize,
) -> list[LoadPlan]:
    """Plan loads of about `load_bytes` for runs of pieces, in the order of their places in the bucket.

    Pieces with at most `read_gap` bytes between them share a read (S18) of at most `max_read_bytes`, unless one piece
    is larger. All pieces of a read begin in the same chunk of their object, which has `chunk_bytes` bytes. `key_of`
    returns the key of a segment, given its lease id and sequence.
    """
    reads_of = partial(
        plan_reads,
        key_of=key_of,
        read_gap=read_gap,
        max_read_bytes=max_read_bytes,
        chunk_bytes=chunk_bytes,
    )
    runs = [run for run in runs if run.pieces]
    if not runs:
        return []
    pieces = Pieces.joined([run.pieces for run in runs])
    heads = array("q", accumulate((len(run.pieces) for run in runs), initial=0))
    by_bucket = sort_ranges(pieces.lease_ids, pieces.sequences, pieces.positions)
    plans = []
    for part in _cut(pieces, by_bucket, load_bytes):
        ordered, order, bounds = divide_runs(part, heads)
        chosen = pieces.take(ordered)
        starts = array("q", accumulate(chosen.sizes, initial=0))
        plans.append(
            LoadPlan(
                pieces=chosen,
                starts=starts,
                bounds=bounds,
                partitions=[
                    runs[bisect_right(heads, ordered[at]) - 1].partition for at in bounds[:-1]
                ],
                reads=reads_of(chosen, starts, order),
                order=order,
            )
        )
    return plans


def _cut(pieces: Pieces, by_bucket: "array[int]", load_bytes: int) -> "Iterator[array[int]]":
    """Yield parts of about `load_bytes`, cut between two objects if possible."""
    sequences, lease_ids = pieces.sequences, pieces.lease_ids
    ends = list(accumulate(take(pieces.sizes, by_bucket)))
    first = at = before = 0
    while (at := bisect_left(ends, before + load_bytes, at) + 1) < len(by_bucket):
        while at < len(by_bucket) and ends[at - 1] - before < 2 * load_bytes:
            last, index = by_bucket[at - 1], by_bucket[at]
            if sequences[last] != sequences[index] or lease_ids[last] != lease_ids[index]:
                break
            at += 1
        if at == len(by_bucket):
            break
        yield by_bucket[first:at]
        first, before = at, ends[at - 1]
    yield by_bucket[first:]


def load(
    plan: LoadPlan,
    store: ObjectStore,
    buffer: WritableBuffer,
    brought: Mapping[int, ObjectStoreError | None] = NOTHING_BROUGHT,
) -> Loaded:
    """Read the plan's pieces into `buffer`, check them and write their true offsets. Blocks, so it runs in a thread.

    `buffer` has the plan's size. `brought` holds the outcomes of reads already done, by their index in the plan: an
    error, or None if the pieces are in the buffer. If those pieces prove to be damaged, the read is repeated from the
    store.
    """
    pieces = plan.pieces
    outcomes = [brought.get(at) for at in range(len(plan.reads))]
    done = [at for at in range(len(plan.reads)) if at not in brought]
    _read(plan, done, store, buffer, outcomes)
    walked = walk_read(buffer, plan.starts, pieces)
    mended: list[int] = []
    if walked.errors and (damaged := _damaged(plan, brought, walked)):
        _read(plan, damaged, store, buffer, outcomes)
        done += damaged
        walked = walk_read(buffer, plan.starts, pieces)
        still = _damaged(plan, brought, walked)
        mended = [at for at in damaged if outcomes[at] is None and at not in still]
    bytes_read = sum(plan.reads.spans[at] for at in done if outcomes[at] is None)
    failed: dict[int, ExtentError] = {}
    if walked.errors or outcomes.count(None) < len(outcomes):
        failed = _failed(plan, outcomes, walked)
    data = memoryview(buffer)
    result = Load(plan.starts[-1] + BATCH_OVERHEAD * len(walked.base_offsets) + LOAD_OVERHEAD)
    stretches = result.stretches = [
        Stretch(data, walked, result, partition, pieces[begin:end], walked.firsts, begin)
        for partition, begin, end in _without(plan, failed)
    ]
    result.size += PIECE_OVERHEAD * len(pieces) + STRETCH_OVERHEAD * len(stretches)
    errors = [(pieces[index], error) for index, error in failed.items()]
    return Loaded(result, stretches, errors, len(done), bytes_read, mended)


def _read(
    plan: LoadPlan,
    which: Sequence[int],
    store: ObjectStore,
    buffer: WritableBuffer,
    outcomes: list[ObjectStoreError | None],
) -> None:
    if not which:
        return
    reads = plan.reads if len(which) == len(plan.reads) else [plan.reads[at] for at in which]
    for at, outcome in zip(which, store.get_into(reads, buffer), strict=True):
        outcomes[at] = outcome


def _damaged(
    plan: LoadPlan, brought: Mapping[int, ObjectStoreError | None], walked: WalkedPieces
) -> list[int]:
    return [
        at
        for at, error in brought.items()
        if error is None and not walked.errors.keys().isdisjoint(plan.source(at))
    ]


def _failed(
    plan: LoadPlan, outcomes: Sequence[ObjectStoreError | None], walked: WalkedPieces
) -> dict[int, ExtentError]:
    pieces = plan.pieces
    failed: dict[int, ExtentError] = {}
    for at, outcome in enumerate(outcomes):
        source = plan.source(at)
        if outcome is not None:
            # A failed read may leave anything in the buffer, even an old batch with a correct checksum.
            failed.update(dict.fromkeys(source, _error_of(outcome, pieces[source[0]])))
            continue
        for index in source:
            if (found := walked.errors.get(index)) is not None:
                where = f"object {plan.reads.keys[at]!r}: {pieces[index].describe()}"
                failed[index] = ExtentCorruptError(f"{where}: {found}")
    return failed


def _without(
    plan: LoadPlan, failed: dict[int, ExtentError]
) -> Iterator[tuple[PartitionKey, int, int]]:
    """Yield the stretches (partition, begin, end) of a plan, without the pieces that failed."""
    for partition, (begin, stop) in zip(plan.partitions, pairwise(plan.bounds), strict=True):
        if failed:
            for index in range(begin, stop):
                if index in failed:
                    if begin < index:
                        yield partition, begin, index
                    begin = index + 1
        if begin < stop:
            yield partition, begin, stop


def _error_of(error: ObjectStoreError, piece: Piece) -> ExtentError:
    return _ERRORS[failure_of(error)](f"{piece.describe()}: {error}")
