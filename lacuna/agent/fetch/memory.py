"""The memory into which fetched records are read: one region whose parts are reused.

The system fills each page of fresh memory with zeros on its first use, which takes longer than copying records into it.
In a region, this happens only once per page. Huge pages would be cheaper on systems where they are available, but much
more expensive in a virtual machine that has returned its memory to the host.
"""

import ctypes
import mmap
from bisect import bisect_left
from typing import Final

from lacuna.agent.fetch.buffers import Departures, ReadBuffer
from lacuna.logstore.objects.reading import grow

# Parts of the region begin and end at multiples of this, since smaller free ranges would be useless.
_GRAIN_BYTES: Final = 4096
# Smaller buffers come from the process's heap, which reuses small pieces itself.
_LEAST_BYTES: Final = 32 * _GRAIN_BYTES


class ReadMemory:
    """Memory for records. Up to `region_bytes` of it are in a region that is created when first needed.

    A part of the region becomes free once nothing refers to it. A buffer for which the region has no room comes from
    the heap. Belongs to one event loop, but any thread may drop the last reference to a part.
    """

    def __init__(self, region_bytes: int) -> None:
        size = region_bytes // _GRAIN_BYTES * _GRAIN_BYTES
        self._region: mmap.mmap | None = None
        self._region_bytes = size
        self._taken: Departures[tuple[int, int]] = Departures()
        # The free ranges: disjoint, in order, and never adjacent.
        self._begins = [0] if size else []
        self._ends = [size] if size else []

    @property
    def free_bytes(self) -> int:
        """The number of free bytes in the region."""
        self._collect()
        return sum(self._ends) - sum(self._begins)

    def take(self, size: int) -> memoryview:
        """Return `size` bytes with undefined content. The view's `obj` exists as long as anything refers to them."""
        if size >= _LEAST_BYTES:
            self._collect()
            needed = -(-size // _GRAIN_BYTES) * _GRAIN_BYTES
            # The lowest free range, so that the used part of the region stays as small as possible.
            for at, begin in enumerate(self._begins):
                if self._ends[at] - begin >= needed:
                    return self._take(at, begin, needed)[:size]
        return memoryview(grow(ReadBuffer(), size))

    def _take(self, at: int, begin: int, size: int) -> memoryview:
        if self._region is None:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            self._region = mmap.mmap(-1, self._region_bytes, flags=flags)
        end = begin + size
        if end == self._ends[at]:
            del self._begins[at], self._ends[at]
        else:
            self._begins[at] = end
        # Unlike a memoryview of the region, it is the object that all memoryviews of the part refer to.
        part = (ctypes.c_ubyte * size).from_buffer(self._region, begin)
        self._taken.watch(part, (begin, end))
        return memoryview(part).cast("B")

    def _collect(self) -> None:
        for begin, end in self._taken.gone():
            self._free(begin, end)

    def _free(self, begin: int, end: int) -> None:
        at = bisect_left(self._begins, begin)
        start, stop = at, at
        if start and self._ends[start - 1] == begin:
            start -= 1
            begin = self._begins[start]
        if stop < len(self._begins) and self._begins[stop] == end:
            end = self._ends[stop]
            stop += 1
        self._begins[start:stop] = [begin]
        self._ends[start:stop] = [end]
