"""Divides the pieces to read into tasks of about equal size, each in one partition, without side effects."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import accumulate, compress
from typing import Final

from pyspark.sql.datasource import InputPartition

from lacuna.controlplane.shared.extents import COLUMNS, ExtentTable
from lacuna.controlplane.shared.log.pieces import PIECE_COLUMNS, Piece
from lacuna.controlplane.shared.log.pieces import pieces_of as pieces_of_columns
from lacuna.pipeline.datasource.bounds import TopicPartition
from lacuna.pipeline.datasource.filters import Condition
from lacuna.pipeline.datasource.pinning import Hold
from lacuna.pipeline.decoding import Bounds
from lacuna.pipeline.extents import PartitionLog

TARGET_BYTES: Final = 64 << 20
"""The default number of stored bytes that a task reads."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The offsets [first_offset, end_offset) to read from a partition."""

    log: PartitionLog
    first_offset: int
    end_offset: int

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.log.topic, self.log.partition)


@dataclass(frozen=True, slots=True)
class PieceTable:
    """A sequence of pieces, stored compactly for tasks: one column for each field of Piece, in order."""

    columns: "tuple[array[int], ...]"

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Piece]:
        return pieces_of_columns(self.columns)

    def __getitem__(self, indexes: slice) -> "PieceTable":
        return PieceTable(tuple(column[indexes] for column in self.columns))

    @property
    def sizes(self) -> "array[int]":
        """The sizes of the pieces in bytes."""
        return self.columns[3]

    @property
    def base_offsets(self) -> "array[int]":
        return self.columns[4]

    @property
    def next_offsets(self) -> "array[int]":
        return self.columns[5]


@dataclass(frozen=True, slots=True)
class Bucket:
    """The bucket that tasks read. If `is_tolerant`, they skip missing objects with a warning."""

    store_url: str
    cluster_id: str
    is_tolerant: bool


