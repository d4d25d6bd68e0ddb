"""Merges the live batches of a partition into fewer, larger ones with true offsets.

The functions are pure: they turn ranges of bytes into runs of batches. Only one range and one run are in memory at a
time, however large the partition is. The caller omits ranges that are to be dropped (aborted, expired), and lists
single records to drop in `LiveRange.dropped`; their offsets become holes. All other records are kept (S14, S19).

A batch of at least `pass_through_size` bytes that needs no change keeps its bytes, except for base_offset (S20).
Smaller batches are coalesced with their neighbours, and lose the producer id and the transactional bit, which are not
needed below the last stable offset. A partition's runs, in order, make up one slice of a segment with true offsets:

    runs = list(merge_ranges(ranges, end_offset))
    batches = [batch for run in runs for batch in run.batches]
    written = write_segment(..., [SliceInput(topic_id, partition, batches)], has_true_offsets=True)
    written.slices[0].position + runs[0].position    # where the first run lies in the object
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from lacuna.logstore.objects import Part
from lacuna.logstore.records.batch import BatchHeader
from lacuna.logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, check_level
from lacuna.logstore.records.errors import CorruptBatchError, RecordsError, TruncatedBatchError
from lacuna.logstore.records.kernel import walk_and_patch, walk_stored
from lacuna.logstore.records.layout import NO_TIMESTAMP, Codec, TimestampType
from lacuna.logstore.records.rewriting import KeyTable, Rewriter, batch_size, has_tombstones
from lacuna.logstore.segments.layout import MAX_BLOCK_SIZE, CorruptSegmentError

RUN_SIZE = 1024 * 1024
"""The maximum number of bytes in a run, unless one batch is larger."""
PASS_THROUGH_SIZE = 64 * 1024
"""Batches of at least this many bytes are not worth rewriting."""


@dataclass(frozen=True, slots=True)
class LiveRange:
    """Complete batches of one extent, read from `position` of the object `key`.

    `data` must be writable, since it is patched in place. The offsets are the extent's. With `has_true_offsets`, the
    batches lie within [base_offset, next_offset); otherwise, they take up exactly that range. `dropped` lists, in
    ascending order, the offsets of records to drop; offsets that no record of the range has are ignored.
    """

    key: str
    position: int
    data: bytearray | memoryview
    base_offset: int
    next_offset: int
    has_true_offsets: bool
    dropped: array[int] | None = None


@dataclass(frozen=True, slots=True)
class MergedRun:
    """Consecutive batches with true offsets and the same timestamp type. Each buffer holds one batch.

    `position`, relative to the partition's slice, and `size` are in bytes. `next_offset` is the offset that follows the
    last batch. In the last run, it is the end of the merged offsets, even if there is a hole before it.
    """

    batches: list[Part]
    position: int
    size: int
    base_offset: int
    next_offset: int
    max_timestamp: int
    timestamp_type: TimestampType


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """How batches are written. Sizes are in bytes.

    `batch_size` limits the uncompressed size of a written batch, unless it consists of one larger record. A block holds
    as many complete batches as fit into MAX_BLOCK_SIZE, but at least one. All merged batches get `codec`, except for a
    single record that is too large for readers to decompress. If `codec` is None, each batch keeps its codec, and a
    coalesced batch gets that of its first record. `compression_level` is specific to the codec.

    Tombstones keep their batch's delete horizon (KIP-534). With `delete_horizon` (in ms: the time of the compaction
    plus delete.retention.ms), every batch is searched for tombstones that have no horizon, and they get this one.
    """

    run_size: int = RUN_SIZE
    pass_through_size: int = PASS_THROUGH_SIZE
    batch_size: int = MAX_BLOCK_SIZE
    codec: Codec | None = None
    compression_level: int | None = None
    delete_horizon: int = NO_TIMESTAMP

    def __post_init__(self) -> None:
        if not 0 < self.batch_size <= DEFAULT_MAX_DECOMPRESSED_BYTES:
            raise ValueError(
                f"batch_size {self.batch_size} is not in [1, {DEFAULT_MAX_DECOMPRESSED_BYTES}]: "
                "readers refuse to decompress more"
            )
        if self.compression_level is not None:
            if self.codec is None:
                raise ValueError("compression_level needs a codec that has levels")
            check_level(self.codec, self.compression_level)


DEFAULT_OPTIONS = MergeOptions()


def merge_ranges(
    ranges: Iterable[LiveRange], end_offset: int, options: MergeOptions = DEFAULT_OPTIONS
) -> Iterator[MergedRun]:
    """Yield the runs that replace `ranges`, which must be in order and end at or before `end_offset`.

    There are no runs if no record remains. Raises `CorruptSegmentError` for bytes that are not the batches of their
    range, and ValueError for ranges that are out of order.
    """
    position = 0
    run: _Run | None = None
    for batch in _merged_batches(ranges, end_offset, options):
        header = BatchHeader.parse(batch)
        if run is not None and not run.takes(header, options.run_size):
            yield run.merged(position, run.next_offset)
            position += run.size
            run = None
        run = run or _Run(header)
        run.add(batch, header)
    if run is not None:
        yield run.merged(position, end_offset)


def with_true_offsets(live: LiveRange) -> LiveRange:
    """Check the batches of a range and write their offsets into them. Raises CorruptSegmentError."""
    for _ in _batches_with_offsets(live):
        pass
    return replace(live, has_true_offsets=True)


def note_keys(live: LiveRange, table: KeyTable, first_offset: int, end_offset: int) -> int:
    """Add the keys of a checked range to `table`. Returns what `KeyTable.note` returns; raises CorruptSegmentError."""
    for batch in _checked_batches(live):
        try:
            full_at = table.note(batch.data, first_offset, end_offset)
        except (RecordsError, ValueError) as error:
            raise batch.corrupt(error) from error
        if full_at >= 0:
            return full_at
    return -1


def sweep_keys(
    live: LiveRange, table: KeyTable, now_ms: int, *, drops_tombstones: bool
) -> LiveRange:
    """Return a checked range whose `dropped` is what `KeyTable.sweep` returns. Raises CorruptSegmentError."""
    dropped = array("q")
    for batch in _checked_batches(live):
        try:
            dropped.extend(table.sweep(batch.data, now_ms, drops_tombstones))
        except (RecordsError, ValueError) as error:
            raise batch.corrupt(error) from error
    return replace(live, dropped=dropped or None)


def _checked_batches(live: LiveRange) -> Iterator[_StoredBatch]:
    view = memoryview(live.data)
    start = 0
    while start < len(view):
        stop = start + batch_size(view, start, len(view))
        yield _StoredBatch(live, start, view[start:stop])
        start = stop


def _merged_batches(
    ranges: Iterable[LiveRange], end_offset: int, options: MergeOptions
) -> Iterator[Part]:
    rewrite = _Rewrite(options)
    next_offset = 0
    for live in ranges:
        if not next_offset <= live.base_offset < live.next_offset <= end_offset:
            raise ValueError(
                f"range [{live.base_offset}, {live.next_offset}) does not lie in "
                f"[{next_offset}, {end_offset})"
            )
        next_offset = live.next_offset
        for batch in _batches_with_offsets(live):
            yield from rewrite.add(batch)
    yield from rewrite.finish()


class _StoredBatch(NamedTuple):
    live: LiveRange
    start: int
    data: memoryview

    def corrupt(self, error: Exception) -> CorruptSegmentError:
        live = self.live
        size = len(self.data)
        return CorruptSegmentError(live.key, live.position + self.start, size, str(error))


def _batches_with_offsets(live: LiveRange) -> Iterator[_StoredBatch]:
    """Check the batches of a range, write their offsets into them, and yield them."""
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
        yield _StoredBatch(live, start, view[start:stop])


class _Rewrite:
    def __init__(self, options: MergeOptions) -> None:
        self._options = options
        self._writer = Rewriter(
            codec=-1 if options.codec is None else options.codec,
            compression_level=options.compression_level,
            max_bytes=options.batch_size,
            keeps_horizons=True,
            delete_horizon=options.delete_horizon,
        )
        self._is_writing = False
        # A small batch that is waiting for a neighbour; if none follows, it stays unchanged.
        self._lonely: _StoredBatch | None = None

    def add(self, batch: _StoredBatch) -> list[Part]:
        is_large = len(batch.data) >= self._options.pass_through_size
        is_first = not self._is_writing and self._lonely is None
        if (is_large or is_first) and self._may_stay(batch):
            if is_large:
                return [*self.finish(), batch.data]
            self._lonely = batch
            return []
        if self._lonely is not None:
            self._write(self._lonely)
            self._lonely = None
        self._write(batch)
        return [*self._writer.take()]

    def finish(self) -> list[Part]:
        """End the batch being written, and return all batches not returned before."""
        if self._lonely is not None:
            batch = self._lonely
            self._lonely = None
            return [batch.data]
        self._writer.end_batch()
        self._is_writing = False
        return [*self._writer.take()]

    def _write(self, batch: _StoredBatch) -> None:
        self._is_writing = True
        try:
            self._writer.add(batch.data, batch.live.dropped)
        except (RecordsError, ValueError) as error:
            raise batch.corrupt(error) from error

    def _may_stay(self, batch: _StoredBatch) -> bool:
        """Whether the batch can stay unchanged: no record is dropped, and its codec and horizon are right."""
        header = BatchHeader.parse(batch.data)
        dropped = batch.live.dropped
        if dropped is not None:
            index = bisect_left(dropped, header.base_offset)
            if index < len(dropped) and dropped[index] <= header.last_offset:
                return False
        options = self._options
        try:
            if options.codec is not None and header.codec is not options.codec:
                return False
            needs_horizon = options.delete_horizon >= 0 and not header.has_delete_horizon
            return not (needs_horizon and has_tombstones(batch.data))
        except RecordsError as error:
            raise batch.corrupt(error) from error


class _Run:
    """A run under construction. It keeps only the first header, since a run may have very many batches."""

    def __init__(self, first: BatchHeader) -> None:
        self.size = 0
        self.next_offset = 0
        self._batches: list[Part] = []
        self._first = first
        self._max_timestamp = first.max_timestamp

    def takes(self, header: BatchHeader, run_size: int) -> bool:
        is_alike = header.timestamp_type is self._first.timestamp_type
        return is_alike and self.size + header.size <= run_size

    def add(self, batch: Part, header: BatchHeader) -> None:
        self._batches.append(batch)
        self.size += header.size
        self.next_offset = header.next_offset
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)

    def merged(self, position: int, next_offset: int) -> MergedRun:
        return MergedRun(
            self._batches,
            position,
            self.size,
            self._first.base_offset,
            next_offset,
            self._max_timestamp,
            self._first.timestamp_type,
        )


def _corrupt(live: LiveRange, reason: str, start: int = 0) -> CorruptSegmentError:
    return CorruptSegmentError(live.key, live.position + start, len(live.data) - start, reason)
