"""Turns spans into the buffers of an answer by cutting them to the limits and filling the hole that follows (S15-S17).
Has no side effects.

Batches are sent as slices of the cache. A filler moves the client past a hole after the last record. If there are no
records, the filler is the entire answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache

from lacuna.agent.fetch.stretch import Span
from lacuna.logstore.records.control import filler
from lacuna.wire.layout import Buffer

_cached_filler = lru_cache(maxsize=256)(filler)


def emit(
    spans: Sequence[Span],
    asked_offset: int,
    resume_offset: int,
    max_bytes: int,
    at_least_one: bool,
) -> tuple[Buffer, ...]:
    """Return the batches of `spans`, beginning with the one that contains `asked_offset` or else follows it (S15).

    Returns at most `max_bytes`, except that with `at_least_one` the first batch is returned regardless of its size
    (KIP-74). Nothing between the last span and `resume_offset` is live. A filler moves the client to `resume_offset` if
    it fits into `max_bytes`, or if it is the entire answer (S16, S17).
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
    return tuple(buffers)


def slices_of(spans: Sequence[Span], ranges: Sequence[tuple[int, int]]) -> tuple[Buffer, ...]:
    """Return the batches of `spans` with an offset in one of the ranges [first, end). Both arguments are in order."""
    slices = _Slices()
    sent = -1
    for span in spans:
        stretch = span.stretch
        for first_offset, end_offset in ranges:
            first = bisect_left(
                stretch.last_offsets, max(first_offset, sent + 1), span.first, span.end
            )
            stop = bisect_left(stretch.base_offsets, end_offset, first, span.end)
            if first < stop:
                slices.add(stretch.data, stretch.positions[first], stretch.positions[stop])
                sent = stretch.last_offsets[stop - 1]
    return tuple(slices.finish())


class _Slices:
    """Collects slices of loads, and joins adjacent slices."""

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
