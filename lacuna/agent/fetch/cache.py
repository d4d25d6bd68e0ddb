"""The cache of extents that have been read, checked and given their offsets. It is bounded and shared by all fetches.

A cached piece is found by its partition and offset, provided that its place in the bucket is still the same
(`stretches`). The result of one read, flush or coalescing is one `Load`, which is evicted as a whole, so that eviction
actually frees memory and the cache stays within its bound. Concurrent fetches share a read. Reads run in threads, and
everything else runs in the event loop. The cache returns spans, whose batches are as produced, or coalesced once for
all fetches.
"""

import asyncio
import logging
import sys
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from lacuna.agent.fetch.buffers import LiveBytes, ReadBuffer
from lacuna.agent.fetch.coalescing import coalesced, coalescible
from lacuna.agent.fetch.fresh import Fresh
from lacuna.agent.fetch.loading import (
    BATCH_OVERHEAD,
    LOAD_OVERHEAD,
    NOTHING_BROUGHT,
    PIECE_OVERHEAD,
    STRETCH_OVERHEAD,
    ExtentCorruptError,
    ExtentError,
    Loaded,
    LoadPlan,
    Run,
    load,
    plan_loads,
)
from lacuna.agent.fetch.memory import ReadMemory
from lacuna.agent.fetch.plan import FetchPlan
from lacuna.agent.fetch.shared import SharedReads
from lacuna.agent.fetch.stretch import Load, Span, Stretch
from lacuna.agent.fetch.stretches import Stretches
from lacuna.agent.hot import Holding, nothing_held
from lacuna.controlplane.shared.log.pieces import Piece, Pieces, Place
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.logstore.objects.store import ObjectStore
from lacuna.logstore.segments.paths import key_in_lease
from lacuna.wire.layout import Buffer

log = logging.getLogger("lacuna.agent.fetch")

# The approximate bound on the size of a load, which is also evicted as a whole.
_LOAD_BYTES: Final = 4 << 20
# The share of the cache for loads that have been used from start to end, if reading them again costs little.
_FINISHED_SHARE: Final = 8
# One consumer may use the start of a stretch twice, since its answer may have been cut before that start.
_USES_OF_ONE: Final = 2

_Reading: TypeAlias = "asyncio.Task[Loaded]"


@dataclass(slots=True, kw_only=True)
class CacheMetrics:
    """Counters and the gauge `bytes_now`. `hits` and `misses` count extents."""

    hits: int = 0
    misses: int = 0
    written_through: int = 0
    reads: int = 0
    bytes_read: int = 0
    bytes_now: int = 0
    coalesced: int = 0
    corrupt: int = 0


