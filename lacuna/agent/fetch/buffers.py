"""Counts the memory of fetched records, whether it is held by the cache or only by responses.

A buffer that has left the cache stays in memory until clients have read the answers that hold slices of it. A weak
reference reports when the buffer is freed.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class ReadBuffer(bytearray):
    """Bytes from a read, a flush or coalescing. Unlike a bytearray, this object can be weakly referenced."""

    __slots__ = ("__weakref__",)


class Departures(Generic[T]):
    """Reports which watched objects are no longer referenced, by yielding the note that was given for each.

    Belongs to one event loop, but any thread may drop the last reference to a watched object.
    """

    def __init__(self) -> None:
        # Keyed by id, since a weak reference to a bytearray cannot be hashed.
        self._watched: dict[int, tuple[weakref.ref[object], T]] = {}
        self._gone: deque[weakref.ref[object]] = deque()

    def watch(self, thing: object, note: T) -> None:
        """Make `gone` yield `note` once nothing refers to `thing` any more."""
        reference = weakref.ref(thing, self._gone.append)
        self._watched[id(reference)] = reference, note

    def gone(self) -> Iterator[T]:
        """Yield the notes of objects that have gone since the last call."""
        while self._gone:
            _, note = self._watched.pop(id(self._gone.popleft()))
            yield note


class LiveBytes:
    """Counts the bytes of the watched buffers that are still referenced. Belongs to one event loop."""

    def __init__(self) -> None:
        self._total = 0
        self._buffers: Departures[int] = Departures()

    def watch(self, buffer: object, size: int) -> None:
        """Count `size` bytes until nothing refers to `buffer` any more."""
        self._total += size
        self._buffers.watch(buffer, size)

    @property
    def total(self) -> int:
        for size in self._buffers.gone():
            self._total -= size
        return self._total


class ByteBudget:
    """A budget of bytes in memory. Callers that need more bytes than are free must wait. Belongs to one event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._is_freed = asyncio.Event()
        self.used = 0

    @asynccontextmanager
    async def held(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` bytes (but at most `limit`) are free, and hold them until the block ends."""
        while self.used and self.used + size > self._limit:
            self._is_freed.clear()
            await self._is_freed.wait()
        self.used += size
        try:
            yield
        finally:
            self.used -= size
            self._is_freed.set()
