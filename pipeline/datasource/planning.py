"""Which task reads which pieces; pure. A task reads of one partition, and tasks are about equally large."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from pyspark.sql.datasource import InputPartition

from controlplane.extents import COLUMNS, ExtentTable
from pipeline.datasource.bounds import TopicPartition
from pipeline.datasource.filters import Condition
from pipeline.extents import PartitionLog, Piece

TARGET_BYTES: Final = 64 << 20
"""Stored bytes of a task where nothing else is asked for."""

#: The columns of an ExtentTable that make a Piece, in the order of its fields.
_PIECE_COLUMNS: Final = (
    "lease_ids",
    "sequences",
    "positions",
    "sizes",
    "base_offsets",
    "next_offsets",
    "max_timestamps",
    "transactions",
    "flags",
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The offsets [first_offset, end_offset) of a partition, to be read."""

    log: PartitionLog
    first_offset: int
    end_offset: int

    @property
    def partition(self) -> TopicPartition:
        """By name."""
        return TopicPartition(self.log.topic, self.log.partition)


@dataclass(frozen=True, slots=True)
class PieceTable:
    """Pieces as columns, in the order of Piece's fields: what a task carries."""

    columns: "tuple[array[int], ...]"

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[Piece]:
        return map(Piece._make, zip(*self.columns, strict=True))

    def __getitem__(self, indexes: slice) -> "PieceTable":
        return PieceTable(tuple(column[indexes] for column in self.columns))

    @property
    def sizes(self) -> "array[int]":
        """Bytes of each."""
        return self.columns[3]

    @property
    def base_offsets(self) -> "array[int]":
        """Of each."""
        return self.columns[4]

    @property
    def next_offsets(self) -> "array[int]":
        """Of each."""
        return self.columns[5]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where tasks read. `is_tolerant`: what is gone is passed over with a warning."""

    store_url: str
    cluster_id: str
    is_tolerant: bool


@dataclass(frozen=True)
class ReadTask(InputPartition):
    """What one task reads: of `pieces` the offsets [first_offset, end_offset) with a timestamp (ms) in
    [min_timestamp, max_timestamp].
    """

    bucket: Bucket
    topic: str
    partition: int
    first_offset: int
    end_offset: int
    min_timestamp: int
    max_timestamp: int
    pieces: PieceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How stretches become tasks. `min_partitions` and `max_records` (offsets a task) as Spark's
    Kafka source has them.
    """

    bucket: Bucket
    condition: Condition
    is_committed: bool
    min_partitions: int | None = None
    max_records: int | None = None


def live_slices(
    log: PartitionLog, first_offset: int, end_offset: int, *, is_committed: bool
) -> Iterator[tuple[int, int]]:
    """Indexes [start, stop) of the extents that meet the range; dead ranges are jumped (S14, S18)."""
    extents = log.extents
    start = extents.first_ending_after(first_offset)
    stop = extents.first_at_or_after(end_offset)
    if is_committed and start < stop:
        bases = extents.base_offsets
        for first, end in log.dead.between(bases[start], end_offset):
            dead_start = bisect_left(bases, first, start, stop)
            if start < dead_start:
                yield start, dead_start
            start = bisect_left(bases, end, dead_start, stop)
    if start < stop:
        yield start, stop


def count_offsets(log: PartitionLog, first: int, end: int, *, is_committed: bool) -> int:
    """Offsets of [first, end) that there is something to read at."""
    extents = log.extents
    total = 0
    for start, stop in live_slices(log, first, end, is_committed=is_committed):
        total += sum(extents.next_offsets[start:stop]) - sum(extents.base_offsets[start:stop])
        total -= max(0, first - extents.base_offsets[start])
        total -= max(0, extents.next_offsets[stop - 1] - end)
    return total