class ExtentCache:
    """The loads in memory. The least recently used load is evicted first.

    Most records are read once. A load that has been used completely is called finished if reading it again would cost
    little. Finished loads may take up only a share of the cache, so that the next reads reuse their memory and other
    loads are kept. A load that several consumers use is never finished.

    `max_bytes` bounds the size of the cache, `max_read_bytes` the size of one read from the store, and `max_reads` the
    number of concurrent loads. `shared` performs the reads that the agents in the zone share, if they share any.
    """

    def __init__(
        self,
        store: ObjectStore,
        executor: Executor,
        cluster_id: Callable[[], str],
        *,
        max_bytes: int,
        max_read_bytes: int,
        max_reads: int,
        shared: SharedReads | None = None,
        holding: Holding = nothing_held,
    ) -> None:
        self.metrics = CacheMetrics()
        self._store = store
        self._executor = executor
        self._cluster_id = cluster_id
        self._max_bytes = max_bytes
        self._reserved = 0
        self._max_read_bytes = max_read_bytes
        self._produced = Stretches()
        self._coalesced = Stretches()
        self._loads: OrderedDict[Load, None] = OrderedDict()
        self._finished: OrderedDict[Load, None] = OrderedDict()
        self._finished_bytes = 0
        # With a gap of 0, another request costs no more than the bytes that it returns.
        self._is_cheap = store.read_gap == 0
        self._fresh: dict[tuple[int, int], Fresh] = {}
        self._reading: dict[PartitionKey, list[tuple[Pieces, _Reading]]] = {}
        self._free_reads = asyncio.Semaphore(max_reads)
        self._max_reads = max_reads
        self._shared = shared
        self._holding = holding
        self._reads_now = 0
        self._live = LiveBytes()
        # Reads under way and answers also hold parts of it.
        self._memory = ReadMemory(max_bytes + max_bytes // 4)
        self._ahead_bytes = 0

    @property
    def outside_bytes(self) -> int:
        """The bytes of records in memory outside the cache: in reads under way and in answers."""
        return max(self._live.total - self.metrics.bytes_now, 0)

    def find(self, partition: PartitionKey, pieces: Pieces, index: int) -> Span | None:
        """Return the longest span for pieces[index], pieces[index + 1], … that is contiguous in memory, or None if
        pieces[index] is not in memory.
        """
        found = self._produced.find(partition, pieces, index)
        if found is None and self._fresh:
            found = self._from_fresh(partition, pieces[index])
        if found is None:
            return None
        stretch, first = found
        load = stretch.load
        (self._finished if load.is_finished else self._loads).move_to_end(load)
        if load.is_ahead:
            self._use_ahead(load)
        span = stretch.span(first, pieces, index)
        if span is not None:
            self.metrics.hits += span.piece_count
            self._use(span)
        return span

    def find_coalesced(self, plan: FetchPlan, index: int) -> Span | None:
        """Like `find`, but among coalesced batches. Return None if they hold no record at or after the requested
        offset.

        Batches coalesced for one isolation level also serve the other, provided that every extent in the returned span
        is live for both. A span is not returned if its first batch holds records of earlier extents that the plan may
        not show.
        """
        found = self._coalesced.find(plan.partition, plan.pieces, index)
        if found is None:
            return None
        stretch, first = found
        self._loads.move_to_end(stretch.load)
        span = stretch.span(first, plan.pieces, index, plan.asked_offset)
        return span if span is None or plan.may_show(span.earlier_pieces) else None

    def missing_until(
        self, partition: PartitionKey, pieces: Pieces, index: int, is_coalesced: bool
    ) -> int:
        """Return the end index of the run of pieces, starting at `index`, that are not in memory.

        With `is_coalesced`, a piece that is held only in coalesced batches counts as in memory.
        """
        offset = pieces.base_offsets[index]
        following = self._produced.next_after(partition, offset)
        if is_coalesced:
            following = min(following, self._coalesced.next_after(partition, offset))
        end = bisect_left(pieces.base_offsets, following, index + 1)
        if self._fresh:
            segments = zip(
                pieces.lease_ids[index + 1 : end], pieces.sequences[index + 1 : end], strict=True
            )
            for at, segment in enumerate(segments, index + 1):
                if segment in self._fresh:
                    return at
        return end

    def coalesce(self, spans: Sequence[Span]) -> list[Span]:
        """Return spans with the same records, in which small batches are coalesced (S19). Raises ExtentCorruptError."""
        if not any(span.is_small for span in spans):
            return list(spans)
        return [one if isinstance(one, Span) else self._coalesce(one) for one in coalescible(spans)]

    def offer(self, lease_id: int, sequence: int, parts: Mapping[int, Buffer]) -> None:
        """Keep batches of a segment that has just been written, by position, so that tailing consumers need not read
        them from the store.

        The batches are copied when a fetch first requests them. Until then, the producers' own buffers are kept.
        """
        fresh = Fresh((lease_id, sequence), dict(parts))
        self._fresh[fresh.segment] = fresh
        self._keep(fresh)

    async def read(self, runs: Sequence[Run]) -> list[tuple[list[Span], ExtentError | None]]:
        """Read pieces that are not in memory.

        Return, for each run, its spans in order up to the first piece that could not be read, and that piece's error.
        """
        read = _Read()
        for task in self._start(runs):
            # Others may wait for the same read.
            read.add(await asyncio.shield(task))
        found = [read.spans_of(run) for run in runs]
        for spans, _ in found:
            for span in spans:
                self._use(span)
        return found

    def ahead_bytes(self, setting: int) -> int:
        """Return how many bytes to read ahead of a fetch: more if the store charges for requests."""
        return setting if self._is_cheap else 2 * setting

    def read_ahead(self, runs: Iterable[Run], window: int) -> bool:
        """Start reading the pieces in the next `window` bytes of each partition, and return without waiting for the
        reads.

        Does nothing if `max_reads` loads are under way, or if reading further ahead would evict bytes before they are
        used. Returns whether each window was filled. If the store charges for requests, a window is not filled just
        because a single fetch has moved it by a few bytes.
        """
        if self._reads_now >= self._max_reads or self._ahead_bytes >= self._max_bytes // 2:
            return self._is_cheap
        if self._is_cheap:
            self._start([each for run in runs for each in self._missing(run)], ahead=True)
            return True
        wanted: list[Run] = []
        tasks: dict[_Reading, None] = {}
        is_filled = True
        for run in runs:
            missing = [
                part for each in self._missing(run) for part in self._not_under_way(each, tasks)
            ]
            size = sum(sum(part.pieces.sizes) for part in missing)
            is_end = sum(run.pieces.sizes) < window
            if is_end or size >= min(_LOAD_BYTES, window // 2):
                wanted += missing
            else:
                is_filled = False
        self._begin(wanted, tasks, ahead=True)
        return is_filled

    def _missing(self, run: Run) -> Iterator[Run]:
        """Yield the parts of a run that are not in memory in uncoalesced form."""
        partition, pieces = run
        index = 0
        while index < len(pieces):
            found = self._produced.find(partition, pieces, index)
            if found is not None:
                stretch, first = found
                index += stretch.pieces.common(first, pieces, index)
                continue
            end = self.missing_until(partition, pieces, index, is_coalesced=False)
            yield Run(partition, pieces[index:end])
            index = end

    def reserve(self, size: int) -> None:
        """Set aside `size` bytes of the cache for other uses."""
        self._reserved = size
        self._evict()

    async def close(self) -> None:
        if self._reading:
            await asyncio.wait({task for tasks in self._reading.values() for _, task in tasks})

    def _start(self, runs: Iterable[Run], ahead: bool = False) -> list[_Reading]:
        tasks: dict[_Reading, None] = {}
        wanted = [each for run in runs for each in self._not_under_way(run, tasks)]
        self._begin(wanted, tasks, ahead=ahead)
        return list(tasks)

    def _begin(self, wanted: list[Run], tasks: dict[_Reading, None], *, ahead: bool) -> None:
        total = sum(sum(run.pieces.sizes) for run in wanted)
        shared = self._shared if self._shared is not None and self._shared.is_shared else None
        plans = plan_loads(
            wanted,
            partial(key_in_lease, self._cluster_id()),
            read_gap=self._store.read_gap,
            max_read_bytes=self._max_read_bytes,
            load_bytes=self._load_bytes(total, ahead=ahead),
            chunk_bytes=sys.maxsize if shared is None else shared.chunks.chunk_bytes,
        )
        for plan in plans:
            is_first = plan is plans[0]
            runs_of_plan = plan.runs()
            task = asyncio.get_running_loop().create_task(
                self._load(plan, runs_of_plan, shared, ahead=ahead, is_first=is_first)
            )
            for run in runs_of_plan:
                self._reading.setdefault(run.partition, []).append((run.pieces, task))
            tasks[task] = None

    def _load_bytes(self, total: int, *, ahead: bool) -> int:
        """Return the maximum size of each load when `total` bytes are to be read.

        Small concurrent loads serve a waiting fetch sooner. Nothing waits for bytes that are read ahead, so these are
        read with as few requests as possible.
        """
        if ahead and not self._is_cheap:
            return _LOAD_BYTES
        return min(_LOAD_BYTES, max(total // self._max_reads, 1))

    def _not_under_way(self, run: Run, tasks: dict[_Reading, None]) -> Iterator[Run]:
        """Yield the parts of a run that no read under way covers, and add the reads that cover the rest to `tasks`.

        The pieces on both sides of such a read become two stretches, since a single stretch would hide the read's
        result.
        """
        partition, pieces = run
        left = bytearray(b"\1") * len(pieces)
        for others, task in self._reading.get(partition, ()):
            index = bisect_left(pieces.base_offsets, others.base_offsets[0])
            end = bisect_left(pieces.base_offsets, others.next_offsets[-1])
            while index < end:
                first = bisect_left(others.base_offsets, pieces.base_offsets[index])
                count = others.common(first, pieces, index)
                if count:
                    left[index : index + count] = bytes(count)
                    tasks[task] = None
                index += count or 1
        start = left.find(1)
        while start >= 0:
            end = left.find(0, start)
            end = len(left) if end < 0 else end
            yield Run(partition, pieces[start:end])
            start = left.find(1, end)

    async def _load(
        self,
        plan: LoadPlan,
        runs: Sequence[Run],
        shared: SharedReads | None,
        *,
        ahead: bool,
        is_first: bool,
    ) -> Loaded:
        """Run one load. Errors are returned rather than raised, since its callers may have stopped waiting."""
        self._reads_now += 1
        try:
            async with self._free_reads:
                loop = asyncio.get_running_loop()
                buffer = self._memory.take(plan.starts[-1])
                self._live.watch(buffer.obj, len(buffer))
                brought = None if shared is None else await shared.bring(plan, buffer)
                outcomes = NOTHING_BROUGHT if brought is None else brought.outcomes
                async with self._holding(plan.reads.keys):
                    loaded: Loaded = await loop.run_in_executor(
                        self._executor, load, plan, self._store, buffer, outcomes
                    )
        finally:
            self._reads_now -= 1
            self._ended(runs)
        self.metrics.misses += len(plan.pieces)
        self.metrics.reads += loaded.reads
        self.metrics.bytes_read += loaded.bytes_read
        if shared is not None and brought is not None and loaded.mended:
            shared.report_damaged(plan, brought, loaded.mended)
        loaded.load.is_ahead = ahead
        # If the store charges for requests, each partition's window is filled when the partition's own records are
        # used.
        loaded.load.wants_ahead = ahead and (is_first or not self._is_cheap)
        loaded.load.unfinished = len(loaded.stretches) if self._is_cheap else 0
        self._ahead_bytes += loaded.load.size * ahead
        self._keep(loaded.load)
        for _, error in loaded.errors:
            self._report(error)
        return loaded

    def _ended(self, runs: Sequence[Run]) -> None:
        for partition, pieces in runs:
            left = [each for each in self._reading[partition] if each[0] is not pieces]
            if left:
                self._reading[partition] = left
            else:
                del self._reading[partition]

    def _coalesce(self, spans: Sequence[Span]) -> Span:
        data, walked = coalesced(spans)
        pieces = Pieces.joined([span.pieces for span in spans])
        size = len(data) + BATCH_OVERHEAD * len(walked) + PIECE_OVERHEAD * len(pieces)
        kept = Load(size + STRETCH_OVERHEAD + LOAD_OVERHEAD, is_coalesced=True)
        partition = spans[0].stretch.partition
        stretch = Stretch(memoryview(data), walked, kept, partition, pieces)
        kept.stretches = [stretch]
        self._live.watch(data, len(data))
        self.metrics.coalesced += 1
        self._keep(kept)
        return Span(stretch, 0, len(pieces), 0, len(walked))

    def _report(self, error: ExtentError) -> None:
        if isinstance(error, ExtentCorruptError):
            self.metrics.corrupt += 1
            log.error("%s", error)

    def _from_fresh(self, partition: PartitionKey, piece: Piece) -> tuple[Stretch, int] | None:
        fresh = self._fresh.get(piece[:2])
        if fresh is None:
            return None
        data = ReadBuffer()
        taken = fresh.take(partition, piece, data)
        if taken is None:
            return None
        self._live.watch(data, piece.size)
        self.metrics.bytes_now -= piece.size
        self.metrics.written_through += 1
        self._keep(taken)
        return taken.stretches[0], 0

    def _keep(self, kept: Load) -> None:
        index = self._coalesced if kept.is_coalesced else self._produced
        for stretch in kept.stretches:
            index.put(stretch)
        self._loads[kept] = None
        self.metrics.bytes_now += kept.size
        self._evict()

    def _evict(self) -> None:
        most = self._max_bytes - self._reserved
        while self._finished and (
            self._finished_bytes > most // _FINISHED_SHARE or self.metrics.bytes_now > most
        ):
            self._forget(next(iter(self._finished)))
        while self._loads and self.metrics.bytes_now > most:
            self._forget(next(iter(self._loads)))

    def _use(self, span: Span) -> None:
        """Record which part of a load has been used, so that complete and repeated use are recognized."""
        stretch, load = span.stretch, span.stretch.load
        if not load.unfinished and not load.is_finished:
            return
        stretch.uses += not span.first_piece
        if stretch.uses > _USES_OF_ONE:
            if load.is_finished:
                self._set_finished(load, False)
            load.unfinished = 0
        elif not stretch.is_finished and span.end_piece == len(stretch.pieces):
            stretch.is_finished = True
            load.unfinished -= 1
            if not load.unfinished:
                self._set_finished(load, True)

    def _set_finished(self, load: Load, is_finished: bool) -> None:
        here, there = self._loads, self._finished
        if not is_finished:
            here, there = there, here
        del here[load]
        there[load] = None
        load.is_finished = is_finished
        self._finished_bytes += load.size if is_finished else -load.size

    def _use_ahead(self, used: Load) -> None:
        used.is_ahead = False
        self._ahead_bytes -= used.size

    def _forget(self, kept: Load) -> None:
        if kept.is_finished:
            self._set_finished(kept, False)
        del self._loads[kept]
        kept.unfinished = 0
        self.metrics.bytes_now -= kept.size
        if kept.is_ahead:
            self._use_ahead(kept)
        if isinstance(kept, Fresh):
            if self._fresh.get(kept.segment) is kept:
                del self._fresh[kept.segment]
            return
        index = self._coalesced if kept.is_coalesced else self._produced
        for stretch in kept.stretches:
            index.drop(stretch)
        kept.stretches = []  # break the reference cycle, so that the memory is freed with the last answer


class _Read:
    """The results of several loads, kept here because the cache may evict them in the meantime."""

    def __init__(self) -> None:
        self._found = Stretches()
        self._all: list[Stretch] = []
        self._errors: dict[Place, ExtentError] = {}

    def add(self, loaded: Loaded) -> None:
        for stretch in loaded.stretches:
            self._found.put(stretch)
            self._all.append(stretch)
        self._errors.update((piece.place, error) for piece, error in loaded.errors)

    def spans_of(self, run: Run) -> tuple[list[Span], ExtentError | None]:
        """Return the run's spans up to the first piece that could not be read, and that piece's error."""
        spans: list[Span] = []
        index = 0
        while index < len(run.pieces):
            found = self._found.find(run.partition, run.pieces, index) or self._look(run, index)
            if found is None:
                return spans, self._errors[run.pieces[index].place]
            stretch, first = found
            span = stretch.span(first, run.pieces, index)
            assert span is not None, "data that was just read is not coalesced"
            spans.append(span)
            index += span.piece_count
        return spans, None

    def _look(self, run: Run, index: int) -> tuple[Stretch, int] | None:
        """Find a piece that lies in a stretch partly covered by another stretch."""
        for stretch in self._all:
            if stretch.partition == run.partition:
                first = stretch.index_of(run.pieces, index)
                if first is not None:
                    return stretch, first
        return None
