"""The cache of extents that were read, checked and given their offsets; bounded, shared by all fetches.

A cached piece is found by its place in the bucket, which never changes. What one read brings (or one flush, or
one coalescing) is one `Load`, and is evicted as a whole, so that its memory is really freed and the bound in bytes
holds. Concurrent fetches share a read. Reads run in threads, everything else in the event loop. What the cache gives
out are spans: batches as they were produced, or coalesced once for all fetches.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from lacuna.agent.fetch.buffers import LiveBytes, ReadBuffer
from lacuna.agent.fetch.coalescing import coalesced, coalescible
from lacuna.agent.fetch.fresh import Fresh
from lacuna.agent.fetch.loading import (
    BATCH_OVERHEAD,
    LOAD_OVERHEAD,
    ExtentCorruptError,
    ExtentError,
    Loaded,
    LoadPlan,
    load,
    plan_loads,
)
from lacuna.agent.fetch.plan import FetchPlan
from lacuna.agent.fetch.stretch import Load, Span, Stretch
from lacuna.controlplane.shared.log.pieces import Piece, Place
from lacuna.wire.layout import Buffer

if TYPE_CHECKING:
    from lacuna.logstore.objects.store import ObjectStore

log = logging.getLogger("lacuna.agent.fetch")

# A load is about this large at most: what is loaded together is also evicted together.
_LOAD_BYTES: Final = 4 << 20

# A stretch, and the index of a piece in its `pieces`.
_Slot: TypeAlias = tuple[Stretch, int]
# For the place of each piece: where it is in memory, or why it could not be read.
_Slots: TypeAlias = "dict[Place, _Slot | ExtentError]"
_Reading: TypeAlias = "asyncio.Task[_Slots]"


@dataclass(slots=True, kw_only=True)
class CacheMetrics:
    """Counters; `bytes_now` is a gauge. `hits` and `misses` count extents, `bytes_read` bytes read from the store."""

    hits: int = 0
    misses: int = 0
    written_through: int = 0
    reads: int = 0
    bytes_read: int = 0
    bytes_now: int = 0
    coalesced: int = 0
    corrupt: int = 0


class ExtentCache:
    """Stretches by the places of their pieces; the least recently used load is evicted first.

    `max_bytes` bounds the cache, `max_read_bytes` one read of the store, `max_reads` how many loads run at once.
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
        self._slots: dict[Place, _Slot] = {}
        self._coalesced: dict[Place, _Slot] = {}
        self._loads: OrderedDict[Load, None] = OrderedDict()
        self._fresh: dict[tuple[int, int], Fresh] = {}
        self._reading: dict[Place, _Reading] = {}
        self._free_reads = asyncio.Semaphore(max_reads)
        self._max_reads = max_reads
        self._reads_now = 0
        self._live = LiveBytes()
        self._ahead_bytes = 0

    @property
    def outside_bytes(self) -> int:
        """Bytes of records in memory outside the cache: in reads under way, and in answers."""
        return max(self._live.total - self.metrics.bytes_now, 0)

    def find(self, pieces: Sequence[Piece], index: int) -> Span | None:
        """Return the longest span for pieces[index], pieces[index + 1], … that is contiguous in memory.

        None if pieces[index] is not in memory."""
        piece = pieces[index]
        slot = self._slots.get(piece[:3])
        if slot is None and self._fresh:
            slot = self._from_fresh(piece)
        if slot is None:
            return None
        stretch, first = slot
        self._loads.move_to_end(stretch.load)
        if stretch.load.is_ahead:
            self._use_ahead(stretch.load)
        span = stretch.span(first, pieces, index)
        if span is not None:
            self.metrics.hits += span.piece_count
        return span

    def find_coalesced(self, plan: FetchPlan, index: int) -> Span | None:
        """As `find` for the plan's pieces, among coalesced batches; None if they hold nothing from the asked offset on.

        Batches coalesced for one isolation level serve the other too, as long as every extent in the returned span is
        live for both. A span whose first batch holds records of earlier extents that the plan may not show is not
        returned.
        """
        slot = self._coalesced.get(plan.pieces[index][:3])
        if slot is None:
            return None
        stretch, first = slot
        self._loads.move_to_end(stretch.load)
        span = stretch.span(first, plan.pieces, index, plan.asked_offset)
        return span if span is None or plan.may_show(span.earlier_pieces) else None

    def coalesce(self, spans: Sequence[Span]) -> list[Span]:
        """Return spans with the same records, those of small batches coalesced (S19). Raises ExtentCorruptError."""
        if not any(span.is_small for span in spans):
            return list(spans)
        return [one if isinstance(one, Span) else self._coalesce(one) for one in coalescible(spans)]

    def offer(self, lease_id: int, sequence: int, parts: Mapping[int, Buffer]) -> None:
        """Keep batches of a segment that was just written, by position, so that tailing consumers need not read them.

        They are copied when a fetch first asks for them; until then they are the producer's own buffers.
        """
        fresh = Fresh((lease_id, sequence), dict(parts))
        self._fresh[fresh.segment] = fresh
        self._keep(fresh)

    async def read(
        self, runs: Sequence[Sequence[Piece]]
    ) -> list[tuple[list[Span], ExtentError | None]]:
        """Read pieces that are not in memory.

        Each run holds consecutive pieces of one partition. Return the spans of each run, in order, up to the first
        piece that could not be read, and the error of that piece.
        """
        slots: _Slots = {}
        for task in self._start(runs):
            # Others may wait for the same read.
            slots.update(await asyncio.shield(task))
        return [_spans_of(run, slots) for run in runs]

    def read_ahead(self, runs: Iterable[Sequence[Piece]]) -> None:
        """Begin to read pieces that will be wanted next, without waiting.

        Does nothing if `max_reads` loads are under way, or if so much was read ahead already that it would be evicted
        before it is used.
        """
        if self._reads_now < self._max_reads and self._ahead_bytes < self._max_bytes // 2:
            slots = self._slots
            self._start(
                ([piece for piece in run if piece[:3] not in slots] for run in runs), ahead=True
            )

    async def close(self) -> None:
        """Wait for the reads under way to end."""
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
        cluster_id = self._cluster_id()
        plans = plan_loads(
            wanted,
            lambda piece: piece.key(cluster_id),
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

    async def _load(self, plan: LoadPlan, ahead: bool, is_first: bool) -> _Slots:
        """Run one load. Errors are returned, since it is possible that nobody waits any more."""
        self._reads_now += 1
        try:
            async with self._free_reads:
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
        slots: _Slots = {}
        for stretch in loaded.stretches:
            slots.update(self._add(self._slots, stretch))
        self._keep(loaded.load)
        for piece, error in loaded.errors:
            self._report(error)
            slots[piece.place] = error
        return slots

    def _add(self, slots: dict[Place, _Slot], stretch: Stretch) -> dict[Place, _Slot]:
        """Let the pieces of a stretch be found in it, instead of in an older stretch."""
        added = {piece[:3]: (stretch, index) for index, piece in enumerate(stretch.pieces)}
        slots.update(added)
        stretch.load.places += added
        return added

    def _coalesce(self, spans: Sequence[Span]) -> Span:
        """Coalesce the batches of all these spans, and cache the result."""
        data, walked = coalesced(spans)
        pieces = [piece for span in spans for piece in span.pieces]
        kept = Load(len(data) + BATCH_OVERHEAD * len(walked) + LOAD_OVERHEAD, is_coalesced=True)
        stretch = Stretch(memoryview(data), walked, kept, pieces)
        self._live.watch(data, len(data))
        self._add(self._coalesced, stretch)
        self.metrics.coalesced += 1
        self._keep(kept)
        return Span(stretch, 0, len(pieces), 0, len(walked))

    def _report(self, error: ExtentError) -> None:
        if isinstance(error, ExtentCorruptError):
            self.metrics.corrupt += 1
            log.error("%s", error)

    def _from_fresh(self, piece: Piece) -> _Slot | None:
        """Find the piece among the batches that a flush has offered."""
        fresh = self._fresh.get(piece[:2])
        if fresh is None:
            return None
        data = ReadBuffer()
        stretch = fresh.take(piece, data)
        if stretch is None:
            return None
        self._live.watch(data, piece.size)
        self.metrics.bytes_now -= piece.size
        self._add(self._slots, stretch)
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
        slots = self._coalesced if kept.is_coalesced else self._slots
        for place in kept.places:
            slot = slots.get(place)
            if slot is not None and slot[0].load is kept:
                del slots[place]


def _spans_of(
    run: Sequence[Piece], slots: Mapping[Place, _Slot | ExtentError]
) -> tuple[list[Span], ExtentError | None]:
    """Return the run's spans up to the first piece that could not be read, and that piece's error."""
    spans: list[Span] = []
    index = 0
    while index < len(run):
        slot = slots[run[index][:3]]
        if isinstance(slot, ExtentError):
            return spans, slot
        stretch, first = slot
        span = stretch.span(first, run, index)
        assert span is not None, "what was read is not coalesced"
        spans.append(span)
        index += span.piece_count
    return spans, None
