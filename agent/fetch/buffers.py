"""Counts the memory of fetched records, whether the cache or only answers still hold it.

A buffer that has left the cache stays in memory while answers hold slices of it, until clients have read them.
A weak reference tells when it is freed.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ReadBuffer(bytearray):
    """Bytes from a read, a flush or coalescing. Unlike a bytearray it can be weakly referenced."""

    __slots__ = ("__weakref__",)


class LiveBytes:
    """Counts the bytes of the watched buffers that are still referenced. Belongs to one event loop."""

    def __init__(self) -> None:
        self._total = 0
        # By id, since a weak reference to a bytearray cannot be hashed.
        self._watched: dict[int, tuple[weakref.ref[ReadBuffer], int]] = {}
        # A deque, since any thread may drop the last reference.
        self._gone: deque[weakref.ref[ReadBuffer]] = deque()

    def watch(self, buffer: ReadBuffer, size: int) -> None:
        """Count `size` bytes until nothing refers to `buffer` any more."""
        self._total += size
        reference = weakref.ref(buffer, self._gone.append)
        self._watched[id(reference)] = reference, size

    @property
    def total(self) -> int:
        """The bytes counted now."""
        while self._gone:
            _, size = self._watched.pop(id(self._gone.popleft()))
            self._total -= size
        return self._total


class ByteBudget:
    """Bytes of which `limit` may be in memory at once; who needs more of them waits. Belongs to one event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._is_freed = asyncio.Event()
        self.used = 0

    @asynccontextmanager
    async def held(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes, once they are free; more than the limit, once all are."""
        while self.used and self.used + size > self._limit:
            self._is_freed.clear()
            await self._is_freed.wait()
        self.used += size
        try:
            yield
        finally:
            self.used -= size
            self._is_freed.set()
