"""The work of an executor, which needs only the bucket: it reads shares and writes segments.

Each attempt at a task writes under its own sequence numbers, so repeated or concurrent attempts never collide. Segments
that the driver does not swap in are garbage, which collection recognizes by the lease.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lacuna.controlplane.shared.extents import FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS, ExtentTable
from lacuna.logstore.objects import ObjectStore, ObjectStoreError
from lacuna.logstore.objects.store import StoreMetrics
from lacuna.logstore.records.batch import BatchHeader
from lacuna.logstore.records.layout import TimestampType
from lacuna.logstore.segments import SegmentId, SliceInput, segment_key, write_segment
from lacuna.logstore.segments.layout import CorruptSegmentError
from lacuna.logstore.segments.merge import LiveRange, MergedRun, MergeOptions, merge_ranges
from lacuna.logstore.segments.paths import MAX_SEQUENCE
from lacuna.pipeline.compaction.planning import Share
from lacuna.pipeline.compaction.settings import RewriteSettings
from lacuna.pipeline.errors import DamagedDataError, DataLossError, PipelineError
from lacuna.pipeline.loading import Block, load_blocks

#: The low bits of a sequence number count the segments of one attempt.
_SEGMENT_BITS: Final = 16
MAX_ATTEMPTS: Final = MAX_SEQUENCE >> _SEGMENT_BITS
"""The number of attempts that have separate sequence numbers."""
_NO_PRODUCER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    store_url: str
    cluster_id: str
    lease_id: int
    settings: RewriteSettings
    shares: Sequence[Share]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareResult:
    """The new extents of a share or, in `error`, the reason why it could not be read.

    `tombstones_due_ms` is the earliest delete horizon of the remaining tombstones, or 0 if there are none.
    """

    range_index: int
    first_offset: int
    extents: ExtentTable
    tombstones_due_ms: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The results of a task, and the segments that it wrote, as (sequence, size in bytes).

    `bytes_between` is the part of `bytes_read` that lay between live extents.
    """

    shares: Sequence[ShareResult]
    segments: Sequence[tuple[int, int]]
    puts: int
    gets: int
    bytes_read: int
    bytes_between: int
    bytes_written: int


class Dropped(Protocol):
    """The offsets of superseded records, which must be requested in ascending order."""

    def below(self, share: int, end_offset: int) -> "array[int] | None":
        """Returns the share's superseded offsets below `end_offset` that no earlier call returned, or None."""


def first_sequence(attempt_id: int) -> int:
    """Returns the first of the sequence numbers reserved for this attempt. Raises PipelineError if none are left."""
    first = (attempt_id + 1) << _SEGMENT_BITS
    if first > MAX_SEQUENCE:
        raise PipelineError("this Spark application has run too many tasks: restart it")
    return first


def rewrite(
    task: RewriteTask, store: ObjectStore, attempt_id: int, dropped: Dropped | None = None
) -> TaskResult:
    """Reads, merges and writes the shares of a task, one block and one segment at a time.

    `dropped` is None for a compaction that ignores keys. Damage to a share is recorded in its result, and does not
    affect other shares. `attempt_id` must be unique to this attempt. Raises PipelineError if the store fails.
    """
    metrics = store.metrics
    before = _counts(metrics)
    writer = _SegmentWriter(task, store, first_sequence(attempt_id))
    try:
        results = [
            _rewrite_share(task, store, writer, index, dropped) for index in range(len(task.shares))
        ]
        writer.flush()
    except ObjectStoreError as error:
        raise PipelineError(f"a segment could not be written: {error}") from error
    after = _counts(metrics)
    return TaskResult(
        shares=results,
        segments=writer.segments,
        **{name: count - before[name] for name, count in after.items()},
    )


def _counts(metrics: StoreMetrics) -> dict[str, int]:
    names = ("puts", "gets", "bytes_read", "bytes_between", "bytes_written")
    return {name: getattr(metrics, name) for name in names}


