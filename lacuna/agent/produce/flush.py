"""Flushes: write the batches of many producers as one segment, commit it, and settle the batches.

    queue → write_segment → put (threads, several at once) → CommitSegment (in the order of the queue) → verdicts

A small flush becomes a hot segment (hot.py). It is not uploaded with a PUT; its bytes are sent with its commit, and it
does not wait for the request budget.

A flush starts immediately if none is in flight. Otherwise, it starts when the current flush ends or when a full flush
is queued. If the store charges for PUTs, the request budget must also pay for the flush (budget.py), unless
`flush_interval_ms` is set. A flush that has waited for the budget starts even while others are in flight. So does a hot
flush, a few milliseconds after the last one, so that the next append to the journal includes it (adr/0071).

A batch is never committed before one that its producer sent earlier (S12). Commits are sent in the order of the queue,
without waiting for the answers to earlier ones. Each commit names the one before it, and the control plane refuses it
until that one has been decided. A refused commit is sent again. If a flush fails, the later batches of its producers
fail with it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter
from typing import Final, Protocol

from lacuna.agent.eager import start
from lacuna.agent.hot import HotStore
from lacuna.agent.lease import NoLeaseError
from lacuna.agent.produce.budget import budget_of
from lacuna.agent.produce.buffer import (
    MAYBE_PERSISTED,
    MOST_OF_FLUSH,
    NOT_PERSISTED,
    STORE_FAILED,
    PendingBatch,
    ProduceBuffer,
    ProducerKey,
    Verdict,
    ordered_producers,
)
from lacuna.agent.produce.flight import Flight, commit_command, placed_batches
from lacuna.agent.produce.gaps import Gaps
from lacuna.agent.produce.hot import SMALL_BYTES, HotCopies, HotFlushes, HotLease
from lacuna.agent.produce.moves import Moves
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.agent.threads import Threads
from lacuna.base.pace import Burst, Pace
from lacuna.controlplane.client import CommandRefused, ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.shared.batches import (
    BATCH_VERDICT,
    FLAG_FOLLOWS,
    SLICE_VERDICT,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted
from lacuna.logstore.objects.store import ObjectStore, ObjectStoreError
from lacuna.logstore.segments.hot import lease_of
from lacuna.logstore.segments.paths import SegmentId, segment_key
from lacuna.logstore.segments.writer import WrittenSegment, write_segment

log = logging.getLogger("lacuna.agent.produce")

# A client writes the requests of a burst about ten microseconds apart. A flush waits for at most this many iterations
# of the event loop.
_MAX_ITERATIONS = 8
_FIRST_RETRY_SECONDS = 0.05
#: While other flushes are in flight, a hot flush begins this long after the last one. Most appends to a disk are
#: durable by then.
_APART_SECONDS: Final = 0.005
#: The maximum number of flushes in flight. A lease remembers the answers to twice as many commits.
_MOST_FLIGHTS: Final = 32
_MAX_RETRY_SECONDS = 1.0


class Lease(HotLease, Protocol):
    """The part of an agent's lease (agent/lease.py) that flushes use."""

    def next_segment_id(self, *, is_hot: bool = False) -> SegmentId:
        """Return a segment id that has never been used. Raises NoLeaseError."""
        ...

    def report_expired(self, lease_id: int) -> None: ...


class FlushOrderBroken(Exception):
    """A flush would be committed before an earlier one, which could reorder producers' batches (S12)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushSeen:
    """A finished flush: its number of batches, and when (perf_counter) it began, was stored and ended."""

    segment: str
    batches: int
    began: float
    put: float
    ended: float
    has_failed: bool


@dataclass(slots=True, kw_only=True)
class FlushMetrics:
    """Counters, and the gauge `flushes_now`. `on_flush` is called for each flush."""

    flushes: int = 0
    flushes_failed: int = 0
    flushes_now: int = 0
    batches: int = 0
    bytes_written: int = 0
    hot_flushes: int = 0
    hot_refused: int = 0
    commits_repeated: int = 0
    on_flush: Callable[[FlushSeen], None] | None = None


#: How long a store must fail before it counts as failing, so that a single lost request has no effect.
_FAILED_SECONDS: Final = 5.0
#: How long it still counts as failing after its last failure, since a full disk still accepts small segments.
_FAILING_SECONDS: Final = 30.0


class StoreHealth:
    """Whether the object store accepts segments. Times are those of the event loop."""

    def __init__(self) -> None:
        self._why = ""
        self._since = self._failed_at = -inf
        self._is_failing = False

    def failed(self, why: str, now: float) -> None:
        """Record that a segment could not be written."""
        if not self._is_failing and now > self._failed_at + _FAILING_SECONDS:
            self._since = now
        self._why, self._failed_at, self._is_failing = why, now, True

    def succeeded(self) -> None:
        """Record that a segment was written."""
        self._is_failing = False

    def why_not(self, now: float) -> str:
        """Return the store's last error, or "" if the store is not failing."""
        if not self._is_failing and now > self._failed_at + _FAILING_SECONDS:
            return ""
        until = now if self._is_failing else self._failed_at
        return self._why if until >= self._since + _FAILED_SECONDS else ""


