"""Merge the live batches of one partition into fewer, larger ones with true offsets.

Pure: ranges of bytes in, runs of batches out, a run at a time, so that memory is bounded by one
range and one run whatever the partition holds. What is to be left out (aborted, expired) the caller
does not hand in: it becomes a hole. What is handed in stays, record for record (S14, S19).

Batches of at least `pass_through_size` keep their bytes but base_offset (S20); smaller ones are
coalesced with their neighbours and lose producer id and transactional bit, which nobody asks for
below the last stable offset. The runs of a partition, in order, are one slice of a segment that has
true offsets:

    runs = list(merge_ranges(ranges, end_offset))
    batches = [batch for run in runs for batch in run.batches]
    written = write_segment(..., [SliceInput(topic_id, partition, batches)], has_true_offsets=True)
    written.slices[0].position + runs[0].position    # where the first run lies in the object
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from logstore.objects import Part
from logstore.records.batch import BatchHeader
from logstore.records.errors import CorruptBatchError, RecordsError, TruncatedBatchError
from logstore.records.kernel import coalesce, walk_and_patch, walk_stored
from logstore.records.layout import TimestampType
from logstore.segments.layout import MAX_BLOCK_SIZE, CorruptSegmentError

RUN_SIZE = 1024 * 1024
"""Bytes of a run at most, unless one batch is larger."""
PASS_THROUGH_SIZE = 64 * 1024
"""Bytes from which on a batch is not worth taking apart."""


@dataclass(frozen=True, slots=True)
class LiveRange:
    """Whole batches of one extent, as read from `position` of the object `key`.

    `data` is writable and is patched in place. The offsets are those of the extent: without
    `has_true_offsets` the batches take exactly [base_offset, next_offset), with it they lie within.
    """

    key: str
    position: int
    data: bytearray | memoryview
    base_offset: int
    next_offset: int
    has_true_offsets: bool


@dataclass(frozen=True, slots=True)
class MergedRun:
    """Consecutive batches of one timestamp type, each buffer one batch, with true offsets.

    `position` and `size` in bytes, the position within the partition's slice. `next_offset` is
    behind the last batch; that of the last run is the end of what was merged, which closes a hole
    at its tail.
    """

    batches: list[Part]
    position: int
    size: int
    base_offset: int
    next_offset: int
    max_timestamp: int
    timestamp_type: TimestampType


def merge_ranges(
    ranges: Iterable[LiveRange],
    end_offset: int,
    *,
    run_size: int = RUN_SIZE,
    pass_through_size: int = PASS_THROUGH_SIZE,
) -> Iterator[MergedRun]:
    """The runs that replace `ranges`, which are in order and end at or below `end_offset`.

    No run for no range. Raises `CorruptSegmentError` for bytes that are not the batches that the
    range says, ValueError for ranges that are out of order.
    """
    position = 0
    ready: _Run | None = None
    for batch in _merged_batches(ranges, end_offset, run_size, pass_through_size):
        header = BatchHeader.parse(batch)
        if ready is not None and not ready.takes(header, run_size):
            yield ready.finish(position, ready.next_offset)
            position += ready.size
            ready = None
        ready = ready or _Run(header)
        ready.add(batch, header)
    if ready is not None:
        yield ready.finish(position, end_offset)


def _merged_batches(
    ranges: Iterable[LiveRange], end_offset: int, run_size: int, pass_through_size: int
) -> Iterator[Part]:
    small = _SmallBatches()
    next_offset = 0
    for live in ranges:
        if not next_offset <= live.base_offset < live.next_offset <= end_offset:
            raise ValueError(
                f"range [{live.base_offset}, {live.next_offset}) does not lie in "
                f"[{next_offset}, {end_offset})"
            )
        next_offset = live.next_offset
        for batch in _batches_with_offsets(live):
            if len(batch) >= pass_through_size:
                yield from small.take()
                yield batch
                continue
            small.add(live, batch)
            if small.size >= run_size:
                yield from small.take()
    yield from small.take()


def _batches_with_offsets(live: LiveRange) -> Iterator[memoryview]:
    """The batches of a range, checked, with their offsets patched in."""
    walk = walk_stored if live.has_true_offsets else walk_and_patch
    try:
        walked = walk(live.data, live.base_offset)
    except (CorruptBatchError, TruncatedBatchError) as error:
        raise _corrupt(live, str(error), error.position) from error
    end = walked.last_offsets[-1] + 1 if len(walked) else live.base_offset
    if end > live.next_offset or (end < live.next_offset and not live.has_true_offsets):
        raise _corrupt(live, f"its batches end at offset {end}, not at {live.next_offset}")
    view = memoryview(live.data)
    for start, stop in pairwise(walked.positions):
        yield view[start:stop]


@dataclass(slots=True)
class _SmallBatches:
    """Neighbouring small batches that wait to be coalesced, and the ranges that they come from."""

    chunks: list[memoryview] = field(default_factory=list)
    size: int = 0
    source: LiveRange | None = None

    def add(self, live: LiveRange, batch: memoryview) -> None:
        self.source = live
        self.chunks.append(batch)
        self.size += len(batch)

    def take(self) -> list[Part]:
        """All of them, coalesced; one alone stays as it is."""
        chunks, source = self.chunks, self.source
        self.chunks, self.size = [], 0
        if source is None or len(chunks) < 2:
            return [*chunks]
        try:
            return [*coalesce(chunks, max_bytes=MAX_BLOCK_SIZE)]
        except (RecordsError, ValueError) as error:
            raise _corrupt(source, f"it or a range before it: {error}") from error


class _Run:
    """A run that is being filled."""

    def __init__(self, first: BatchHeader) -> None:
        self.size = 0
        self.next_offset = 0
        self._batches: list[Part] = []
        self._base_offset = first.base_offset
        self._timestamp_type = first.timestamp_type
        self._max_timestamp = first.max_timestamp

    def takes(self, header: BatchHeader, run_size: int) -> bool:
        same_type = header.timestamp_type is self._timestamp_type
        return same_type and self.size + header.size <= run_size

    def add(self, batch: Part, header: BatchHeader) -> None:
        self._batches.append(batch)
        self.size += header.size
        self.next_offset = header.next_offset
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)

    def finish(self, position: int, next_offset: int) -> MergedRun:
        return MergedRun(
            self._batches,
            position,
            self.size,
            self._base_offset,
            next_offset,
            self._max_timestamp,
            self._timestamp_type,
        )


def _corrupt(live: LiveRange, reason: str, start: int = 0) -> CorruptSegmentError:
    return CorruptSegmentError(live.key, live.position + start, len(live.data) - start, reason)