def _rewrite_share(
    task: RewriteTask,
    store: ObjectStore,
    writer: "_SegmentWriter",
    index: int,
    dropped: Dropped | None,
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
    due_ms, error = 0, ""
    blocks = load_blocks(store, task.cluster_id, share.pieces(), block_bytes=settings.block_bytes)
    try:
        ranges = _ranges(task.cluster_id, blocks, dropped, index)
        for run in merge_ranges(ranges, share.end_offset, options):
            if share.delete_horizon >= 0:
                due_ms = _earliest(due_ms, run)
            writer.add(run)
    except (DamagedDataError, DataLossError, CorruptSegmentError) as failure:
        writer.discard()
        output, due_ms, error = ExtentTable(), 0, str(failure)
    return ShareResult(
        range_index=share.range_index,
        first_offset=share.extents.base_offsets[0],
        extents=output,
        tombstones_due_ms=due_ms,
        error=error,
    )


def _ranges(
    cluster_id: str, blocks: Iterable[Block], dropped: Dropped | None, share: int
) -> Iterator[LiveRange]:
    for block in blocks:
        gone = None if dropped is None else dropped.below(share, block.pieces[-1].next_offset)
        view = memoryview(block.data)
        for piece, start in zip(block.pieces, block.starts, strict=False):
            yield LiveRange(
                key=piece.key(cluster_id),
                position=piece.position,
                data=view[start : start + piece.size],
                base_offset=piece.base_offset,
                next_offset=piece.next_offset,
                has_true_offsets=True,  # set when the block was loaded
                dropped=_within(gone, piece.base_offset, piece.next_offset),
            )


def _within(gone: "array[int] | None", first: int, end: int) -> "array[int] | None":
    if gone is None:
        return None
    found = gone[bisect_left(gone, first) : bisect_left(gone, end)]
    return found or None


def _earliest(due_ms: int, run: MergedRun) -> int:
    for batch in run.batches:
        header = BatchHeader.parse(batch)
        if header.has_delete_horizon:
            due_ms = min(due_ms or header.base_timestamp, header.base_timestamp)
    return due_ms


@dataclass(slots=True)
class _Slice:
    share: Share
    extents: ExtentTable
    runs: list[MergedRun] = field(default_factory=list)


class _SegmentWriter:
    """Collects runs until a segment is full, and writes it. Holds no more than one segment in memory."""

    def __init__(self, task: RewriteTask, store: ObjectStore, sequence: int) -> None:
        self.segments: list[tuple[int, int]] = []
        self._task = task
        self._store = store
        self._sequence = sequence
        self._last_sequence = sequence + (1 << _SEGMENT_BITS) - 1
        self._size = 0
        self._slices: list[_Slice] = []

    def begin(self, share: Share) -> ExtentTable:
        extents = ExtentTable()
        self._slices.append(_Slice(share, extents))
        return extents

    def add(self, run: MergedRun) -> None:
        """Adds a run to the current share. Batches within a block are copied, so that the block can be freed."""
        if self._size and self._size + run.size > self._task.settings.segment_bytes:
            self.flush()
        batches = [part if isinstance(part, bytes) else bytes(part) for part in run.batches]
        run.batches[:] = batches
        self._slices[-1].runs.append(run)
        self._size += run.size

    def discard(self) -> None:
        self._size -= sum(run.size for run in self._slices.pop().runs)

    def flush(self) -> None:
        slices = [each for each in self._slices if each.runs]
        if slices:
            self._write(slices)
        last = self._slices[-1:]
        self._slices = [_Slice(each.share, each.extents) for each in last]
        self._size = 0

    def _write(self, slices: Sequence[_Slice]) -> None:
        task = self._task
        if self._sequence > self._last_sequence:
            raise PipelineError(
                "a task would write too many segments: choose a larger --segment-bytes"
            )
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
