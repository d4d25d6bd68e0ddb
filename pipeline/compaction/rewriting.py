"""What an executor does: shares in, segments out. It asks nobody but the bucket.

A task that is tried again, or twice at a time, writes under sequence numbers of its own, so attempts
never meet; what the driver does not swap in is garbage that collection finds by the lease.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from controlplane.extents import FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS, ExtentTable
from logstore.objects import ObjectStore, ObjectStoreError
from logstore.records.batch import BatchHeader
from logstore.records.layout import TimestampType
from logstore.segments import SegmentId, SliceInput, segment_key, write_segment
from logstore.segments.layout import CorruptSegmentError
from logstore.segments.merge import LiveRange, MergedRun, MergeOptions, merge_ranges
from logstore.segments.paths import MAX_SEQUENCE
from pipeline.compaction.planning import Share
from pipeline.compaction.settings import RewriteSettings
from pipeline.errors import DamagedDataError, DataLossError, PipelineError
from pipeline.loading import Block, load_blocks

#: Segments of one attempt: the low bits of their sequence numbers.
_SEGMENT_BITS: Final = 16
_NO_PRODUCER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """All that an executor is told; it can be pickled."""

    store_url: str
    cluster_id: str
    lease_id: int
    settings: RewriteSettings
    shares: Sequence[Share]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareResult:
    """What became of a share: its new extents, or why it could not be read.

    `tombstones_due_ms`: the earliest delete horizon among the tombstones that were kept; 0: none.
    """

    range_index: int
    first_offset: int
    extents: ExtentTable
    tombstones_due_ms: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """`segments` are (sequence, size in bytes) of what was written; requests and bytes of the store."""

    shares: Sequence[ShareResult]
    segments: Sequence[tuple[int, int]]
    puts: int
    gets: int
    bytes_read: int
    bytes_written: int


class Dropped(Protocol):
    """The offsets of records that newer ones supersede, asked for in ascending order."""

    def below(self, share: int, end_offset: int) -> "array[int] | None":
        """Those of the share that no earlier call gave, below `end_offset`; None: none."""


class NothingDropped:
    """Where keys do not matter."""

    def below(self, _share: int, _end_offset: int) -> None:
        """None."""


def first_sequence(attempt_id: int) -> int:
    """The first sequence number that only this attempt uses. Raises PipelineError when they are used up."""
    first = (attempt_id + 1) << _SEGMENT_BITS
    if first > MAX_SEQUENCE:
        raise PipelineError("this Spark application ran too many tasks: start it again")
    return first


def rewrite(task: RewriteTask, store: ObjectStore, attempt_id: int, dropped: Dropped) -> TaskResult:
    """Reads, merges and writes the shares of a task, a block and a segment at a time.

    A share that is damaged is said so, alone. Raises PipelineError where the store fails.
    """
    metrics = store.metrics
    before = metrics.puts, metrics.gets, metrics.bytes_read, metrics.bytes_written
    writer = _SegmentWriter(task, store, first_sequence(attempt_id))
    try:
        results = [
            _rewrite_share(task, store, writer, index, dropped) for index in range(len(task.shares))
        ]
        writer.flush()
    except ObjectStoreError as error:
        raise PipelineError(f"a segment could not be written: {error}") from error
    return TaskResult(
        shares=results,
        segments=writer.segments,
        puts=metrics.puts - before[0],
        gets=metrics.gets - before[1],
        bytes_read=metrics.bytes_read - before[2],
        bytes_written=metrics.bytes_written - before[3],
    )


def _rewrite_share(
    task: RewriteTask, store: ObjectStore, writer: "_SegmentWriter", index: int, dropped: Dropped
) -> ShareResult:
    share = task.shares[index]
    settings = task.settings
    options = MergeOptions(
        batch_size=settings.batch_bytes,
        codec=settings.codec,
        compression_level=settings.level,
        delete_horizon=share.delete_horizon,
    )
    output = writer.begin(share)
    due_ms = 0
    blocks = load_blocks(store, task.cluster_id, share.pieces(), block_bytes=settings.block_bytes)
    try:
        ranges = _ranges(task.cluster_id, blocks, dropped, index)
        for run in merge_ranges(ranges, share.end_offset, options):
            if share.delete_horizon >= 0:
                due_ms = _earliest(due_ms, run)
            writer.add(run)
    except (DamagedDataError, DataLossError, CorruptSegmentError) as error:
        writer.discard()
        return _result(share, ExtentTable(), error=str(error))
    return _result(share, output, tombstones_due_ms=due_ms)


def _result(
    share: Share, extents: ExtentTable, *, tombstones_due_ms: int = 0, error: str = ""
) -> ShareResult:
    return ShareResult(
        range_index=share.range_index,
        first_offset=share.extents.base_offsets[0],
        extents=extents,
        tombstones_due_ms=tombstones_due_ms,
        error=error,
    )


def _ranges(
    cluster_id: str, blocks: Iterable[Block], dropped: Dropped, share: int
) -> Iterator[LiveRange]:
    for block in blocks:
        gone = dropped.below(share, block.pieces[-1].next_offset)
        view = memoryview(block.data)
        for piece, start in zip(block.pieces, block.starts, strict=False):
            yield LiveRange(
                key=piece.key(cluster_id),
                position=piece.position,
                data=view[start : start + piece.size],
                base_offset=piece.base_offset,
                next_offset=piece.next_offset,
                has_true_offsets=True,  # the block has patched them in
                dropped=_within(gone, piece.base_offset, piece.next_offset),
            )


def _within(gone: "array[int] | None", first: int, end: int) -> "array[int] | None":
    if gone is None:
        return None
    found = gone[bisect_left(gone, first) : bisect_left(gone, end)]
    return found or None


def _earliest(due_ms: int, run: MergedRun) -> int:
    """The earlier of `due_ms` (0: none) and the delete horizons of the run's batches."""
    for batch in run.batches:
        header = BatchHeader.parse(batch)
        if header.has_delete_horizon:
            due_ms = min(due_ms or header.base_timestamp, header.base_timestamp)
    return due_ms


