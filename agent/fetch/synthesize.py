"""From cached extents to the buffers of an answer (S15-S20): pass through, coalesce, fill.

Passing through is a slice of what is cached. Runs of small batches are coalesced once and cached.
A hole behind the last record is closed by the filler, which is also all there is where nothing is
left.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from agent.fetch.cache import Entry, ExtentCache, ExtentCorruptError
from agent.wire import Buffer
from logstore.records.control import filler
from logstore.records.errors import RecordsError
from logstore.records.kernel import coalesce, walk_stored
from logstore.records.layout import ATTRIBUTES_AT, CODEC_MASK, Codec

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
    entries: Sequence[Entry],
    asked_offset: int,
    resume_offset: int,
    max_bytes: int,
    at_least_one: bool,
) -> Emission:
    """The batches of `entries` from the one that holds `asked_offset` or follows it (S15).

    At most `max_bytes`, but the first batch in any case with `at_least_one` (KIP-74). From the last
    entry on there is nothing live before `resume_offset`: a filler takes the client there where it
    fits, and in any case where it is all there is (S16, S17).
    """
    slices = _Slices()
    size = 0
    position = asked_offset
    for entry in entries:
        first = bisect_left(entry.last_offsets, asked_offset) if entry is entries[0] else 0
        count = len(entry.last_offsets)
        if first == count:
            continue
        positions = entry.positions
        stop = count
        if positions[count] - positions[first] > max_bytes - size:
            stop = bisect_right(positions, positions[first] + max_bytes - size) - 1
            if stop <= first and at_least_one and not size:
                stop = first + 1
        if stop > first:
            slices.add(entry.data, entry.start + positions[first], entry.start + positions[stop])
            size += positions[stop] - positions[first]
            position = entry.last_offsets[stop - 1] + 1
        if stop < count:
            resume_offset = entry.base_offsets[max(stop, first)]
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
    """Slices of entries; one that goes on where the last one ended makes that one longer."""

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
    """Replaces runs of entries with small batches by one entry with large ones (S19).

    A run is at most COALESCE_SOURCE_BYTES (or one entry), so that what it costs is bounded, and
    what it gives is cached.
    """

    def __init__(self, cache: ExtentCache) -> None:
        self._cache = cache

    def merge(self, entries: Sequence[Entry]) -> list[Entry]:
        """The same records in as few entries as may be. Raises ExtentCorruptError."""
        if not any(entry.is_small for entry in entries):
            return list(entries)
        merged: list[Entry] = []
        run: list[Entry] = []
        run_size = 0
        for entry in entries:
            if not entry.is_small or run_size + entry.size > COALESCE_SOURCE_BYTES:
                self._flush(run, merged)
                run, run_size = [], 0
            if entry.is_small:
                run.append(entry)
                run_size += entry.size
            else:
                merged.append(entry)
        self._flush(run, merged)
        return merged

    def _flush(self, run: list[Entry], merged: list[Entry]) -> None:
        if not run:
            return
        if len(run) == 1 and len(run[0].base_offsets) == 1:
            merged.append(run[0])
            return
        try:
            batches = coalesce([entry.view for entry in run], -1, COALESCED_BATCH_BYTES)
            data = bytearray().join(batches)
            walked = walk_stored(data, run[0].base_offsets[0], False)
        except (RecordsError, ValueError) as error:
            raise ExtentCorruptError(
                f"offsets from {run[0].base_offsets[0]} on cannot be coalesced: {error}"
            ) from error
        merged.append(self._cache.add_coalesced(data, walked, run))


def holds_zstd(entry: Entry) -> bool:
    """Whether any batch is compressed with zstd, which Fetch below v10 may not carry (KIP-110)."""
    low_attributes = entry.start + ATTRIBUTES_AT + 1
    return any(
        entry.data[low_attributes + position] & CODEC_MASK == Codec.ZSTD
        for position in entry.positions[:-1]
    )