#: The error codes in an answer that settles a commit, or after which the commit can be sent again.
_ANSWERS: Final = (ErrorCode.NONE, ErrorCode.HOT_REFUSED, ErrorCode.OUT_OF_TURN)

#: Called for a segment with its id, and with the (topic id, partition), position and bytes of every batch.
Written = Callable[[SegmentId, Iterable[tuple[PartitionKey, int, memoryview | bytes]]], None]


class Flusher:
    """Runs the flushes of one worker. Belongs to one event loop; PUTs run in its own threads."""

    def __init__(
        self,
        *,
        control: ControlClient,
        store: ObjectStore,
        lease: Lease,
        settings: ProduceSettings,
        hot: HotStore,
        on_written: Written | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.metrics = FlushMetrics()
        self._hot = hot
        self._control = control
        self._store = store
        self._lease = lease
        self._settings = settings
        self._on_written = on_written
        self._pace = pace
        self._buffer = ProduceBuffer()
        self.gaps = Gaps(control)
        self._moves = Moves(control.cluster, settings.commit_timeout_ms / 1000)
        self._executor = Threads(settings.max_flushes, "flush")
        self._flights: dict[Flight, asyncio.Task[None] | None] = {}
        self._puts_now = 0
        # A fixed interval replaces the budget.
        prices = None if settings.flush_interval_ms >= 0 else store.metrics.sent.prices
        self.budget = budget_of(settings, prices, control.cluster, self._schedule_again)
        self.hot = HotFlushes(store, lease, settings)
        self.copies = HotCopies(hot.inner, control.cluster, lease, self._executor, settings)
        self._store_health = StoreHealth()
        #: The newest flight.
        self._last: Flight | None = None
        #: The loop time at which the next hot flush may begin while others are in flight.
        self._beside_at = -inf
        self._start: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._beside: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def queued_bytes(self) -> int:
        return self._buffer.queued_bytes

    def submit(self, batches: list[PendingBatch]) -> None:
        """Queue checked batches. Each gets a verdict, immediately if the flusher is closed or its queue is full."""
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
        """Flush the queued batches, wait for the flushes in flight, and end."""
        if not self._is_closed:
            self._moves.close()
            if self.budget is not None:
                self.budget.close()
        self._is_closed = True
        while self._buffer or self._flights:
            self._begin()
            if self._flights:
                flying = [task for task in self._flights.values() if task is not None]
                await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
        for handle in (self._start, self._beside):
            if handle is not None:
                handle.cancel()
        self._stop_waiting()
        await self.copies.close()
        self._executor.shutdown(wait=False)

    def _schedule(self) -> None:
        is_full = (
            self._buffer.queued_bytes >= self._settings.flush_bytes
            or len(self._buffer) >= MOST_OF_FLUSH
        )
        if self._start is not None or (self._timer is not None and not is_full):
            return
        self._stop_waiting()
        if not self._buffer or not self._has_room():
            return
        loop = asyncio.get_running_loop()
        if is_full:
            self._start = loop.call_soon(self._begin)
        elif seconds := self._wait():
            self._timer = loop.call_later(seconds, self._waited)
        elif not self._may_begin():
            return
        elif self._is_worth_a_flush():
            self._start = loop.call_soon(self._gather, Burst(_MAX_ITERATIONS))
        elif self._beside is None and self._can_go_beside():
            self._beside = loop.call_at(self._beside_at, self._begin_beside)

    def _wait(self) -> float:
        """Return how many seconds the queued batches must wait for more batches, regardless of flushes in flight."""
        if self.hot.takes(self._buffer.queued_bytes):
            return 0.0
        if self.budget is not None:
            return self.budget.wait()
        return max(self._settings.flush_interval_ms, 0) / 1000

    def _waited(self) -> None:
        """Begin a flush that has waited, even if another one is in flight."""
        self._timer = None
        if self.budget is not None and self.budget.wait():
            self._schedule()  # the event loop's timers are not exact
        else:
            self._begin()

    def _schedule_again(self) -> None:
        """Reschedule the next flush, since the share of the request budget has changed."""
        self._stop_waiting()
        self._schedule()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _has_room(self) -> bool:
        """Whether one more flush may be in flight."""
        return self._puts_now < self._settings.max_flushes and len(self._flights) < _MOST_FLIGHTS

    def _may_begin(self) -> bool:
        """Whether a flush may begin while PUTs are under way.

        A hot flush may. If it had to wait during a slow PUT, the batches that arrive would become too large for a hot
        segment and need a PUT themselves, during which the same would happen again.
        """
        return not self._puts_now or self.hot.takes(self._buffer.queued_bytes)

    def _is_worth_a_flush(self) -> bool:
        """Whether the queued batches justify a flush now, which costs a PUT, a commit and two syncs however little it
        contains.

        A few batches wait for more, until the current flush ends or the next hot flush is due.
        """
        if not self._flights or self._buffer.queued_bytes > SMALL_BYTES:
            return True
        is_time = self._beside_at <= asyncio.get_running_loop().time()
        return is_time and self._can_go_beside()

    def _can_go_beside(self) -> bool:
        """Whether a hot flush of the queued batches could send its commit immediately."""
        is_next = self._last is None or self._last.sent.done()
        return is_next and self.hot.takes(self._buffer.queued_bytes)

    def _begin_beside(self) -> None:
        self._beside = None
        self._schedule()

    def _gather(self, burst: Burst) -> None:
        """Begin the flush once no more batches arrive, so that a burst of requests shares it."""
        if burst.goes_on(len(self._buffer)):
            self._start = asyncio.get_running_loop().call_soon(self._gather, burst)
        else:
            self._begin()

    def _begin(self) -> None:
        self._start = None
        self._stop_waiting()
        if not self._buffer or not self._has_room():
            return
        loop = asyncio.get_running_loop()
        batches = self._buffer.take(self._settings.flush_bytes)
        flight = Flight(batches, self._last, loop.create_future(), loop.create_future())
        flight.is_hot = self.hot.takes(sum(len(batch.part) for batch in flight.batches))
        self._last = flight
        self._beside_at = loop.time() + _APART_SECONDS
        self._puts_now += 1
        if self.budget is not None and not flight.is_hot:
            self.budget.take()
        self.metrics.flushes_now += 1
        self._flights[flight] = None
        task = start(self._fly(flight), "flush")
        if task is not None:
            self._flights[flight] = task
        self._schedule()

    async def _fly(self, flight: Flight) -> None:
        """Run one flush: put the segment, wait until the previous flush has sent its commit, commit the segment, settle
        the batches, and end in order.
        """
        failure: Verdict | None = MAYBE_PERSISTED
        metrics, on_flush = self.metrics, self.metrics.on_flush
        began = put = perf_counter() if on_flush is not None else 0.0
        try:
            written = await self._put(flight)
            put = perf_counter() if on_flush is not None else 0.0
            await flight.turn()
            failure = await self._outcome(flight, written)
            # Even if this flush has failed, the next one must wait until all earlier ones are decided.
            await flight.is_first()
        finally:
            if failure is not None:
                self._fail(flight, failure)
            metrics.flushes += 1
            metrics.flushes_now -= 1
            if on_flush is not None:
                seen = FlushSeen(
                    segment=str(flight.segment_id),
                    batches=len(flight.batches),
                    began=began,
                    put=put,
                    ended=perf_counter(),
                    has_failed=failure is not None,
                )
                on_flush(seen)
            del self._flights[flight]
            flight.end()
            if self._last is flight:
                self._last = None
            self._schedule()

    async def _outcome(self, flight: Flight, written: WrittenSegment | Verdict) -> Verdict | None:
        """Commit a segment, and settle its batches. Return a Verdict if all batches failed."""
        if isinstance(written, Verdict):
            return written
        try:
            if flight.previous is None and next(iter(self._flights)) is not flight:
                raise FlushOrderBroken(f"{flight.segment_id} would overtake an earlier flush")
            return await self._commit(flight, written)
        except Exception:
            _report(flight)
            return MAYBE_PERSISTED

    async def _put(self, flight: Flight) -> WrittenSegment | Verdict:
        """Write the segment. Return a Verdict if that failed."""
        try:
            flight.segment_id = self._lease.next_segment_id(is_hot=flight.is_hot)
            write = partial(self._write, flight, flight.segment_id)
            if flight.is_hot:
                written = write()
                flight.hot = self._hot.written(self._key_of(written.segment_id))
                return written
            if self._pace is not None and flight.is_small:
                write = partial(self._pace.timed, write)
                if self._puts_now == 1 and self._pace.allows():
                    written = write()
                    self._store_health.succeeded()
                    return written
            written = await asyncio.get_running_loop().run_in_executor(self._executor, write)
            self._store_health.succeeded()
            return written
        except NoLeaseError as error:
            log.warning("a flush failed: %s", error)
            return NOT_PERSISTED
        except ObjectStoreError as error:
            log.warning("a flush failed: segment %s: %s", flight.segment_id, error)
            self._store_health.failed(str(error), asyncio.get_running_loop().time())
            return STORE_FAILED
        except Exception:
            # Returned like other failures, so that this failure also waits for the previous flushes (S12).
            _report(flight)
            return NOT_PERSISTED
        finally:
            self._puts_now -= 1
            self._schedule()

    def why_store_fails(self) -> str:
        """Return why segments cannot be written now, or "" if they can."""
        return self._store_health.why_not(asyncio.get_running_loop().time())

    def _write(self, flight: Flight, segment_id: SegmentId) -> WrittenSegment:
        """Build the segment with its checksums, and put it. Blocks, so it usually runs in a thread."""
        written = write_segment(
            self._lease.cluster_id,
            segment_id,
            flight.group(),
            journal_position=self._control.journal_position,
        )
        self._store.put(self._key_of(segment_id), written.parts)
        return written

    def _key_of(self, segment_id: SegmentId) -> str:
        return segment_key(self._lease.cluster_id, segment_id)

    async def _commit(self, flight: Flight, written: WrittenSegment) -> Verdict | None:
        """Commit and settle the batches that have not failed yet. Return a Verdict if all have failed."""
        if not flight.has_lease_of_previous():
            # Under another lease, this flush may be accepted although the previous one is refused.
            await flight.is_first()
        placed = placed_batches(flight, written)
        self._moves.mark(batch for batch, _ in placed)
        command, batches = commit_command(written, placed)
        if not batches:
            return None
        if flight.is_hot:
            command.hot = flight.hot
        command.follows = flight.follows()
        if self._on_written is not None:
            # This comes before the commit, since tailing consumers learn of the commit before its reply arrives at this
            # agent.
            self._on_written(
                written.segment_id,
                [(batch.key, position, batch.part) for batch, position in placed],
            )
        flight.send()  # the next flush is woken later, and sends its commit after this one
        self._schedule()
        reply = await self._call(flight, command, batches)
        if isinstance(reply, Verdict):
            return reply
        if reply.error_code != ErrorCode.NONE:
            return await self._commit_again(flight, written, reply.error_code)
        if flight.is_hot:
            self.metrics.hot_flushes += 1
            self.copies.committed(written.segment_id, flight.hot)
        self.metrics.batches += len(placed)
        self.metrics.bytes_written += written.size
        self._settle(flight, batches, reply)
        return None

    def _settle(
        self, flight: Flight, batches: list[list[PendingBatch]], reply: SegmentCommitted
    ) -> None:
        """Settle the batches of a commit, slice by slice, according to the reply."""
        answers = BATCH_VERDICT.iter_unpack(reply.batches)
        slices = SLICE_VERDICT.iter_unpack(reply.slices)
        for sent, (refusal, _, log_start_offset) in zip(batches, slices, strict=True):
            for batch in sent:
                if refusal:
                    batch.settle(Verdict(refusal))
                else:
                    code, base_offset, append_time = next(answers)
                    verdict = Verdict(code, base_offset, append_time, log_start_offset)
                    batch.settle(self._heard(flight, batch, verdict))

    async def _commit_again(
        self, flight: Flight, written: WrittenSegment, error_code: int
    ) -> Verdict | None:
        """Repeat the commit of a segment that the control plane refused without deciding its batches."""
        flight.hold_next()
        if error_code == ErrorCode.HOT_REFUSED:
            self.metrics.hot_refused += 1
            self.hot.refused()
        if flight.is_hot and self.hot.is_cold:
            # The following hot flushes do the same, so their PUTs run concurrently.
            return await self._commit_cold(flight)
        await flight.is_first()
        return await self._commit(flight, written)

    async def _commit_cold(self, flight: Flight) -> Verdict | None:
        """Upload to the bucket a segment that was refused as a hot segment, and commit it when its turn comes."""
        flight.is_hot = False
        if self.budget is not None:
            self.budget.take()
        self._puts_now += 1
        written = await self._put(flight)
        if isinstance(written, Verdict):
            return written
        await flight.turn()
        return await self._commit(flight, written)

    def _heard(self, flight: Flight, batch: PendingBatch, verdict: Verdict) -> Verdict:
        """Record a batch's outcome. Return its verdict, or a different one if the client may send the batch again."""
        code = verdict.error_code
        if code == ErrorCode.NONE:
            self._moves.went_on(batch)
        elif code == ErrorCode.UNKNOWN_PRODUCER_ID or (
            code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            and (flight.is_repeated or batch.flags & FLAG_FOLLOWS)
        ):
            # The missing batch may have arrived through another agent in the meantime.
            self._moves.tell(batch, is_known=code != ErrorCode.UNKNOWN_PRODUCER_ID)
            return NOT_PERSISTED
        return verdict

    async def _call(
        self, flight: Flight, command: CommitSegment, batches: list[list[PendingBatch]]
    ) -> SegmentCommitted | Verdict:
        """Send a commit of these batches until its outcome is known. The segment id makes it idempotent.

        Gives up when the flush's time is up, or when an earlier flush with batches from these producers has failed.
        """
        loop = asyncio.get_running_loop()
        if flight.deadline is None:
            flight.deadline = loop.time() + self._settings.commit_timeout_ms / 1000
        pause = _FIRST_RETRY_SECONDS
        while True:
            sessions = self._control.cluster.sessions
            reply: SegmentCommitted | None = None
            try:
                reply = (
                    await self._control.call(Command(commit_segment=command))
                ).segment_committed
            except ControlPlaneUnavailable as error:
                # An outage can last for minutes, during which each attempt fails the same way.
                level = logging.DEBUG if flight.is_repeated else logging.WARNING
                log.log(
                    level,
                    "segment %s could not be committed, retrying: %s",
                    _name(command),
                    error,
                )
                if loop.time() + pause > flight.deadline:
                    return MAYBE_PERSISTED
                # Only an attempt shows whether the control plane is back.
                await asyncio.sleep(pause)
                if any(batch.verdict is not None for sent in batches for batch in sent):
                    # The commit that this one follows may have been sent again without the failed commits before it.
                    return MAYBE_PERSISTED
                pause = min(2 * pause, _MAX_RETRY_SECONDS)
                flight.is_repeated = True
                self.metrics.commits_repeated += 1
                continue
            except CommandRefused as error:
                log.error(
                    "segment %s: the control plane rejected the commit: %s", _name(command), error
                )
            # In a new session, the client repeats requests that were not answered in the previous one.
            flight.is_repeated |= self._control.cluster.sessions != sessions
            if reply is None:
                return MAYBE_PERSISTED if flight.is_repeated else NOT_PERSISTED
            if reply.error_code in _ANSWERS:
                return reply
            if reply.error_code == ErrorCode.LEASE_EXPIRED:
                self._lease.report_expired(lease_of(command.segment.lease_id))
            log.warning(
                "segment %s: the commit failed with error %d", _name(command), reply.error_code
            )
            # An attempt with a lost reply may have been committed before the lease ended.
            return MAYBE_PERSISTED if flight.is_repeated else NOT_PERSISTED

    def _fail(self, flight: Flight, verdict: Verdict) -> None:
        """Fail the unsettled batches in a flush, and the batches that their producers have sent since then (S12)."""
        self.metrics.flushes_failed += 1
        unsettled = [batch for batch in flight.batches if batch.verdict is None]
        failed: set[ProducerKey] = ordered_producers(unsettled)
        self.gaps.mark(unsettled, asyncio.get_running_loop().time())
        for batch in unsettled:
            batch.settle(verdict)
        for other in self._flights:
            if other is not flight:
                # Its commit may succeed if the commit of this flush did, which is unknown.
                later = MAYBE_PERSISTED if other.sent.done() else NOT_PERSISTED
                for batch in other.batches:
                    if batch.producer_key in failed:
                        batch.settle(later)
        for batch in self._buffer.remove(failed):
            batch.settle(NOT_PERSISTED)


def _report(flight: Flight) -> None:
    log.exception("unexpected error while flushing segment %s; please report it", flight.segment_id)


def _name(command: CommitSegment) -> str:
    return str(SegmentId(command.segment.lease_id, command.segment.sequence))
