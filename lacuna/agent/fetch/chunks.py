"""Chunks of objects as stored in the bucket, read once for all agents in the zone (adr/0039). Their total size is
bounded.

The first request for a small range of a chunk reads only that range. A second request, or one for a long range, reads
the whole chunk, since other readers will need the rest. Concurrent readers share a read.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, NamedTuple

from lacuna.agent.hot import Holding, nothing_held
from lacuna.logstore.objects.store import ObjectStore, ObjectStoreError, ShortReadError

# A range of at least 1/_LONG of a chunk is long.
_LONG: Final = 16
# A whole chunk is read with 1/_BEYOND of its size beyond its end, since a piece may end in the next chunk. Pieces
# are at most 1 MiB unless a single batch is larger.
_BEYOND: Final = 8

# The maximum number of reads under way or waiting for their turn.
_MOST_FLIGHTS: Final = 64

_SECTION_OVERHEAD: Final = 500


class ChunkId(NamedTuple):
    """Identifies a chunk of a segment, which begins at byte number * chunk_bytes."""

    lease_id: int
    sequence: int
    number: int

    @property
    def placement_key(self) -> bytes:
        """The key by which the chunk is placed on an agent."""
        return b"".join(part.to_bytes(8, "big") for part in self)


class ChunksBusyError(Exception):
    """Too many chunk reads are under way or waiting, so no more may begin."""


class _Section:
    """Bytes of a chunk, beginning at `position` in its object. `asked` counts the bytes returned so far."""

    __slots__ = ("asked", "chunk", "data", "is_whole", "position")

    def __init__(self, chunk: ChunkId, position: int, data: bytearray, is_whole: bool) -> None:
        self.chunk = chunk
        self.position = position
        self.data = data
        self.is_whole = is_whole
        self.asked = 0

    @property
    def size(self) -> int:
        return len(self.data) + _SECTION_OVERHEAD

    def holds(self, position: int, size: int) -> bool:
        return self.position <= position and position + size <= self.position + len(self.data)

    def give(self, position: int, size: int) -> memoryview:
        self.asked += size
        begin = position - self.position
        return memoryview(self.data)[begin : begin + size].toreadonly()


class _Flight:
    """A read of an object's bytes from `position` to `end`, under way or waiting for its turn.

    `waiters` counts the callers that are waiting for the read.
    """

    __slots__ = ("end", "has_begun", "position", "reading", "waiters")

    def __init__(self, position: int, end: int) -> None:
        self.position = position
        self.end = end
        self.has_begun = False
        self.waiters = 0
        self.reading: asyncio.Task[_Section | ObjectStoreError]

    async def land(self) -> _Section | ObjectStoreError:
        """Wait until the read is done. If all waiters are cancelled before it has begun, it is cancelled as well."""
        self.waiters += 1
        try:
            await asyncio.wait((self.reading,))
        finally:
            self.waiters -= 1
            if not self.waiters and not self.has_begun:
                self.reading.cancel()
        return self.reading.result()


class ChunkCache:
    """The chunks that this agent has read for its zone. The least recently used bytes are dropped first.

    `max_bytes` bounds the bytes kept and, separately, the bytes of reads under way, although a single read may exceed
    it. `max_reads` bounds the number of concurrent reads. `on_size` is called with the number of bytes kept whenever it
    changes.
    """

    def __init__(
        self,
        store: ObjectStore,
        executor: Executor,
        *,
        chunk_bytes: int,
        max_bytes: int,
        max_reads: int,
        on_size: Callable[[int], None],
        holding: Holding = nothing_held,
    ) -> None:
        self._store = store
        self._holding = holding
        self._executor = executor
        self.chunk_bytes = chunk_bytes
        self._max_bytes = max_bytes
        self._on_size = on_size
        self._free_reads = asyncio.Semaphore(max(min(max_reads, max_bytes // self._longest), 1))
        self._sections: OrderedDict[_Section, None] = OrderedDict()
        self._of_chunk: dict[ChunkId, list[_Section]] = {}
        self._flights: dict[ChunkId, list[_Flight]] = {}
        self._is_thrifty = False
        self.bytes_now = 0
        self.bytes_reading = 0
        self.reads = 0

    def takes(self, position: int, size: int) -> bool:
        """Whether a range of an object can be read from the chunk in which it begins."""
        begin = position // self.chunk_bytes * self.chunk_bytes
        return position >= 0 and size > 0 and position + size <= begin + self._longest

    async def get(self, chunk: ChunkId, key: str, position: int, size: int) -> memoryview:
        """Return a range of the object `key` that begins in the chunk, either from memory or by reading it.

        A caller that keeps the range must copy it first, since the range keeps the whole chunk in memory. Check `takes`
        before the call. Raises ObjectStoreError and ChunksBusyError.
        """
        for section in self._of_chunk.get(chunk, ()):
            if section.holds(position, size):
                self._sections.move_to_end(section)
                return section.give(position, size)
        flight = self._flight_of(chunk, position, size) or self._start(chunk, key, position, size)
        found = await flight.land()
        if isinstance(found, ObjectStoreError):
            raise found
        if not found.holds(position, size):
            end = found.position + len(found.data)
            raise ShortReadError(key, position, size, max(end - position, 0))
        return found.give(position, size)

    def forget(self, chunk: ChunkId) -> None:
        for section in self._of_chunk.pop(chunk, ()):
            del self._sections[section]
            self.bytes_now -= section.size
        self._on_size(self.bytes_now)

    def clear(self) -> None:
        """Drop all bytes that are not being read."""
        self._sections.clear()
        self._of_chunk.clear()
        self._is_thrifty = False
        self.bytes_now = 0
        self._on_size(self.bytes_now)

    async def close(self) -> None:
        readings = {each.reading for flights in self._flights.values() for each in flights}
        if readings:
            await asyncio.wait(readings)

    @property
    def _longest(self) -> int:
        return self.chunk_bytes + self.chunk_bytes // _BEYOND

    def _flight_of(self, chunk: ChunkId, position: int, size: int) -> _Flight | None:
        for flight in self._flights.get(chunk, ()):
            holds = flight.position <= position and position + size <= flight.end
            if holds and (flight.has_begun or flight.waiters):
                return flight
        return None

    def _start(self, chunk: ChunkId, key: str, position: int, size: int) -> _Flight:
        if sum(map(len, self._flights.values())) >= _MOST_FLIGHTS:
            raise ChunksBusyError
        is_wanted = chunk in self._of_chunk or chunk in self._flights
        is_whole = (is_wanted or size * _LONG >= self.chunk_bytes) and not self._is_thrifty
        if is_whole:
            position, size = chunk.number * self.chunk_bytes, self._longest
        flight = _Flight(position, position + size)
        work = self._read(chunk, key, flight, is_whole)
        flight.reading = asyncio.get_running_loop().create_task(work)
        self._flights.setdefault(chunk, []).append(flight)
        flight.reading.add_done_callback(lambda _: self._landed(chunk, flight))
        return flight

    def _landed(self, chunk: ChunkId, flight: _Flight) -> None:
        flights = self._flights[chunk]
        flights.remove(flight)
        if not flights:
            del self._flights[chunk]

    async def _read(
        self, chunk: ChunkId, key: str, flight: _Flight, is_whole: bool
    ) -> _Section | ObjectStoreError:
        """Read and keep a range. Errors are returned rather than raised, since the callers may have stopped waiting."""
        get = self._store.get_up_to if is_whole else self._store.get
        size = flight.end - flight.position
        async with self._free_reads:
            flight.has_begun = True
            self.bytes_reading += size
            try:
                async with self._holding([key]):
                    data = await asyncio.get_running_loop().run_in_executor(
                        self._executor, get, key, flight.position, size
                    )
            except ObjectStoreError as error:
                return error
            finally:
                self.bytes_reading -= size
        self.reads += 1
        section = _Section(chunk, flight.position, data, is_whole)
        self._keep(section)
        return section

    def _keep(self, section: _Section) -> None:
        for other in self._of_chunk.get(section.chunk, ()) if section.is_whole else ():
            del self._sections[other]
            self.bytes_now -= other.size
        others = [] if section.is_whole else self._of_chunk.get(section.chunk, [])
        self._of_chunk[section.chunk] = [*others, section]
        self._sections[section] = None
        self.bytes_now += section.size
        while self._sections and self.bytes_now > self._max_bytes:
            self._forget_oldest()
        self._on_size(self.bytes_now)

    def _forget_oldest(self) -> None:
        section, _ = self._sections.popitem(last=False)
        self.bytes_now -= section.size
        # If chunks are evicted before half of their bytes were requested, there is no room for whole chunks.
        self._is_thrifty = section.is_whole and 2 * section.asked < len(section.data)
        sections = self._of_chunk[section.chunk]
        sections.remove(section)
        if not sections:
            del self._of_chunk[section.chunk]
