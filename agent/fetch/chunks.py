"""Chunks of objects as they are in the bucket, read once for all agents of the zone; bounded (adr/0039).

A reader of one small range of a chunk gets that range alone. Once a second range is asked for, or a long one, the chunk
is read whole, since its other readers will want the rest. Concurrent readers share a read.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from lacuna.agent.fetch.buffers import LiveBytes, ReadBuffer
from lacuna.logstore.objects.store import ObjectStoreError, ShortReadError

if TYPE_CHECKING:
    from lacuna.logstore.objects.store import ObjectStore

# Of a chunk, what is a long range, and how far beyond the chunk's end is read: a piece may begin in a chunk and end in
# the next one. Pieces are at most 1 MiB unless a single batch is larger.
_LONG: Final = 16
_BEYOND: Final = 8

_PART_OVERHEAD: Final = 500


class ChunkId(NamedTuple):
    """A chunk of a segment: the bytes from number * chunk_bytes on."""

    lease_id: int
    sequence: int
    number: int

    @property
    def placement_key(self) -> bytes:
        """The key by which the chunk is placed on an agent."""
        return b"".join(part.to_bytes(8, "big") for part in self)


class _Part:
    """Bytes of a chunk, from `position` of its object on. `asked` counts the bytes that were given out."""

    __slots__ = ("asked", "chunk", "data", "is_whole", "position")

    def __init__(self, chunk: ChunkId, position: int, data: ReadBuffer, is_whole: bool) -> None:
        self.chunk = chunk
        self.position = position
        self.data = data
        self.is_whole = is_whole
        self.asked = 0

    @property
    def size(self) -> int:
        return len(self.data) + _PART_OVERHEAD

    def holds(self, position: int, size: int) -> bool:
        return self.position <= position and position + size <= self.position + len(self.data)

    def give(self, position: int, size: int) -> memoryview:
        self.asked += size
        begin = position - self.position
        return memoryview(self.data)[begin : begin + size].toreadonly()


_Reading: TypeAlias = "asyncio.Task[_Part | ObjectStoreError]"


class _Flight(NamedTuple):
    """A read under way of an object's bytes from `position` to `end`."""

    position: int
    end: int
    reading: _Reading