def offset_after(log: PartitionLog, first: int, end: int, count: int, *, is_committed: bool) -> int:
    """Where `count` such offsets end, and the hole behind them if there is one: at most `end`."""
    extents = log.extents
    for start, stop in live_slices(log, first, end, is_committed=is_committed):
        for index in range(start, stop):
            base = max(first, extents.base_offsets[index])
            if count <= 0:
                return base
            if base + count < extents.next_offsets[index]:
                return min(end, base + count)
            count -= extents.next_offsets[index] - base
    return end


def pieces_of(stretch: Stretch, condition: Condition, *, is_committed: bool) -> PieceTable:
    """The pieces of a stretch that may hold what is wanted."""
    first = max(stretch.first_offset, condition.first_offset)
    end = min(stretch.end_offset, condition.end_offset)
    extents = stretch.log.extents
    columns = tuple(array(COLUMNS[name]) for name in _PIECE_COLUMNS)
    for start, stop in live_slices(stretch.log, first, end, is_committed=is_committed):
        for from_, to in _recent_slices(extents, start, stop, condition.min_timestamp):
            for column, name in zip(columns, _PIECE_COLUMNS, strict=True):
                column.extend(getattr(extents, name)[from_:to])
    return PieceTable(columns)


def _recent_slices(
    extents: ExtentTable, start: int, stop: int, min_timestamp: int
) -> Iterator[tuple[int, int]]:
    """Runs of those whose largest timestamp is not below `min_timestamp`."""
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


def plan_tasks(stretches: Iterable[Stretch], plan: Plan) -> list[ReadTask]:
    """Tasks for the stretches, those of one partition in order of offset.

    A partition is cut between extents, and inside of one only where `max_records` says so; a
    stretch without anything to read has no task.
    """
    found = [
        (stretch, pieces_of(stretch, plan.condition, is_committed=plan.is_committed))
        for stretch in stretches
        if plan.condition.meets(stretch.partition)
    ]
    return [
        task
        for stretch, part in _parts(found, plan.min_partitions)
        for task in _tasks(stretch, part, plan)
    ]


def _parts(
    found: Sequence[tuple[Stretch, PieceTable]], least: int | None
) -> list[tuple[Stretch, PieceTable]]:
    """Parts of about equal size; at least so many, or one a piece."""
    target = TARGET_BYTES
    if least is not None:
        total = sum(sum(pieces.sizes) for _, pieces in found)
        target = max(1, min(target, total // least))
        least = min(least, sum(len(pieces) for _, pieces in found))
    while True:
        parts = [(stretch, part) for stretch, whole in found for part in _cut_bytes(whole, target)]
        if least is None or len(parts) >= least:
            return parts
        target //= 2  # a few pieces are much larger than the others


def _cut_bytes(pieces: PieceTable, target: int) -> Iterator[PieceTable]:
    """Consecutive parts of about equal size, none much above `target`."""
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


def _tasks(stretch: Stretch, pieces: PieceTable, plan: Plan) -> Iterator[ReadTask]:
    condition = plan.condition
    first = max(stretch.first_offset, condition.first_offset, pieces.base_offsets[0])
    end = min(stretch.end_offset, condition.end_offset, pieces.next_offsets[-1])
    for cut_first, cut_end in _cut_offsets(pieces, first, end, plan.max_records):
        start = bisect_right(pieces.next_offsets, cut_first)
        stop = bisect_left(pieces.base_offsets, cut_end)
        yield ReadTask(
            plan.bucket,
            stretch.log.topic,
            stretch.log.partition,
            cut_first,
            cut_end,
            condition.min_timestamp,
            condition.max_timestamp,
            pieces[start:stop],
        )


def _cut_offsets(
    pieces: PieceTable, first: int, end: int, max_records: int | None
) -> Iterator[tuple[int, int]]:
    """Ranges of at most `max_records` offsets of pieces each."""
    if max_records is not None:
        left = max_records
        for base, next_ in zip(pieces.base_offsets, pieces.next_offsets, strict=True):
            reached, next_ = max(base, first), min(next_, end)
            while next_ - reached > left:
                reached += left
                yield first, reached
                first, left = reached, max_records
            left -= next_ - reached
    if first < end:
        yield first, end
