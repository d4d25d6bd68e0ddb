"""Looks up offsets by timestamp, in a partition's view and then in the extents it points to (S21)."""

from collections.abc import Iterator
from typing import NamedTuple

from lacuna.agent.fetch.cache import ExtentCache
from lacuna.agent.fetch.loading import Run
from lacuna.agent.fetch.stretch import Span
from lacuna.controlplane.client import PartitionView
from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.live import late_extents, live_slices
from lacuna.controlplane.shared.log.pieces import Piece, Pieces, piece_at
from lacuna.logstore.records.batch import RecordBatch, read_batches


class TimedOffset(NamedTuple):
    """A record's offset and its timestamp in ms."""

    offset: int
    timestamp: int


async def first_at_or_after(
    cache: ExtentCache, view: PartitionView, timestamp: int, is_committed: bool
) -> TimedOffset | None:
    """Return the first record whose timestamp is at least `timestamp` (ms), or None if there is none.

    With `is_committed`, only records that a read_committed consumer may see are considered. Raises ExtentError.
    """
    offset = view.log_start_offset
    while (piece := _next_piece(view, offset, timestamp, is_committed)) is not None:
        span = await _read_piece(cache, view, piece)
        for batch in _batches_from(span, timestamp, view.log_start_offset):
            # The log may start inside a batch, whose records before the log start do not count.
            for record in batch.records():
                if record.timestamp >= timestamp and record.offset >= view.log_start_offset:
                    return TimedOffset(record.offset, record.timestamp)
        offset = piece.next_offset
    return None


def _next_piece(
    view: PartitionView, offset: int, timestamp: int, is_committed: bool
) -> Piece | None:
    """Return the first visible extent that ends after `offset` and may hold a record at or after `timestamp`."""
    late = late_extents(*_visible(view, offset, is_committed), timestamp)
    return next((piece_at(view.extents, index) for index in late), None)


async def latest_by_time(
    cache: ExtentCache, view: PartitionView, is_committed: bool
) -> TimedOffset | None:
    """Return the first of the visible records with the largest timestamp, or None if no record has a timestamp.

    With `is_committed`, only records that a read_committed consumer may see are considered. Raises ExtentError.
    """
    while True:
        log_start_offset = view.log_start_offset
        found = await _latest(cache, view, is_committed)
        if found is not None or view.log_start_offset == log_start_offset:
            return found  # otherwise the records have just been deleted: look again


async def _latest(
    cache: ExtentCache, view: PartitionView, is_committed: bool
) -> TimedOffset | None:
    log_start_offset = view.log_start_offset
    best = _latest_extent(view, log_start_offset, is_committed)
    if best is None:
        return None
    found = None
    if view.extents.base_offsets[best] < log_start_offset:
        # The largest timestamp of an extent may belong to a record before the log start.
        piece = piece_at(view.extents, best)
        found = await _latest_record(cache, view, piece, log_start_offset)
        best = _latest_extent(view, piece.next_offset, is_committed)
        if best is None:
            return found
    timestamp = view.extents.max_timestamps[best]
    if found is not None and found.timestamp >= timestamp:
        return found
    return await first_at_or_after(cache, view, timestamp, is_committed)


def _latest_extent(view: PartitionView, offset: int, is_committed: bool) -> int | None:
    """Return the index of the first visible extent after `offset` with the largest timestamp, or None."""
    max_timestamps = view.extents.max_timestamps
    best, latest = None, -1
    for start, stop in live_slices(*_visible(view, offset, is_committed)):
        newest = max(max_timestamps[start:stop])
        if newest > latest:
            best, latest = max_timestamps.index(newest, start, stop), newest
    return best


async def _latest_record(
    cache: ExtentCache, view: PartitionView, piece: Piece, log_start_offset: int
) -> TimedOffset | None:
    """Return the first record at or after `log_start_offset` that has the extent's largest timestamp."""
    span = await _read_piece(cache, view, piece)
    found: TimedOffset | None = None
    for batch in _batches_from(span, 0, log_start_offset):
        for record in batch.records():
            largest = found.timestamp if found is not None else -1
            if record.timestamp > largest and record.offset >= log_start_offset:
                found = TimedOffset(record.offset, record.timestamp)
    return found


async def _read_piece(cache: ExtentCache, view: PartitionView, piece: Piece) -> Span:
    run = Run((view.topic_id, view.partition), Pieces.of([piece]))
    span = cache.find(*run, 0)
    if span is None:
        ((spans, error),) = await cache.read([run])
        if error is not None:
            raise error
        (span,) = spans
    return span


def _visible(
    view: PartitionView, offset: int, is_committed: bool
) -> tuple[ExtentTable, DeadRanges | None, int, int]:
    """Return the extents, the dead ranges to skip, and the indexes [start, stop) of the extents to examine.

    These end after `offset`, and at or before the end for the isolation level. That end may lie within an extent, if
    DeleteRecords moved the log start into an open transaction. Such an extent is not visible, since extents are decided
    as a whole.
    """
    extents = view.extents
    bound = view.last_stable_offset if is_committed else view.high_watermark
    start, stop = extents.first_ending_after(offset), extents.first_ending_after(bound)
    return extents, view.dead if is_committed else None, start, stop


def _batches_from(span: Span, timestamp: int, log_start_offset: int) -> Iterator[RecordBatch]:
    """Yield the span's batches that may hold records at or after both `timestamp` and `log_start_offset`."""
    stretch = span.stretch
    for index in range(span.first, span.end):
        is_late = stretch.max_timestamps[index] >= timestamp
        if is_late and stretch.last_offsets[index] >= log_start_offset:
            begin, end = stretch.positions[index], stretch.positions[index + 1]
            yield from read_batches(stretch.data[begin:end], verify=False)
