"""Extents that were read, checked and given their offsets; bounded, shared by all fetches.

What is cached is found by its place in the bucket, which never changes, whichever partition or plan
asks for it. What one read brought (or one flush, or one coalescing) is one `Load`, and leaves the
cache as one, so that the bound in bytes is the truth. Concurrent fetches share a read. Reads run in
threads, everything else in the event loop.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from agent.fetch.buffers import LiveBytes, ReadBuffer
from agent.fetch.fresh import Fresh, Part
from agent.fetch.loading import (
    BATCH_OVERHEAD,
    LOAD_OVERHEAD,
    ExtentCorruptError,
    ExtentError,
    Loaded,
    LoadPlan,
    load,
    object_key,
    plan_loads,
)
from agent.fetch.plan import Key, Piece
from agent.fetch.stretch import Load, Span, Stretch

if TYPE_CHECKING:
    from logstore.objects.store import ObjectStore
    from logstore.records.layout import WalkedBatches

log = logging.getLogger("lacuna.agent.fetch")

# A load is no more than this where its objects allow: what is read together is also forgotten so.
_LOAD_BYTES: Final = 4 << 20

#: A stretch, and the index of a piece in it.
Place: TypeAlias = tuple[Stretch, int]
#: Pieces by key: where they are, or why they cannot be had.
Found: TypeAlias = "dict[Key, Place | ExtentError]"
_Reading: TypeAlias = "asyncio.Task[Found]"


@dataclass(slots=True, kw_only=True)
class CacheMetrics:
    """Counters; `_now` is a gauge. Bytes are payload, hits and misses extents."""

    hits: int = 0
    misses: int = 0
    written_through: int = 0
    reads: int = 0
    bytes_read: int = 0
    bytes_now: int = 0
    coalesced: int = 0
    corrupt: int = 0


class ExtentCache:
    """Stretches by the keys of their pieces, least recently used loads leave first.

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
        self._places: dict[Key, Place] = {}
        self._coalesced: dict[Key, Place] = {}
        self._loads: OrderedDict[Load, None] = OrderedDict()
        self._fresh: dict[tuple[int, int], Fresh] = {}
        self._reading: dict[Key, _Reading] = {}
        self._slots = asyncio.Semaphore(max_reads)
        self._max_reads = max_reads
        self._reads_now = 0
        self._live = LiveBytes()
        self._ahead_bytes = 0

    @property
    def outside_bytes(self) -> int:
        """Payload that is in memory beyond the cache: in reads under way, and in answers."""
        return max(self._live.total - self.metrics.bytes_now, 0)

    def find(self, pieces: Sequence[Piece], index: int) -> Span | None:
        """What pieces[index:] begin with, as far as it stands together in memory."""
        piece = pieces[index]
        place = self._places.get(piece[:3])
        if place is None and self._fresh:
            place = self._from_fresh(piece)
        if place is None:
            return None
        stretch, first = place
        self._loads.move_to_end(stretch.load)
        if stretch.load.is_ahead:
            self._use_ahead(stretch.load)
        span = stretch.span(first, pieces, index)
        if span is not None:
            self.metrics.hits += span.end_piece - span.first_piece
        return span

    def find_coalesced(self, pieces: Sequence[Piece], index: int, asked_offset: int) -> Span | None:
        """The same in coalesced form, as far as it has something from the asked offset on."""
        place = self._coalesced.get(pieces[index][:3])
        if place is None:
            return None
        stretch, first = place
        self._loads.move_to_end(stretch.load)
        return stretch.span(first, pieces, index, asked_offset)

    def add_coalesced(
        self, data: ReadBuffer, walked: "WalkedBatches", pieces: Sequence[Piece]
    ) -> Span:
        """Remember what `pieces` were coalesced into."""
        size = len(data) + BATCH_OVERHEAD * len(walked) + LOAD_OVERHEAD
        kept = Load(size, is_coalesced=True)
        stretch = Stretch(memoryview(data), walked, kept, pieces)
        self._live.watch(data, len(data))
        self._add(self._coalesced, stretch)
        self.metrics.coalesced += 1
        self._keep(kept)
        return Span(stretch, 0, len(pieces), 0, len(walked))

    def offer(self, lease_id: int, sequence: int, parts: Mapping[int, Part]) -> None:
        """Batches of a segment that was just written, by position: who tails need not read them.

        They are copied when somebody asks for them; until then they are the producer's own buffers.
        """
        fresh = Fresh((lease_id, sequence), dict(parts))
        self._fresh[fresh.segment] = fresh
        self._keep(fresh)

    async def read(self, runs: Iterable[Sequence[Piece]]) -> Found:
        """Where pieces are that were not in memory, or why they cannot be had.

        A run is pieces that follow each other in a partition.
        """
        found: Found = {}
        for task in self._start(runs):
            # Others may wait for the same read.
            found.update(await asyncio.shield(task))
        return found

    def read_ahead(self, runs: Iterable[Sequence[Piece]]) -> None:
        """Begin to read what will be wanted next.

        Unless enough reads are under way, or so much was read ahead already that it would leave the
        cache before it is used.
        """
        if self._reads_now < self._max_reads and self._ahead_bytes < self._max_bytes // 2:
            places = self._places
            self._start(
                ([piece for piece in run if piece[:3] not in places] for run in runs), ahead=True
            )

    async def close(self) -> None:
        """Wait for the reads under way."""
        if self._reading:
            await asyncio.wait(set(self._reading.values()))

    def _start(self, runs: Iterable[Sequence[Piece]], ahead: bool = False) -> list[_Reading]:
        tasks: dict[_Reading, None] = {}
        wanted: list[Sequence[Piece]] = []
        reading = self._reading
        for run in runs:
            under_way = [reading.get(piece[:3]) for piece in run] if reading else ()
            if any(under_way):
                tasks.update((task, None) for task in under_way if task is not None)
                run = [piece for piece, task in zip(run, under_way, strict=True) if task is None]
            if run:
                wanted.append(run)
        total = sum(piece.size for run in wanted for piece in run)
        plans = plan_loads(
            wanted,
            partial(object_key, self._cluster_id()),
            read_gap=self._store.read_gap,
            max_read_bytes=self._max_read_bytes,
            load_bytes=min(_LOAD_BYTES, max(total // self._max_reads, 1)),
        )
        for plan in plans:
            is_first = plan is plans[0]
            task = asyncio.get_running_loop().create_task(self._load(plan, ahead, is_first))
            for piece in plan.pieces:
                reading[piece[:3]] = task
            tasks[task] = None
        return list(tasks)

    async def _load(self, plan: LoadPlan, ahead: bool, is_first: bool) -> Found:
        """One load; errors are given back, since nobody may be waiting any more."""
        self._reads_now += 1
        try:
            async with self._slots:
                loop = asyncio.get_running_loop()
                buffer = ReadBuffer()
                self._live.watch(buffer, plan.starts[-1])
                loaded: Loaded = await loop.run_in_executor(
                    self._executor, load, plan, self._store, buffer
                )
        finally:
            self._reads_now -= 1
            for piece in plan.pieces:
                self._reading.pop(piece[:3], None)
        self.metrics.misses += len(plan.pieces)
        self.metrics.reads += len(plan.reads)
        self.metrics.bytes_read += loaded.bytes_read
        loaded.load.is_ahead, loaded.load.wants_ahead = ahead, ahead and is_first
        self._ahead_bytes += loaded.load.size * ahead
        found: Found = {}
        for stretch in loaded.stretches:
            found.update(self._add(self._places, stretch))
        self._keep(loaded.load)
        for piece, error in loaded.errors:
            self._report(error)
            found[piece.key] = error
        return found

    def _add(self, places: dict[Key, Place], stretch: Stretch) -> dict[Key, Place]:
        """Let the pieces of a stretch be found; an older place of one of them is forgotten."""
        added = {piece[:3]: (stretch, index) for index, piece in enumerate(stretch.pieces)}
        places.update(added)
        stretch.load.keys += added
        return added

    def _report(self, error: ExtentError) -> None:
        if isinstance(error, ExtentCorruptError):
            self.metrics.corrupt += 1
            log.error("%s", error)

    def _from_fresh(self, piece: Piece) -> Place | None:
        """The piece out of what a flush has offered."""
        fresh = self._fresh.get(piece[:2])
        if fresh is None:
            return None
        data = ReadBuffer()
        stretch = fresh.take(piece, data)
        if stretch is None:
            return None
        self._live.watch(data, piece.size)
        self.metrics.bytes_now -= piece.size
        self._add(self._places, stretch)
        self.metrics.written_through += 1
        self._keep(stretch.load)
        return stretch, 0

    def _keep(self, kept: Load) -> None:
        self._loads[kept] = None
        self.metrics.bytes_now += kept.size
        while self._loads and self.metrics.bytes_now > self._max_bytes:
            oldest, _ = self._loads.popitem(last=False)
            self._forget(oldest)

    def _use_ahead(self, used: Load) -> None:
        used.is_ahead = False
        self._ahead_bytes -= used.size

    def _forget(self, kept: Load) -> None:
        self.metrics.bytes_now -= kept.size
        if kept.is_ahead:
            self._use_ahead(kept)
        if isinstance(kept, Fresh):
            if self._fresh.get(kept.segment) is kept:
                del self._fresh[kept.segment]
            return
        places = self._coalesced if kept.is_coalesced else self._places
        for key in kept.keys:
            place = places.get(key)
            if place is not None and place[0].load is kept:
                del places[key]