@dataclass(frozen=True)
class ReadTask(InputPartition):
    """A task, which reads the records of `pieces` that are within `bounds`."""

    bucket: Bucket
    topic: str
    partition: int
    bounds: Bounds
    pieces: PieceTable
    hold: Hold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The rules for dividing ranges into tasks.

    `min_partitions` (tasks) and `max_records` (offsets per task) have the same meaning as in Spark's Kafka source.
    """

    bucket: Bucket
    condition: Condition
    is_committed: bool
    min_partitions: int | None = None
    max_records: int | None = None
    hold: Hold | None = None


def count_offsets(log: PartitionLog, first: int, end: int, *, is_committed: bool) -> int:
    """Returns how many of the offsets [first, end) are in extents that are read."""
    extents = log.extents
    total = 0
    for start, stop in log.slices(first, end, is_committed=is_committed):
        total += sum(extents.next_offsets[start:stop]) - sum(extents.base_offsets[start:stop])
        total -= max(0, first - extents.base_offsets[start])
        total -= max(0, extents.next_offsets[stop - 1] - end)
    return total


def offset_after(log: PartitionLog, first: int, end: int, count: int, *, is_committed: bool) -> int:
    """Returns the offset that is `count` readable offsets after `first`, or after a hole that follows, but at most
    `end`.
    """
    extents = log.extents
    for start, stop in log.slices(first, end, is_committed=is_committed):
        for index in range(start, stop):
            base = max(first, extents.base_offsets[index])
            if count <= 0:
                return base
            if base + count < extents.next_offsets[index]:
                return min(end, base + count)
            count -= extents.next_offsets[index] - base
    return end


def pieces_of(read_range: ReadRange, condition: Condition, *, is_committed: bool) -> PieceTable:
    """Returns the pieces of a range that may hold records that meet the condition."""
    first = max(read_range.first_offset, condition.first_offset)
    end = min(read_range.end_offset, condition.end_offset)
    extents = read_range.log.extents
    columns = tuple(array(COLUMNS[name]) for name in PIECE_COLUMNS)
    for start, stop in read_range.log.slices(first, end, is_committed=is_committed):
        for from_, to in _recent_slices(extents, start, stop, condition.min_timestamp):
            for column, name in zip(columns, PIECE_COLUMNS, strict=True):
                column.extend(getattr(extents, name)[from_:to])
    return PieceTable(columns)


def _recent_slices(
    extents: ExtentTable, start: int, stop: int, min_timestamp: int
) -> Iterator[tuple[int, int]]:
    if min_timestamp < 0:
        yield start, stop
        return
    times = extents.max_timestamps
    begin = start
    for index in range(start, stop):
        if times[index] < min_timestamp:
            if begin < index:
                yield begin, index
            begin = index + 1
    if begin < stop:
        yield begin, stop


def plan_tasks(ranges: Iterable[ReadRange], division: Division) -> list[ReadTask]:
    """Divides the ranges into tasks. A partition's tasks are in offset order; an empty range has none.

    By default, tasks read up to about TARGET_BYTES and are cut between extents. If a number of tasks or offsets is
    requested, they are cut by offsets, as in Spark's Kafka source: a larger part gets more tasks, and the tasks of one
    part are equal in size.
    """
    found = [
        (read_range, pieces_of(read_range, division.condition, is_committed=division.is_committed))
        for read_range in ranges
        if division.condition.meets(read_range.partition)
    ]
    parts = [
        _Part(read_range, pieces, *_bounds(read_range, pieces, division.condition))
        for read_range, whole in found
        for pieces in _cut_bytes(whole, TARGET_BYTES)
    ]
    splits = split_counts(
        [part.count for part in parts], division.min_partitions, division.max_records
    )
    return [
        task
        for part, count in zip(parts, splits, strict=True)
        for task in _tasks(part, count, division)
    ]


def split_counts(sizes: Sequence[int], least: int | None, most: int | None) -> list[int]:
    """Returns the number of tasks for each part, given the parts' numbers of offsets.

    A task reads up to `most` offsets. There are at least `least` tasks, unless there are fewer offsets than that.
    """
    counts = [1 if most is None else -(-size // most) for size in sizes]
    if least is None or sum(counts) >= least:
        return counts
    least = min(least, sum(sizes))
    # Parts smaller than one and a half tasks are not divided; the others share the remaining tasks.
    is_large = [2 * size * least >= 3 * sum(sizes) for size in sizes]
    large = sum(compress(sizes, is_large))
    shared = least - is_large.count(False)
    for at in compress(range(len(sizes)), is_large):
        counts[at] = max(counts[at], sizes[at] * shared // large)
    # Rounding down leaves less than one task per part to assign.
    largest = [
        (-size / count, at) for at, (size, count) in enumerate(zip(sizes, counts, strict=True))
    ]
    heapify(largest)
    for _ in range(least - sum(counts)):
        _, at = largest[0]
        counts[at] += 1
        heapreplace(largest, (-sizes[at] / counts[at], at))
    return counts


@dataclass(frozen=True, slots=True)
class _Part:
    """Consecutive pieces of a range, of which the offsets [first_offset, end_offset) are read."""

    read_range: ReadRange
    pieces: PieceTable
    first_offset: int
    end_offset: int

    @property
    def count(self) -> int:
        pieces = self.pieces
        total = sum(pieces.next_offsets) - sum(pieces.base_offsets)
        total -= max(0, self.first_offset - pieces.base_offsets[0])
        return total - max(0, pieces.next_offsets[-1] - self.end_offset)


def _bounds(read_range: ReadRange, pieces: PieceTable, condition: Condition) -> tuple[int, int]:
    first = max(read_range.first_offset, condition.first_offset, pieces.base_offsets[0])
    return first, min(read_range.end_offset, condition.end_offset, pieces.next_offsets[-1])


def _cut_bytes(pieces: PieceTable, target: int) -> Iterator[PieceTable]:
    """Cuts pieces into consecutive parts of about equal size, none much larger than `target` bytes."""
    ends = list(accumulate(pieces.sizes))
    if not ends:
        return
    parts = -(-ends[-1] // target)
    if parts >= len(ends):
        yield from (pieces[index : index + 1] for index in range(len(ends)))
        return
    start = 0
    for part in range(1, parts + 1):
        stop = bisect_left(ends, ends[-1] * part // parts) + 1
        if start < stop:
            yield pieces[start:stop]
        start = max(start, stop)


def _tasks(part: _Part, count: int, division: Division) -> Iterator[ReadTask]:
    condition, pieces, log = division.condition, part.pieces, part.read_range.log
    for first, end in _cut_offsets(part, count):
        start = bisect_right(pieces.next_offsets, first)
        stop = bisect_left(pieces.base_offsets, end)
        yield ReadTask(
            division.bucket,
            log.topic,
            log.partition,
            Bounds(
                first_offset=first,
                end_offset=end,
                min_timestamp=condition.min_timestamp,
                max_timestamp=condition.max_timestamp,
            ),
            pieces[start:stop],
            division.hold,
        )


def _cut_offsets(part: _Part, count: int) -> Iterator[tuple[int, int]]:
    """Cuts a part into `count` ranges whose numbers of offsets in pieces differ by at most one."""
    pieces, total = part.pieces, part.count
    first, passed, cut = part.first_offset, 0, 1
    for base, next_ in zip(pieces.base_offsets, pieces.next_offsets, strict=True):
        base, next_ = max(base, part.first_offset), min(next_, part.end_offset)
        while cut < count and (due := total * cut // count) < passed + next_ - base:
            reached = base + due - passed
            yield first, reached
            first, cut = reached, cut + 1
        passed += next_ - base
    yield first, part.end_offset