@dataclass(slots=True)
class _Slice:
    """What waits to be written of one share."""

    share: Share
    extents: ExtentTable
    runs: list[MergedRun] = field(default_factory=list)


class _SegmentWriter:
    """Gathers runs until a segment is full; its memory is one segment."""

    def __init__(self, task: RewriteTask, store: ObjectStore, sequence: int) -> None:
        self.segments: list[tuple[int, int]] = []
        self._task = task
        self._store = store
        self._sequence = sequence
        self._last_sequence = sequence + (1 << _SEGMENT_BITS) - 1
        self._size = 0
        self._slices: list[_Slice] = []

    def begin(self, share: Share) -> ExtentTable:
        """The next runs are this share's; its extents are in the table once it was flushed."""
        extents = ExtentTable()
        self._slices.append(_Slice(share, extents))
        return extents

    def add(self, run: MergedRun) -> None:
        """Takes a run; the batches that are parts of a block are copied, so that the block can go."""
        if self._size and self._size + run.size > self._task.settings.segment_bytes:
            self.flush()
        batches = [part if isinstance(part, bytes) else bytes(part) for part in run.batches]
        run.batches[:] = batches
        self._slices[-1].runs.append(run)
        self._size += run.size

    def discard(self) -> None:
        """Forgets what waits of the last share."""
        self._size -= sum(run.size for run in self._slices.pop().runs)

    def flush(self) -> None:
        """Writes what waits, if anything does. Raises ObjectStoreError."""
        slices = [each for each in self._slices if each.runs]
        if slices:
            self._write(slices)
        last = self._slices[-1:]
        self._slices = [_Slice(each.share, each.extents) for each in last]
        self._size = 0

    def _write(self, slices: Sequence[_Slice]) -> None:
        task = self._task
        if self._sequence > self._last_sequence:
            raise PipelineError("a task writes too many segments: choose a larger --segment-bytes")
        segment_id = SegmentId(task.lease_id, self._sequence)
        self._sequence += 1
        inputs = [
            SliceInput(
                each.share.topic_id,
                each.share.partition,
                [batch for run in each.runs for batch in run.batches],
            )
            for each in slices
        ]
        segment = write_segment(task.cluster_id, segment_id, inputs, has_true_offsets=True)
        self._store.put(segment_key(task.cluster_id, segment_id), segment.parts)
        self.segments.append((segment_id.sequence, segment.size))
        for each, written in zip(slices, segment.slices, strict=True):
            position = written.position
            for run in each.runs:
                each.extents.append_row(_row(segment_id, position, run))
                position += run.size


def _row(segment_id: SegmentId, position: int, run: MergedRun) -> tuple[int, ...]:
    """The run as an extent, in the order of the columns."""
    is_append_time = run.timestamp_type is TimestampType.LOG_APPEND_TIME
    return (
        segment_id.lease_id,
        segment_id.sequence,
        position,
        run.size,
        run.base_offset,
        run.next_offset,
        run.max_timestamp,
        _NO_PRODUCER,
        _NO_PRODUCER,
        0,
        FLAG_TRUE_OFFSETS | (FLAG_LOG_APPEND_TIME if is_append_time else 0),
    )
