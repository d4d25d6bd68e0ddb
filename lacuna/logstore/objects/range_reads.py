"""Many reads of a directory store in one call of its file system.

A packed object is a range of its pack, and consecutive reads of one pack share an open file.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from typing import TypeAlias

from lacuna.logstore.objects.directory_errors import NOT_THERE, store_error
from lacuna.logstore.objects.filesystem import FileRanges, FileSystem
from lacuna.logstore.objects.pack_index import PackIndex, Place
from lacuna.logstore.objects.reading import shift_ranges
from lacuna.logstore.objects.store import (
    ObjectNotFoundError,
    ObjectStoreError,
    RangeRead,
    Reads,
    ShortReadError,
    StoreMetrics,
    WritableBuffer,
    check_key,
)

Outcomes: TypeAlias = list[ObjectStoreError | None]


class RangeReads:
    """Reads packed objects at their places in the index, and others from their files below `root`."""

    def __init__(
        self, file_system: FileSystem, root: str, index: PackIndex, metrics: StoreMetrics
    ) -> None:
        self._fs = file_system
        self._root = root
        self._index = index
        self._metrics = metrics

    def read(self, reads: Sequence[RangeRead], buffer: WritableBuffer) -> Outcomes:
        """Do each read into `buffer`, and return the error of each, or None."""
        asked = Reads.of(reads)
        places = self._index.find_each(asked.keys)
        short = {
            at: _short(asked[at], place.size)
            for at, place in enumerate(places)
            if place is not None and _end(asked, at) > place.size
        }
        if not short:
            return self._read(asked, places, buffer)
        left = [at for at in range(len(asked)) if at not in short]
        found = self._read(
            Reads.of([asked[at] for at in left]), [places[at] for at in left], buffer
        )
        outcomes: dict[int, ObjectStoreError | None] = {
            **short,
            **dict(zip(left, found, strict=True)),
        }
        return [outcomes[at] for at in range(len(asked))]

    def _read(
        self, reads: Reads, places: Sequence[Place | None], buffer: WritableBuffer
    ) -> Outcomes:
        """Do reads whose place in a pack is known, if they are of packed objects."""
        paths: list[str] = []
        firsts = array("q")
        shifts = array("q")
        for key, place, first in zip(reads.keys, places, reads.firsts, strict=False):
            path, shift = (f"{self._root}/{check_key(key)}", 0) if place is None else place[:2]
            if not paths or paths[-1] != path:
                paths.append(path)
                firsts.append(first)
            shifts.append(shift)
        firsts.append(len(reads.positions))
        ranges = FileRanges(
            paths=paths,
            firsts=firsts,
            positions=shift_ranges(reads.positions, reads.firsts, shifts),
            sizes=reads.sizes,
            starts=reads.starts,
        )
        return self._outcomes(reads, self._fs.read_ranges(ranges, buffer))

    def _outcomes(self, reads: Reads, counts: Sequence[int]) -> Outcomes:
        """Turn the bytes that were read of each range into the outcomes of the reads."""
        outcomes: Outcomes = [None] * len(reads)
        if counts == reads.sizes:
            self._metrics.count_get(sum(reads.sizes), len(reads))
            return outcomes
        for at, read in enumerate(reads):
            found = counts[reads.firsts[at] : reads.firsts[at + 1]]
            for (position, size, _), count in zip(read.parts, found, strict=True):
                if count != size:
                    outcomes[at] = self._error(read, position, count)
                    break
            else:
                self._metrics.count_get(sum(size for _, size, _ in read.parts))
        return outcomes

    def _error(self, read: RangeRead, position: int, count: int) -> ObjectStoreError:
        """Return the error for a part at `position` of which only `count` bytes were read; a negative count
        is -errno.
        """
        if count >= 0:
            return _short(read, position + count)
        error = OSError(-count, os.strerror(-count))
        if isinstance(error, NOT_THERE):
            return ObjectNotFoundError(read.key)
        return store_error(self._root, error)


def _end(reads: Reads, at: int) -> int:
    """Return the end of a read's last part in its object."""
    last = reads.firsts[at + 1] - 1
    return reads.positions[last] + reads.sizes[last]


def _short(read: RangeRead, end: int) -> ShortReadError:
    """Return the error for a read of an object that ends at `end`."""
    return ShortReadError(read.key, read.position, read.size, max(0, end - read.position))
