"""Flushes: one segment for the batches of many producers, its PUT, its commit, the verdicts.

    queue → write_segment → put (threads, several at once) → CommitSegment (one after the other) → verdicts

A flush starts at once when none is in flight, else when the one in flight ends, or when as much as
`flush_bytes` waits; with `flush_interval_ms` it starts that long after its first batch came. Commits
leave in the order of the queue, and after a flush that failed, the later batches of its producers fail
with it, so that no client ever sees a gap at the head of its line (S12).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from agent.eager import start
from agent.lease import NoLeaseError
from agent.produce.buffer import (
    MAYBE_PERSISTED,
    NOT_PERSISTED,
    STORE_FAILED,
    PartitionKey,
    PendingBatch,
    ProduceBuffer,
    ProducerKey,
    Verdict,
    ordered_producers,
)
from agent.produce.gaps import Gaps
from agent.produce.settings import ProduceSettings
from controlplane.batches import COMMITTED_BATCH, TRANSACTIONAL_ID_SHIFT
from controlplane.client.errors import CommandRefused, ControlPlaneUnavailable
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted, SegmentSlice
from controlplane.v1.log_pb2 import SegmentId as SegmentIdMessage
from logstore.objects.store import ObjectStoreError
from logstore.segments.paths import SegmentId, segment_key
from logstore.segments.writer import SliceInput, WrittenSegment, write_segment

if TYPE_CHECKING:
    from controlplane.client import ControlClient
    from logstore.objects.store import ObjectStore

T = TypeVar("T")

log = logging.getLogger("lacuna.agent.produce")

# A client writes the requests of one burst some ten microseconds apart. A turn of the loop looks into the
# sockets again; a flush begins after one that brought nothing, or after so many.
_MAX_TURNS = 8
# What is larger takes longer than its sync; smaller flushes take about the same time.
_SMALL_BYTES = 128 * 1024
_FIRST_RETRY_SECONDS = 0.05
_MAX_RETRY_SECONDS = 1.0


class Lease(Protocol):
    """What flushes need of an agent's lease (agent/lease.py)."""

    cluster_id: str

    def next_segment_id(self) -> SegmentId:
        """An id never given before. Raises NoLeaseError."""
        ...

    def report_expired(self, lease_id: int) -> None:
        """A commit was answered LEASE_EXPIRED."""
        ...


class Pace(Protocol):
    """Whether a small PUT may hold up the event loop (lacuna/pace.py)."""

    def allows(self) -> bool:
        """Whether the loop may do it itself now."""
        ...

    def timed(self, job: Callable[[], T]) -> T:
        """Run it, in whichever thread, and learn how long it takes."""
        ...


@dataclass(slots=True, kw_only=True)
class FlushMetrics:
    """Counters; `_now` is a gauge."""

    flushes: int = 0
    flushes_failed: int = 0
    flushes_now: int = 0
    batches: int = 0
    bytes_written: int = 0
    commits_repeated: int = 0


@dataclass(slots=True, eq=False)
class _Flight:
    """One flush: what it carries, and `ended` for the flush behind it."""

    batches: list[PendingBatch]
    previous: "asyncio.Future[None] | None"
    ended: "asyncio.Future[None]"
    segment_id: SegmentId | None = None
    #: what the segment holds of each partition, in the order of its slices
    slices: dict[PartitionKey, list[PendingBatch]] = field(default_factory=dict)

    @property
    def is_small(self) -> bool:
        """The time of its PUT is that of the sync."""
        return sum(len(batch.part) for batch in self.batches) <= _SMALL_BYTES

    def group(self) -> list[SliceInput]:
        """The batches by partition, each in order."""
        for batch in self.batches:
            self.slices.setdefault(batch.key, []).append(batch)
        return [
            SliceInput(topic_id, partition, [batch.part for batch in batches])
            for (topic_id, partition), batches in self.slices.items()
        ]


#: hears of a segment: its id, and (topic id, partition), position and bytes of every batch
Written = Callable[[SegmentId, Iterable[tuple[PartitionKey, int, memoryview | bytes]]], None]