class ChunkCache:
    """The chunks that this agent has read for its zone; the least recently used bytes are forgotten first.

    `max_bytes` bounds what is kept, `max_reads` how many reads run at once. `on_size` is called with the bytes kept
    when they have changed.
    """

    def __init__(
        self,
        store: "ObjectStore",
        executor: Executor,
        *,
        chunk_bytes: int,
        max_bytes: int,
        max_reads: int,
        on_size: Callable[[int], None],
    ) -> None:
        self._store = store
        self._executor = executor
        self.chunk_bytes = chunk_bytes
        self._max_bytes = max_bytes
        self._on_size = on_size
        self._free_reads = asyncio.Semaphore(max_reads)
        self._parts: OrderedDict[_Part, None] = OrderedDict()
        self._of_chunk: dict[ChunkId, list[_Part]] = {}
        self._flights: dict[ChunkId, list[_Flight]] = {}
        self._live = LiveBytes()
        self._is_thrifty = False
        self.bytes_now = 0
        self.reads = 0
        self.bytes_read = 0

    @property
    def outside_bytes(self) -> int:
        """Bytes of chunks that are in memory only because answers hold them."""
        return max(self._live.total - self.bytes_now, 0)

    def takes(self, position: int, size: int) -> bool:
        """Whether a range of an object can be had from the chunk in which it begins."""
        end = (position // self.chunk_bytes + 1) * self.chunk_bytes
        return position >= 0 and size > 0 and position + size <= end + self._beyond

    async def get(self, chunk: ChunkId, key: str, position: int, size: int) -> memoryview:
        """Return a range of the object `key` that begins in the chunk, from memory or by a read.

        Raises ObjectStoreError. The caller has asked `takes`.
        """
        for part in self._of_chunk.get(chunk, ()):
            if part.holds(position, size):
                self._parts.move_to_end(part)
                return part.give(position, size)
        flight = next(
            (
                each
                for each in self._flights.get(chunk, ())
                if each.position <= position and position + size <= each.end
            ),
            None,
        ) or self._start(chunk, key, position, size)
        # Others may wait for the same read, and whoever waits may be cancelled.
        await asyncio.wait((flight.reading,))
        found = flight.reading.result()
        if isinstance(found, ObjectStoreError):
            raise found
        if not found.holds(position, size):
            end = found.position + len(found.data)
            raise ShortReadError(key, position, size, max(end - position, 0))
        return found.give(position, size)

    def forget(self, chunk: ChunkId) -> None:
        """Forget what is kept of a chunk."""
        for part in self._of_chunk.pop(chunk, ()):
            del self._parts[part]
            self.bytes_now -= part.size
        self._on_size(self.bytes_now)

    def clear(self) -> None:
        """Forget everything that is not being read."""
        while self._parts:
            self._forget_oldest()
        self._on_size(self.bytes_now)

    async def close(self) -> None:
        """Wait for the reads under way to end."""
        readings = {each.reading for flights in self._flights.values() for each in flights}
        if readings:
            await asyncio.wait(readings)

    @property
    def _beyond(self) -> int:
        return self.chunk_bytes // _BEYOND

    def _start(self, chunk: ChunkId, key: str, position: int, size: int) -> _Flight:
        is_wanted = chunk in self._of_chunk or chunk in self._flights
        is_whole = (is_wanted or size * _LONG >= self.chunk_bytes) and not self._is_thrifty
        if is_whole:
            position = chunk.number * self.chunk_bytes
            size = self.chunk_bytes + self._beyond
        work = self._read(chunk, key, position, size, is_whole)
        flight = _Flight(position, position + size, asyncio.get_running_loop().create_task(work))
        self._flights.setdefault(chunk, []).append(flight)
        flight.reading.add_done_callback(lambda _: self._landed(chunk, flight))
        return flight

    def _landed(self, chunk: ChunkId, flight: _Flight) -> None:
        flights = self._flights[chunk]
        flights.remove(flight)
        if not flights:
            del self._flights[chunk]

    async def _read(
        self, chunk: ChunkId, key: str, position: int, size: int, is_whole: bool
    ) -> "_Part | ObjectStoreError":
        """Read and keep a range. An error is returned, since it is possible that nobody waits any more."""
        get = self._store.get_up_to if is_whole else self._store.get
        loop = asyncio.get_running_loop()
        try:
            async with self._free_reads:
                data = await loop.run_in_executor(
                    self._executor, lambda: ReadBuffer(get(key, position, size))
                )
        except ObjectStoreError as error:
            return error
        self.reads += 1
        self.bytes_read += len(data)
        self._live.watch(data, len(data))
        part = _Part(chunk, position, data, is_whole)
        self._keep(part)
        return part

    def _keep(self, part: _Part) -> None:
        for other in self._of_chunk.get(part.chunk, ()) if part.is_whole else ():
            del self._parts[other]
            self.bytes_now -= other.size
        others = [] if part.is_whole else self._of_chunk.get(part.chunk, [])
        self._of_chunk[part.chunk] = [*others, part]
        self._parts[part] = None
        self.bytes_now += part.size
        while self._parts and self.bytes_now > self._max_bytes:
            self._forget_oldest()
        self._on_size(self.bytes_now)

    def _forget_oldest(self) -> None:
        part, _ = self._parts.popitem(last=False)
        self.bytes_now -= part.size
        # If chunks leave before half of them was asked for, there is no room for whole chunks.
        self._is_thrifty = part.is_whole and 2 * part.asked < len(part.data)
        parts = self._of_chunk[part.chunk]
        parts.remove(part)
        if not parts:
            del self._of_chunk[part.chunk]
