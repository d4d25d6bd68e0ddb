"""The memory into which fetched records are read: one region, whose parts are reused.

The system fills each page of fresh memory with zeros on its first use, which takes longer than copying records into it.
In a region, that happens once. Huge pages would make it cheaper where the system has them available, but much more
expensive in a virtual machine that has returned its memory to the host.
"""

import ctypes
import mmap
from bisect import bisect_left
from typing import Final

from lacuna.agent.fetch.buffers import Departures, ReadBuffer
from lacuna.logstore.objects.reading import grow

# Parts of the region begin and end at multiples of this, since smaller unused ranges help no other read.
_GRAIN_BYTES: Final = 4096
# Smaller buffers come from the process's heap, which reuses small pieces itself.
_LEAST_BYTES: Final = 32 * _GRAIN_BYTES


class ReadMemory:
    """Memory for records, up to `region_bytes` of it in the region, which is made when it is first needed.

    A part of the region is free again once nothing refers to it. A buffer that finds no room there comes from the
    process's heap. Belongs to one event loop, but any thread may drop the last reference.
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
        """Bytes of the region that are free."""
        self._collect()
        return sum(self._ends) - sum(self._begins)

    def take(self, size: int) -> memoryview:
        """Return `size` bytes with undefined content. Their `obj` exists until nothing refers to a part of them."""
        if size >= _LEAST_BYTES:
            self._collect()
            needed = -(-size // _GRAIN_BYTES) * _GRAIN_BYTES
            # The lowest place, so that the region's used part stays as small as possible.
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
        """Add a range to the free ones, and join it with its neighbours."""
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
