"""Many reads of a directory store in one call of its file system."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from typing import TypeAlias

from lacuna.logstore.objects.directories import NOT_THERE, store_error
from lacuna.logstore.objects.filesystem import FileRanges, FileSystem
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
    """Reads objects from their files below `root`. Consecutive reads of one object share an open file."""

    def __init__(self, file_system: FileSystem, root: str, metrics: StoreMetrics) -> None:
        self._fs = file_system
        self._root = root
        self._metrics = metrics

    def read(self, reads: Sequence[RangeRead], buffer: WritableBuffer) -> Outcomes:
        """Do each read into `buffer`, and return the error of each, or None."""
        asked = Reads.of(reads)
        paths: list[str] = []
        firsts = array("q")
        for key, first in zip(asked.keys, asked.firsts, strict=False):
            path = f"{self._root}/{check_key(key)}"
            if not paths or paths[-1] != path:
                paths.append(path)
                firsts.append(first)
        firsts.append(len(asked.positions))
        ranges = FileRanges(
            paths=paths,
            firsts=firsts,
            positions=asked.positions,
            sizes=asked.sizes,
            starts=asked.starts,
        )
        return self._outcomes(asked, self._fs.read_ranges(ranges, buffer))

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
            available = max(0, position + count - read.position)
            return ShortReadError(read.key, read.position, read.size, available)
        error = OSError(-count, os.strerror(-count))
        if isinstance(error, NOT_THERE):
            return ObjectNotFoundError(read.key)
        return store_error(self._root, error)
