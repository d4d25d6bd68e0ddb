"""Extents that were read, checked and given their offsets; bounded, shared by all fetches.

What is cached is ready for the wire: batches carry their true offsets and leader epoch 0 (S6, S20),
so that any run of consecutive batches is one slice. What one read brought (or one flush, or one
coalescing) is one `Load`, and leaves the cache as one, so that the bound in bytes is the truth.
Concurrent fetches share a read. Reads run in threads, everything else in the event loop.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from agent.fetch.plan import Key, Piece, group_reads
from logstore.objects.store import ObjectNotFoundError, ObjectStoreError, ShortReadError
from logstore.records.errors import RecordsError
from logstore.records.kernel import walk_and_patch, walk_stored
from logstore.segments.paths import SegmentId, segment_key

if TYPE_CHECKING:
    from logstore.objects.store import ObjectStore
    from logstore.records.layout import WalkedBatches

log = logging.getLogger("lacuna.agent.fetch")

# Batches below this on average are worth coalescing (S19).
SMALL_BATCH_BYTES: Final = 4096
# What the columns of a batch and the bookkeeping of a load take beside the payload, in bytes.
_BATCH_OVERHEAD: Final = 32
_LOAD_OVERHEAD: Final = 1000
_PART_OVERHEAD: Final = 300

_Reading: TypeAlias = "asyncio.Task[dict[Key, Entry | ExtentError]]"
Part: TypeAlias = bytes | bytearray | memoryview


class ExtentError(Exception):
    """An extent that could not be read; the message names the object and the range."""


class ExtentGoneError(ExtentError):
    """Its object does not exist: it was collected, plan again."""


class ExtentCorruptError(ExtentError):
    """Its bytes are not what was written: nothing of it is served."""


class ExtentUnavailableError(ExtentError):
    """The store did not give it now."""


@dataclass(slots=True, kw_only=True)
class CacheMetrics:
    """Counters; `_now` is a gauge. Bytes are payload."""

    hits: int = 0
    misses: int = 0
    written_through: int = 0
    reads: int = 0
    bytes_read: int = 0
    bytes_now: int = 0
    coalesced: int = 0
    corrupt: int = 0


class Load:
    """What one read brought; `size` counts what it keeps in memory."""

    __slots__ = ("keys", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.keys: list[Key] = []


class Entry:
    """Batches ready for the wire: batch i is data[start + positions[i]:start + positions[i + 1]].

    It stands for `piece_count` consecutive pieces from `first_key` to `last_key`; more than one
    where they were coalesced. `is_small`: it is worth coalescing. `wants_ahead` is set on what was
    read ahead first: meeting it starts the next read.
    """

    __slots__ = (
        "base_offsets",
        "data",
        "first_key",
        "is_small",
        "last_key",
        "last_offsets",
        "load",
        "max_timestamps",
        "piece_count",
        "positions",
        "start",
        "wants_ahead",
    )

    def __init__(
        self,
        data: memoryview,
        start: int,
        walked: "WalkedBatches",
        load: Load,
        keys: tuple[Key, Key],
        piece_count: int = 1,
        is_coalesced: bool = False,
    ) -> None:
        self.data = data
        self.start = start
        self.positions = walked.positions
        self.base_offsets = walked.base_offsets
        self.last_offsets = walked.last_offsets
        self.max_timestamps = walked.max_timestamps
        self.load = load
        self.first_key, self.last_key = keys
        self.piece_count = piece_count
        count = len(walked)
        self.is_small = not is_coalesced and self.positions[count] < SMALL_BATCH_BYTES * count
        self.wants_ahead = False

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.positions[-1]

    @property
    def view(self) -> memoryview:
        """All batches."""
        return self.data[self.start : self.start + self.positions[-1]]


def patch(data: memoryview, start: int, piece: Piece, load: Load, verify: bool) -> Entry:
    """Check a piece's bytes in `data` from `start` on and give its batches their offsets, in place.

    Raises ExtentCorruptError.
    """
    walk = walk_stored if piece.has_true_offsets else walk_and_patch
    try:
        walked = walk(data[start : start + piece.size], piece.base_offset, verify)
    except RecordsError as error:
        raise ExtentCorruptError(f"{describe(piece)}: {error}") from error
    if not len(walked) or walked.last_offsets[-1] >= piece.next_offset:
        raise ExtentCorruptError(f"{describe(piece)}: its batches end at another offset")
    load.keys.append(piece.key)
    load.size += _BATCH_OVERHEAD * len(walked)
    return Entry(data, start, walked, load, (piece.key, piece.key))


def describe(piece: Piece) -> str:
    """An extent in words, for errors."""
    segment = SegmentId(piece.lease_id, piece.sequence)
    return (
        f"segment {segment}, {piece.size} bytes at {piece.position}"
        f" (offsets {piece.base_offset} to {piece.next_offset - 1})"
    )


class ExtentCache:
    """Entries by the key of their piece, least recently used loads leave first.

    `max_read_bytes` bounds one read of the store, `max_reads` how many run at once.
    """

    def __init__(
        self,
        store: "ObjectStore",
        executor: Executor,
        cluster_id: Callable[[], str],
        *,
        max_bytes: int,
        max_read_bytes: int,
        max_reads: int,
    ) -> None:
        self.metrics = CacheMetrics()
        self._store = store
        self._executor = executor
        self._cluster_id = cluster_id
        self._max_bytes = max_bytes
        self._max_read_bytes = max_read_bytes
        self._entries: dict[Key, Entry] = {}
        self._coalesced: dict[Key, Entry] = {}
        self._loads: OrderedDict[Load, None] = OrderedDict()
        self._fresh: dict[tuple[int, int], _Fresh] = {}
        self._reading: dict[Key, _Reading] = {}
        self._slots = asyncio.Semaphore(max_reads)
        self._max_reads = max_reads
        self._reads_now = 0

    def get(self, piece: Piece) -> Entry | None:
        """The entry of a piece, where it is in memory."""
        key = piece[:3]
        entry = self._entries.get(key)
        if entry is None:
            entry = self._from_fresh(piece)
            if entry is None:
                return None
        self._loads.move_to_end(entry.load)
        self.metrics.hits += 1
        return entry

    def get_coalesced(self, pieces: Sequence[Piece], index: int) -> Entry | None:
        """What pieces[index:] begin with in coalesced form, where exactly those were coalesced."""
        entry = self._coalesced.get(pieces[index][:3])
        if entry is None:
            return None
        last = index + entry.piece_count - 1
        if last >= len(pieces) or pieces[last][:3] != entry.last_key:
            return None
        self._loads.move_to_end(entry.load)
        return entry

    def add_coalesced(
        self, data: bytearray, walked: "WalkedBatches", sources: Sequence[Entry]
    ) -> Entry:
        """Remember what `sources` were coalesced into."""
        load = Load(len(data) + _BATCH_OVERHEAD * len(walked) + _LOAD_OVERHEAD)
        keys = (sources[0].first_key, sources[-1].last_key)
        entry = Entry(memoryview(data), 0, walked, load, keys, len(sources), True)
        load.keys.append(entry.first_key)
        self._drop_coalesced(entry.first_key)
        self._coalesced[entry.first_key] = entry
        self.metrics.coalesced += 1
        self._keep(load)
        return entry

    def offer(self, lease_id: int, sequence: int, parts: Mapping[int, Part]) -> None:
        """Batches of a segment that was just written, by position: who tails need not read them.

        They are copied when somebody asks for them; until then they are the producer's own buffers.
        """
        fresh = _Fresh((lease_id, sequence), dict(parts))
        self._fresh[fresh.segment] = fresh
        self._keep(fresh)

    async def read(self, pieces: Iterable[Piece]) -> dict[Key, Entry | ExtentError]:
        """The entries of pieces that are not in memory, or why they cannot be had, by key."""
        found: dict[Key, Entry | ExtentError] = {}
        for task in self._start(pieces):
            # Others may wait for the same read.
            found.update(await asyncio.shield(task))
        return found

    def read_ahead(self, pieces: Sequence[Piece]) -> None:
        """Begin to read what will be wanted next, unless enough reads are under way."""
        missing = [piece for piece in pieces if piece.key not in self._entries]
        if missing and self._reads_now < self._max_reads:
            self._start(missing, ahead=True)

    async def close(self) -> None:
        """Wait for the reads under way."""
        if self._reading:
            await asyncio.wait(set(self._reading.values()))

    def _start(self, pieces: Iterable[Piece], ahead: bool = False) -> list[_Reading]:
        tasks = []
        wanted = []
        for piece in pieces:
            task = self._reading.get(piece.key)
            if task is None:
                wanted.append(piece)
            elif task not in tasks:
                tasks.append(task)
        # By object and position: slices of several partitions stand beside each other in one object.
        wanted.sort()
        groups = group_reads(wanted, self._store.read_gap, self._max_read_bytes)
        # As many jobs as reads run at once: small extents of many objects share the way to a thread.
        step = -(-len(groups) // self._max_reads)
        for first in range(0, len(groups), step or 1):
            job = groups[first : first + step]
            task = asyncio.get_running_loop().create_task(self._read_groups(job, ahead))
            ahead = False
            for piece in chain.from_iterable(job):
                self._reading[piece.key] = task
            tasks.append(task)
        return tasks

    async def _read_groups(
        self, groups: list[list[Piece]], ahead: bool
    ) -> "dict[Key, Entry | ExtentError]":
        """One read a group; errors are given back, since nobody may be waiting any more."""
        self._reads_now += 1
        try:
            async with self._slots:
                loop = asyncio.get_running_loop()
                loaded = await loop.run_in_executor(self._executor, self._load_all, groups)
        finally:
            self._reads_now -= 1
            for piece in chain.from_iterable(groups):
                self._reading.pop(piece.key, None)
        found: dict[Key, Entry | ExtentError] = {}
        for group, result in zip(groups, loaded, strict=True):
            self.metrics.misses += len(group)
            if isinstance(result, ExtentError):
                self._report(result)
                found.update((piece.key, result) for piece in group)
                continue
            self.metrics.reads += 1
            self.metrics.bytes_read += sum(piece.size for piece in group)
            result[0].wants_ahead = ahead
            ahead = False
            for entry in result:
                found[entry.first_key] = self._entries[entry.first_key] = entry
            self._keep(result[0].load)
        return found

    def _report(self, error: ExtentError) -> None:
        if isinstance(error, ExtentCorruptError):
            self.metrics.corrupt += 1
            log.error("%s", error)

    def _load_all(self, groups: list[list[Piece]]) -> list[list[Entry] | ExtentError]:
        """Runs in a thread."""
        results: list[list[Entry] | ExtentError] = []
        for group in groups:
            try:
                results.append(self._load(group))
            except ExtentError as error:
                results.append(error)
        return results

    def _load(self, group: list[Piece]) -> list[Entry]:
        """Read and check one range of an object."""
        first, last = group[0], group[-1]
        size = last.end_position - first.position
        key = self.object_key(first)
        try:
            data = memoryview(self._store.get(key, first.position, size))
        except ObjectNotFoundError as error:
            raise ExtentGoneError(f"{describe(first)}: {error}") from error
        except ShortReadError as error:
            raise ExtentCorruptError(f"{describe(first)}: {error}") from error
        except ObjectStoreError as error:
            raise ExtentUnavailableError(f"{describe(first)}: {error}") from error
        load = Load(size + _LOAD_OVERHEAD)
        try:
            return [
                patch(data, piece.position - first.position, piece, load, True) for piece in group
            ]
        except ExtentCorruptError as error:
            raise ExtentCorruptError(f"object {key!r}: {error}") from error

    def object_key(self, piece: Piece) -> str:
        """The key of the object that holds a piece."""
        return segment_key(self._cluster_id(), SegmentId(piece.lease_id, piece.sequence))

    def _from_fresh(self, piece: Piece) -> Entry | None:
        """The piece out of what a flush has offered."""
        fresh = self._fresh.get(piece[:2])
        data = fresh.take(piece.position, piece.size) if fresh is not None else None
        if fresh is None or data is None:
            return None
        self.metrics.bytes_now -= piece.size
        load = Load(piece.size + _LOAD_OVERHEAD)
        # The producer's bytes were checked before they were written.
        entry = patch(memoryview(data), 0, piece, load, verify=False)
        self._entries[entry.first_key] = entry
        self.metrics.written_through += 1
        self._keep(load)
        return entry

    def _keep(self, load: Load) -> None:
        self._loads[load] = None
        self.metrics.bytes_now += load.size
        while self.metrics.bytes_now > self._max_bytes and self._loads:
            oldest, _ = self._loads.popitem(last=False)
            self._forget(oldest)

    def _forget(self, load: Load) -> None:
        self.metrics.bytes_now -= load.size
        if isinstance(load, _Fresh):
            if self._fresh.get(load.segment) is load:
                del self._fresh[load.segment]
            return
        for key in load.keys:
            for entries in (self._entries, self._coalesced):
                entry = entries.get(key)
                if entry is not None and entry.load is load:
                    del entries[key]

    def _drop_coalesced(self, key: Key) -> None:
        """Another consumer coalesced other neighbours of the same first piece: keep the newest."""
        entry = self._coalesced.pop(key, None)
        if entry is not None:
            del self._loads[entry.load]
            self.metrics.bytes_now -= entry.load.size


class _Fresh(Load):
    """Batches of a segment as they were produced, by position, until somebody wants them."""

    __slots__ = ("_parts", "segment")

    def __init__(self, segment: tuple[int, int], parts: dict[int, Part]) -> None:
        super().__init__(
            _LOAD_OVERHEAD + sum(map(len, parts.values())) + _PART_OVERHEAD * len(parts)
        )
        self.segment = segment
        self._parts = parts

    def take(self, position: int, size: int) -> bytearray | None:
        """The batches of [position, position + size) as a copy, once; None where one is missing."""
        taken: list[Part] = []
        left = size
        while left > 0:
            part = self._parts.get(position + size - left)
            if part is None:
                return None
            taken.append(part)
            left -= len(part)
        if left < 0:
            return None
        for part in taken:
            del self._parts[position]
            position += len(part)
        self.size -= size
        return bytearray().join(taken)
