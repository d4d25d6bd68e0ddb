"""Many reads of a directory store in one call of its file system.

An object that is in a pack is a range of it, and reads of one pack that follow one another are one open.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from typing import TypeAlias

from lacuna.logstore.objects.directory_errors import NOT_THERE, store_error
from lacuna.logstore.objects.filesystem import FileRanges, FileSystem
from lacuna.logstore.objects.pack_index import PackIndex
from lacuna.logstore.objects.store import (
    ObjectNotFoundError,
    ObjectStoreError,
    RangeRead,
    ShortReadError,
    StoreMetrics,
    check_key,
)

Outcomes: TypeAlias = list[ObjectStoreError | None]


class RangeReads:
    """Reads objects where the index says that they are, and others from their files below `root`."""

    def __init__(
        self, file_system: FileSystem, root: str, index: PackIndex, metrics: StoreMetrics
    ) -> None:
        self._fs = file_system
        self._root = root
        self._index = index
        self._metrics = metrics

    def read(self, reads: Sequence[RangeRead], buffer: bytearray) -> Outcomes:
        """Do each read into `buffer`; return the error of each, or None."""
        outcomes: Outcomes = [None] * len(reads)
        asked: list[tuple[int, RangeRead]] = []
        paths: list[str] = []
        firsts = array("q")
        parts: list[tuple[int, int, int]] = []
        for at, read in enumerate(reads):
            place = self._index.find(read.key)
            if place is None:
                path, shift = f"{self._root}/{check_key(read.key)}", 0
            elif _end(read) > place.size:
                outcomes[at] = _short(read, place.size)
                continue
            else:
                path, shift = place.path, place.position
            if not paths or paths[-1] != path:
                paths.append(path)
                firsts.append(len(parts))
            parts += [(position + shift, size, start) for position, size, start in read.parts]
            asked.append((at, read))
        if parts:
            firsts.append(len(parts))
            positions, sizes, starts = (array("q", column) for column in zip(*parts, strict=True))
            ranges = FileRanges(
                paths=paths, firsts=firsts, positions=positions, sizes=sizes, starts=starts
            )
            self._note(asked, self._fs.read_ranges(ranges, buffer), sizes, outcomes)
        return outcomes

    def _note(
        self,
        asked: Sequence[tuple[int, RangeRead]],
        counts: Sequence[int],
        sizes: Sequence[int],
        outcomes: Outcomes,
    ) -> None:
        """Turn the bytes that were read of each range into the outcomes of the reads."""
        if counts == sizes:
            self._metrics.count_get(sum(sizes), len(asked))
            return
        first = 0
        for at, read in asked:
            found = counts[first : first + len(read.parts)]
            first += len(read.parts)
            for (position, size, _), count in zip(read.parts, found, strict=True):
                if count != size:
                    outcomes[at] = self._error(read, position, count)
                    break
            else:
                self._metrics.count_get(sum(size for _, size, _ in read.parts))

    def _error(self, read: RangeRead, position: int, count: int) -> ObjectStoreError:
        """The error for a part at `position` of which only `count` bytes were read; a negative one is -errno."""
        if count >= 0:
            return _short(read, position + count)
        error = OSError(-count, os.strerror(-count))
        if isinstance(error, NOT_THERE):
            return ObjectNotFoundError(read.key)
        return store_error(self._root, error)


def _end(read: RangeRead) -> int:
    """Where the last part of a read ends in its object."""
    position, size, _ = read.parts[-1]
    return position + size


def _short(read: RangeRead, end: int) -> ShortReadError:
    """The error for a read of an object that ends at `end`."""
    return ShortReadError(read.key, read.position, read.size, max(0, end - read.position))
