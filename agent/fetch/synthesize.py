"""From cached spans to the buffers of an answer (S15-S20): pass through, coalesce, fill.

Passing through is a slice of what is cached. Runs of small batches are coalesced once and cached.
A hole behind the last record is closed by the filler, which is also all there is where nothing is
left.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from agent.fetch.buffers import ReadBuffer
from agent.fetch.cache import ExtentCache
from agent.fetch.loading import ExtentCorruptError
from agent.fetch.stretch import Span
from agent.wire import Buffer
from logstore.records.control import filler
from logstore.records.errors import RecordsError
from logstore.records.kernel import coalesce, walk_stored

COALESCE_SOURCE_BYTES: Final = 1 << 20
COALESCED_BATCH_BYTES: Final = 64 * 1024

_cached_filler = lru_cache(maxsize=256)(filler)


@dataclass(frozen=True, slots=True)
class Emission:
    """Buffers that stand one behind the other, their size in bytes, and what a client asks next.

    `next_offset` is behind the last batch, a filler included.
    """

    buffers: tuple[Buffer, ...]
    size: int
    next_offset: int


def emit(
    spans: Sequence[Span],
    asked_offset: int,
    resume_offset: int,
    max_bytes: int,
    at_least_one: bool,
) -> Emission:
    """The batches of `spans` from the one that holds `asked_offset` or follows it (S15).

    At most `max_bytes`, but the first batch in any case with `at_least_one` (KIP-74). From the last
    span on there is nothing live before `resume_offset`: a filler takes the client there where it
    fits, and in any case where it is all there is (S16, S17).
    """
    slices = _Slices()
    size = 0
    position = asked_offset
    for index, span in enumerate(spans):
        stretch, first, end = span.stretch, span.first, span.end
        if not index:
            first = bisect_left(stretch.last_offsets, asked_offset, first, end)
        if first == end:
            continue
        positions = stretch.positions
        begin = positions[first]
        stop = end
        if positions[end] - begin > max_bytes - size:
            stop = bisect_right(positions, begin + max_bytes - size, first, end) - 1
            if stop <= first and at_least_one and not size:
                stop = first + 1
        if stop > first:
            slices.add(stretch.data, begin, positions[stop])
            size += positions[stop] - begin
            position = stretch.last_offsets[stop - 1] + 1
        if stop < end:
            resume_offset = stretch.base_offsets[max(stop, first)]
            break
    buffers = slices.finish()
    if position < resume_offset:
        closing = _cached_filler(position, resume_offset)
        if not buffers or size + len(closing) <= max_bytes:
            buffers.append(closing)
            size += len(closing)
            position = resume_offset
    return Emission(tuple(buffers), size, position)


class _Slices:
    """Slices of loads; one that goes on where the last one ended makes that one longer."""

    __slots__ = ("_begin", "_buffers", "_data", "_end")

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._data: memoryview | None = None
        self._begin = self._end = 0

    def add(self, data: memoryview, begin: int, end: int) -> None:
        if data is self._data and begin == self._end:
            self._end = end
            return
        if self._data is not None:
            self._buffers.append(self._data[self._begin : self._end])
        self._data, self._begin, self._end = data, begin, end

    def finish(self) -> list[Buffer]:
        if self._data is not None:
            self._buffers.append(self._data[self._begin : self._end])
        return self._buffers


class Coalescer:
    """Replaces spans of small batches by spans of large ones (S19).

    What is coalesced at once is at most COALESCE_SOURCE_BYTES (or one piece), so that what it costs
    is bounded, and what it gives is cached.
    """

    def __init__(self, cache: ExtentCache) -> None:
        self._cache = cache

    def merge(self, spans: Sequence[Span]) -> list[Span]:
        """The same records in as few batches as may be. Raises ExtentCorruptError."""
        if not any(span.is_small for span in spans):
            return list(spans)
        merged: list[Span] = []
        run: list[Span] = []
        run_size = 0
        for span in spans:
            if not span.is_small:
                self._flush(run, merged)
                run, run_size = [], 0
                merged.append(span)
                continue
            for part in _in_parts(span):
                if run_size + part.size > COALESCE_SOURCE_BYTES:
                    self._flush(run, merged)
                    run, run_size = [], 0
                run.append(part)
                run_size += part.size
        self._flush(run, merged)
        return merged

    def _flush(self, run: list[Span], merged: list[Span]) -> None:
        if not run:
            return
        first = run[0]
        if len(run) == 1 and first.end - first.first == 1:
            merged.append(first)
            return
        base_offset = first.stretch.base_offsets[first.first]
        try:
            batches = coalesce([span.view for span in run], -1, COALESCED_BATCH_BYTES)
            data = ReadBuffer()
            for batch in batches:
                data += batch
            walked = walk_stored(data, base_offset, False)
        except (RecordsError, ValueError) as error:
            raise ExtentCorruptError(
                f"offsets from {base_offset} on cannot be coalesced: {error}"
            ) from error
        pieces = [piece for span in run for piece in span.pieces]
        merged.append(self._cache.add_coalesced(data, walked, pieces))


def _in_parts(span: Span) -> Iterator[Span]:
    """The span in parts of at most COALESCE_SOURCE_BYTES, or of one piece."""
    pieces = span.stretch.pieces
    first, size = span.first_piece, 0
    for index in range(first, span.end_piece):
        if index > first and size + pieces[index].size > COALESCE_SOURCE_BYTES:
            yield _part(span, first, index)
            first, size = index, 0
        size += pieces[index].size
    yield _part(span, first, span.end_piece)


def _part(span: Span, first: int, end: int) -> Span:
    part = span.stretch.part(first, end)
    assert part is not None, "every piece of what was read has a batch"
    return part