class Flusher:
    """The flushes of one worker. Used in one event loop; PUTs run in threads of its own."""

    def __init__(
        self,
        *,
        control: "ControlClient",
        store: "ObjectStore",
        lease: Lease,
        settings: ProduceSettings,
        on_written: Written | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.metrics = FlushMetrics()
        self._control = control
        self._store = store
        self._lease = lease
        self._settings = settings
        self._on_written = on_written
        self._pace = pace
        self._buffer = ProduceBuffer()
        self.gaps = Gaps(control)
        self._executor = ThreadPoolExecutor(settings.max_flushes, "flush")
        self._flights: dict[_Flight, asyncio.Task[None] | None] = {}
        self._puts_now = 0
        self._last_ended: asyncio.Future[None] | None = None
        self._start: asyncio.Handle | None = None
        self._is_closed = False

    def submit(self, batches: list[PendingBatch]) -> None:
        """Queue checked batches; each gets its verdict, and its ticket is told."""
        if self._is_closed:
            for batch in batches:
                batch.settle(NOT_PERSISTED)
            return
        if self._buffer.queued_bytes >= self._settings.max_queued_bytes:
            self.gaps.mark(batches, asyncio.get_running_loop().time())
            for batch in batches:
                batch.settle(NOT_PERSISTED)
            return
        self._buffer.add(batches)
        self._schedule()

    async def close(self) -> None:
        """Flush what is queued, then end."""
        self._is_closed = True
        while self._buffer or self._flights:
            self._begin()
            if self._flights:
                flying = [task for task in self._flights.values() if task is not None]
                await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
        if self._start is not None:
            self._start.cancel()
        self._executor.shutdown(wait=False)

    def _schedule(self) -> None:
        """Make sure that a flush starts when it is due."""
        is_full = self._buffer.queued_bytes >= self._settings.flush_bytes
        if self._start is not None:
            if not is_full or not isinstance(self._start, asyncio.TimerHandle):
                return
            self._start.cancel()
            self._start = None
        if not self._buffer or self._puts_now >= self._settings.max_flushes:
            return
        loop = asyncio.get_running_loop()
        if is_full:
            self._start = loop.call_soon(self._begin)
        elif self._settings.flush_interval_ms:
            self._start = loop.call_later(self._settings.flush_interval_ms / 1000, self._begin)
        elif not self._puts_now:
            self._start = loop.call_soon(self._gather, 0, 0)

    def _gather(self, seen: int, turns: int) -> None:
        """Begin when nothing more comes, so that a burst of requests shares one flush."""
        if len(self._buffer) == seen or turns == _MAX_TURNS:
            self._begin()
            return
        loop = asyncio.get_running_loop()
        self._start = loop.call_soon(self._gather, len(self._buffer), turns + 1)

    def _begin(self) -> None:
        self._start = None
        if not self._buffer or self._puts_now >= self._settings.max_flushes:
            return
        loop = asyncio.get_running_loop()
        flight = _Flight(
            self._buffer.take(self._settings.flush_bytes), self._last_ended, loop.create_future()
        )
        self._last_ended = flight.ended
        self._puts_now += 1
        self.metrics.flushes_now += 1
        self._flights[flight] = None
        task = start(self._fly(flight), "flush")
        if task is not None:
            self._flights[flight] = task
        self._schedule()

    async def _fly(self, flight: _Flight) -> None:
        """One flush from its batches to their verdicts."""
        failure: Verdict | None = MAYBE_PERSISTED
        try:
            written = await self._put(flight)
            if flight.previous is not None:
                await flight.previous
            failure = written if isinstance(written, Verdict) else None
            if isinstance(written, WrittenSegment):
                failure = await self._commit(flight, written)
        except Exception:
            _report(flight)
        finally:
            if failure is not None:
                self._fail(flight, failure)
            self.metrics.flushes += 1
            self.metrics.flushes_now -= 1
            del self._flights[flight]
            flight.ended.set_result(None)
            self._schedule()

    async def _put(self, flight: _Flight) -> WrittenSegment | Verdict:
        """Write the segment. A Verdict: why it is not there, as far as anybody will ever see."""
        try:
            flight.segment_id = self._lease.next_segment_id()
            write = partial(self._write, flight, flight.segment_id)
            if self._pace is not None and flight.is_small:
                write = partial(self._pace.timed, write)
                if self._puts_now == 1 and self._pace.allows():
                    return write()
            return await asyncio.get_running_loop().run_in_executor(self._executor, write)
        except NoLeaseError as error:
            log.warning("a flush failed: %s", error)
            return NOT_PERSISTED
        except ObjectStoreError as error:
            log.warning("a flush failed: segment %s: %s", flight.segment_id, error)
            return STORE_FAILED
        except Exception:
            # Given back as the others are, so that it too waits for the flushes before it (S12).
            _report(flight)
            return NOT_PERSISTED
        finally:
            self._puts_now -= 1
            self._schedule()

    def _write(self, flight: _Flight, segment_id: SegmentId) -> WrittenSegment:
        """Runs in a thread: checksums and the PUT."""
        cluster_id = self._lease.cluster_id
        written = write_segment(cluster_id, segment_id, flight.group())
        self._store.put(segment_key(cluster_id, segment_id), written.parts)
        return written

    async def _commit(self, flight: _Flight, written: WrittenSegment) -> Verdict | None:
        """Commit what has not failed meanwhile, and settle it; a Verdict where all failed."""
        placed = _place(flight, written)
        command, batches = _commit_command(written, placed)
        if not batches:
            return None
        if self._on_written is not None:
            # Before the commit: whoever tails hears of it before its reply is here.
            self._on_written(
                written.segment_id,
                [(batch.key, position, batch.part) for batch, position in placed],
            )
        reply = await self._call(command)
        if isinstance(reply, Verdict):
            return reply
        self.metrics.batches += len(placed)
        self.metrics.bytes_written += written.size
        for sent, verdict in zip(batches, reply.slices, strict=True):
            for index, batch in enumerate(sent):
                if verdict.error_code:
                    batch.settle(Verdict(verdict.error_code))
                    continue
                batch.settle(
                    Verdict(
                        verdict.error_codes[index],
                        verdict.base_offsets[index],
                        verdict.append_times[index],
                        verdict.log_start_offset,
                    )
                )
        return None

    async def _call(self, command: CommitSegment) -> SegmentCommitted | Verdict:
        """Send a commit until its outcome is known: it is idempotent by segment id."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.commit_timeout_ms / 1000
        pause = _FIRST_RETRY_SECONDS
        is_repeated = False
        while True:
            try:
                reply = (
                    await self._control.call(Command(commit_segment=command))
                ).segment_committed
            except ControlPlaneUnavailable as error:
                log.warning("segment %s: commit: %s", _name(command), error)
                if loop.time() + pause > deadline:
                    return MAYBE_PERSISTED
                # Nothing tells when the control plane is back but an attempt.
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_RETRY_SECONDS)
                is_repeated = True
                self.metrics.commits_repeated += 1
                continue
            except CommandRefused as error:
                log.error("segment %s: commit refused: %s", _name(command), error)
                return MAYBE_PERSISTED if is_repeated else NOT_PERSISTED
            if reply.error_code == ErrorCode.NONE:
                return reply
            if reply.error_code == ErrorCode.LEASE_EXPIRED:
                self._lease.report_expired(command.segment.lease_id)
            log.warning("segment %s: commit: error %d", _name(command), reply.error_code)
            # An attempt whose reply was lost may have been taken before the lease ended.
            return MAYBE_PERSISTED if is_repeated else NOT_PERSISTED

    def _fail(self, flight: _Flight, verdict: Verdict) -> None:
        """Fail a flush, and what its producers have sent since (S12)."""
        self.metrics.flushes_failed += 1
        unsettled = [batch for batch in flight.batches if batch.verdict is None]
        failed: set[ProducerKey] = ordered_producers(unsettled)
        self.gaps.mark(unsettled, asyncio.get_running_loop().time())
        for batch in unsettled:
            batch.settle(verdict)
        for other in self._flights:
            if other is not flight:
                for batch in other.batches:
                    if batch.producer_key in failed:
                        batch.settle(NOT_PERSISTED)
        for batch in self._buffer.remove(failed):
            batch.settle(NOT_PERSISTED)


def _place(flight: _Flight, written: WrittenSegment) -> list[tuple[PendingBatch, int]]:
    """The batches that have no verdict yet, with their positions in the object."""
    return [
        (batch, position)
        for batches, piece in zip(flight.slices.values(), written.slices, strict=True)
        for batch, position in zip(batches, piece.batch_positions, strict=True)
        if batch.verdict is None
    ]


def _commit_command(
    written: WrittenSegment, placed: list[tuple[PendingBatch, int]]
) -> tuple[CommitSegment, list[list[PendingBatch]]]:
    """The commit of `placed`, and its batches slice by slice."""
    slices: list[SegmentSlice] = []
    sent: list[list[PendingBatch]] = []
    by_partition: dict[PartitionKey, list[tuple[PendingBatch, int]]] = {}
    numbers: dict[str, int] = {}  # transactional id -> 1 + its index
    for batch, position in placed:
        by_partition.setdefault(batch.key, []).append((batch, position))
    for (topic_id, partition), entries in by_partition.items():
        sent.append([batch for batch, _ in entries])
        rows = [
            COMMITTED_BATCH.pack(
                position,
                len(batch.part),
                batch.record_count,
                batch.max_timestamp,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                _flags(batch, numbers),
            )
            for batch, position in entries
        ]
        partition_message = TopicPartition(topic_id=topic_id, partition=partition)
        slices.append(SegmentSlice(partition=partition_message, batches=b"".join(rows)))
    segment = SegmentIdMessage(
        lease_id=written.segment_id.lease_id, sequence=written.segment_id.sequence
    )
    command = CommitSegment(
        segment=segment, object_size=written.size, slices=slices, transactional_ids=numbers
    )
    return command, sent


def _flags(batch: PendingBatch, numbers: dict[str, int]) -> int:
    """What a commit says of a batch: its transactional id gets a number."""
    if not batch.transactional_id:
        return batch.flags
    number = numbers.setdefault(batch.transactional_id, len(numbers) + 1)
    return batch.flags | number << TRANSACTIONAL_ID_SHIFT


def _report(flight: _Flight) -> None:
    log.exception("our own mistake in the flush of segment %s", flight.segment_id)


def _name(command: CommitSegment) -> str:
    return str(SegmentId(command.segment.lease_id, command.segment.sequence))
