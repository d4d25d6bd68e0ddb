"""Offsets by time, from a partition's view and the extents that hold them (S21)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agent.fetch.cache import ExtentCache
from agent.fetch.loading import ExtentError
from agent.fetch.plan import Piece, piece_at
from agent.fetch.stretch import Span
from controlplane.extents import DeadRanges, ExtentTable
from logstore.records.batch import RecordBatch, read_batches

if TYPE_CHECKING:
    from controlplane.client import PartitionView


class TimedOffset(NamedTuple):
    """A record's offset and its timestamp in ms."""

    offset: int
    timestamp: int


async def first_at_or_after(
    cache: ExtentCache, view: "PartitionView", timestamp: int, is_committed: bool
) -> TimedOffset | None:
    """The first record at or behind `timestamp` that a consumer may see; None: there is none.

    Raises ExtentError.
    """
    offset = view.log_start_offset
    while (piece := _next_piece(view, offset, timestamp, is_committed)) is not None:
        span = await read_piece(cache, piece)
        for batch in _batches_from(span, timestamp, view.log_start_offset):
            # The log may start inside a batch, so its first such record need not be the one.
            for record in batch.records():
                if record.timestamp >= timestamp and record.offset >= view.log_start_offset:
                    return TimedOffset(record.offset, record.timestamp)
        offset = piece.next_offset
    return None


def _next_piece(
    view: "PartitionView", offset: int, timestamp: int, is_committed: bool
) -> Piece | None:
    """The first extent that ends behind `offset`, may hold such a record and may be seen."""
    max_timestamps = view.extents.max_timestamps
    for index in _visible(view, offset, is_committed):
        if max_timestamps[index] >= timestamp:
            return piece_at(view.extents, index)
    return None


async def latest_by_time(
    cache: ExtentCache, view: "PartitionView", is_committed: bool
) -> TimedOffset | None:
    """The first of the visible records with the largest timestamp; None: no record has one.

    Raises ExtentError.
    """
    while True:
        log_start_offset = view.log_start_offset
        found = await _latest(cache, view, is_committed)
        if found is not None or view.log_start_offset == log_start_offset:
            return found  # else what was looked for has been deleted meanwhile


async def _latest(
    cache: ExtentCache, view: "PartitionView", is_committed: bool
) -> TimedOffset | None:
    log_start_offset = view.log_start_offset
    best = _latest_extent(view, log_start_offset, is_committed)
    if best is None:
        return None
    found = None
    if view.extents.base_offsets[best] < log_start_offset:
        # The largest timestamp of an extent may be that of a record before the log's start.
        piece = piece_at(view.extents, best)
        found = await _latest_record(cache, piece, log_start_offset)
        best = _latest_extent(view, piece.next_offset, is_committed)
        if best is None:
            return found
    timestamp = view.extents.max_timestamps[best]
    if found is not None and found.timestamp >= timestamp:
        return found
    return await first_at_or_after(cache, view, timestamp, is_committed)


def _latest_extent(view: "PartitionView", offset: int, is_committed: bool) -> int | None:
    """The first of the extents behind `offset` that say the largest timestamp, if any says one."""
    max_timestamps = view.extents.max_timestamps
    best = max(
        _visible(view, offset, is_committed),
        key=lambda index: max_timestamps[index],
        default=None,
    )
    return None if best is None or max_timestamps[best] < 0 else best


async def _latest_record(
    cache: ExtentCache, piece: Piece, log_start_offset: int
) -> TimedOffset | None:
    """The first record with the largest timestamp of one extent, at or behind `log_start_offset`."""
    span = await read_piece(cache, piece)
    found: TimedOffset | None = None
    for batch in _batches_from(span, 0, log_start_offset):
        for record in batch.records():
            largest = found.timestamp if found is not None else -1
            if record.timestamp > largest and record.offset >= log_start_offset:
                found = TimedOffset(record.offset, record.timestamp)
    return found


async def read_piece(cache: ExtentCache, piece: Piece) -> Span:
    """One extent's batches. Raises ExtentError."""
    pieces = [piece]
    span = cache.find(pieces, 0)
    if span is None:
        result = (await cache.read((pieces,)))[piece.key]
        if isinstance(result, ExtentError):
            raise result
        stretch, first = result
        span = stretch.part(first, first + 1)
        assert span is not None, "what was read is not coalesced"
    return span


def _visible(view: "PartitionView", offset: int, is_committed: bool) -> Iterator[int]:
    """Indexes of the extents that end behind `offset` and that a consumer may see."""
    extents: ExtentTable = view.extents
    dead: DeadRanges = view.dead
    bound = view.last_stable_offset if is_committed else view.high_watermark
    for index in range(extents.first_ending_after(offset), len(extents)):
        base_offset = extents.base_offsets[index]
        if base_offset >= bound:
            return
        if not is_committed or dead.skip(base_offset) == base_offset:
            yield index


def _batches_from(span: Span, timestamp: int, log_start_offset: int) -> Iterator[RecordBatch]:
    """The batches that may hold such a record."""
    stretch = span.stretch
    for index in range(span.first, span.end):
        is_late = stretch.max_timestamps[index] >= timestamp
        if is_late and stretch.last_offsets[index] >= log_start_offset:
            begin, end = stretch.positions[index], stretch.positions[index + 1]
            yield from read_batches(stretch.data[begin:end], verify=False)
