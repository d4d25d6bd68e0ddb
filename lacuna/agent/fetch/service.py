"""Serves a Fetch from end to end: interests, plans, spans, buffers, answer (S7, S13-S18, S21)."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from lacuna.agent.fetch import internal
from lacuna.agent.fetch.answers import READ_COMMITTED, by_topic, failed, no_aborted, size_of
from lacuna.agent.fetch.cache import ExtentCache
from lacuna.agent.fetch.chunks import ChunkCache
from lacuna.agent.fetch.gather import PlanSpans, gather
from lacuna.agent.fetch.loading import (
    ExtentCorruptError,
    ExtentError,
    ExtentGoneError,
    Run,
)
from lacuna.agent.fetch.plan import FetchPlan
from lacuna.agent.fetch.planner import Planner
from lacuna.agent.fetch.sessions import NO_SESSION, FetchSessions, Interest, Opened, Permission
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.fetch.shared import SharedReads
from lacuna.agent.fetch.synthesize import emit
from lacuna.agent.fetch.zone import Zone
from lacuna.agent.hot import Holding, nothing_held
from lacuna.agent.internal import is_internal
from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.agent.threads import Threads
from lacuna.agent.trust import Trust
from lacuna.controlplane.client import ControlClient, PartitionView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.logstore.objects.store import ObjectStore
from lacuna.logstore.segments.paths import SegmentId
from lacuna.wire.layout import Buffer
from lacuna.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

log = logging.getLogger("lacuna.agent.fetch")

# The size that an answer may always have, however many answers are waiting for their clients.
SMALLEST_ANSWER_BYTES: Final = 256 << 10


class FetchService:
    """Serves the fetches of one worker. `cluster_id` returns the cluster's id once the agent is registered.

    `zone` holds the agents with which this agent shares reads, if the settings and the store allow sharing.
    """

    def __init__(
        self,
        *,
        control: ControlClient,
        store: ObjectStore,
        trust: Trust,
        cluster_id: Callable[[], str],
        randint: Callable[[int, int], int],
        settings: FetchSettings | None = None,
        zone: Zone | None = None,
        holding: Holding = nothing_held,
    ) -> None:
        self.settings = settings or FetchSettings()
        #: The number of concurrent reads from the store.
        self.reads_at_once = reads = min(self.settings.max_reads, store.reads_at_once)
        self._control = control
        self._trust = trust
        self._executor = Threads(reads, "fetch")
        #: The reads that the agents in the zone share, or None if they share nothing.
        self.shared = None
        if zone is not None and _may_share(self.settings, store, zone):
            self.shared = self._share(zone, store, cluster_id, reads, holding)
        self.cache = ExtentCache(
            store,
            self._executor,
            cluster_id,
            max_bytes=self.settings.cache_bytes,
            max_read_bytes=self.settings.max_read_bytes,
            max_reads=reads,
            shared=self.shared,
            holding=holding,
        )
        self.sessions = FetchSessions(
            self.settings.max_sessions, self.settings.max_session_partitions, randint
        )
        self._planner = Planner(control, trust, self._answer_limit)

    async def fetch(
        self, request: FetchRequest, version: int, permission: Permission | None = None
    ) -> FetchResponse:
        """Return the answer with the records that `permission` lets the client read.

        Raises ControlPlaneUnavailable if a view cannot be obtained.
        """
        opened = await self.sessions.open(request, version, asyncio.get_running_loop().time())
        if opened.error_code:
            return FetchResponse(error_code=opened.error_code)
        opened.watch.read_at(request.isolation_level)
        if permission is not None:
            await opened.watch.permit(permission)
        opened.watch.enter()
        try:
            plans, limit, is_reading_on = await self._planner.plan(request, opened)
            made = await self._read_internal(plans, limit, is_reading_on)
            limit -= sum(map(size_of, made.values()))
            gathered = await self._gather(request, plans, is_reading_on)
            records = await self._emit(request, plans, gathered, limit, made)
            if not is_reading_on:
                # Reading may have taken long, and the bounds must be current.
                await self._trust.restore()
            answers = await self._answers(request, opened, plans, records)
        finally:
            opened.watch.leave()
        session_id = opened.session.session_id if opened.session is not None else NO_SESSION
        return FetchResponse(session_id=session_id, responses=by_topic(answers))

    def keep_written(
        self, segment_id: SegmentId, batches: Iterable[tuple[PartitionKey, int, Buffer]]
    ) -> None:
        """Keep the tailed batches of a segment that is about to be committed, so that they need not be read from the
        store.

        `batches` yields the partition, the position in the segment, and the bytes of each batch.
        """
        tails = self._planner.tails
        parts = {position: part for key, position, part in batches if key in tails}
        if parts:
            self.cache.offer(segment_id.lease_id, segment_id.sequence, parts)

    async def confirm(self, views: Iterable[PartitionView]) -> None:
        """Make a confirming read (S7), after which the views include all that the control plane knew before it."""
        await self._planner.confirm(views)

    def end_waits(self) -> None:
        """Answer all fetches from now on without waiting for records, because the agent is stopping."""
        self._planner.end_waits()

    async def close(self) -> None:
        self.sessions.close()
        await self.cache.close()
        if self.shared is not None:
            await self.shared.close()
        self._executor.shutdown(wait=False)

    def _share(
        self,
        zone: Zone,
        store: ObjectStore,
        cluster_id: Callable[[], str],
        reads: int,
        holding: Holding,
    ) -> SharedReads:
        """Create the reads that the zone shares. Their chunks take up to half of the cache's bytes."""
        most = self.settings.cache_bytes // 2
        chunks = ChunkCache(
            store,
            self._executor,
            chunk_bytes=self.settings.chunk_bytes,
            max_bytes=most,
            max_reads=max(reads // 2, 1),
            on_size=lambda size: self.cache.reserve(size),
            holding=holding,
        )
        return SharedReads(
            zone,
            chunks,
            cluster_id,
            max_answer_bytes=most,
        )

    def _answer_limit(self, request: FetchRequest) -> int:
        """Return the maximum size of the answer in bytes. It shrinks as more answers wait for their clients."""
        outside = self.cache.outside_bytes
        if self.shared is not None:
            outside += self.shared.outside_bytes
        free = self.settings.answer_bytes - outside
        share = max(free // 4, SMALLEST_ANSWER_BYTES)
        return min(request.max_bytes, self.settings.max_response_bytes, share)

    async def _read_internal(
        self, plans: dict[Interest, FetchPlan], max_bytes: int, is_reading_on: bool
    ) -> dict[Interest, PartitionData]:
        planned = {
            interest: plan
            for interest, plan in plans.items()
            if plan.promise and is_internal(plan.partition[0])
        }
        if is_reading_on:
            return internal.refuse_all(planned)
        return await internal.read_all(self._control, planned, max_bytes) if planned else {}

    async def _gather(
        self, request: FetchRequest, plans: dict[Interest, FetchPlan], is_reading_on: bool
    ) -> dict[Interest, PlanSpans]:
        """Return the gathered spans of each plan that promises records.

        If an object that a plan reads has been collected, the plan is made again, provided that there is a control
        plane to call.
        """
        planned = {
            interest: plan
            for interest, plan in plans.items()
            if plan.promise and not is_internal(plan.partition[0])
        }
        gathered = dict(zip(planned, await gather(self.cache, [*planned.values()]), strict=True))
        gone = [
            interest
            for interest, found in gathered.items()
            if isinstance(found.error, ExtentGoneError) and not found.spans
        ]
        if gone and not is_reading_on:
            await self._planner.confirm(one.view for one in gone if one.view is not None)
            is_committed = request.isolation_level == READ_COMMITTED
            for interest in gone:
                again = self._planner.plan_one(interest, is_committed, request.max_bytes)
                if again.promise:
                    plans[interest] = planned[interest] = again
            replanned = await gather(self.cache, [planned[interest] for interest in gone])
            gathered.update(zip(gone, replanned, strict=True))
        due = [found for found in gathered.values() if found.is_ahead_due]
        if due and not self._read_ahead(planned.values()):
            for found in due:
                found.ask_again()
        return gathered

    def _read_ahead(self, plans: Iterable[FetchPlan]) -> bool:
        """Start reading the records that the next fetches will need, across all partitions.

        Returns whether there is nothing left to read ahead until other records are used.
        """
        going_on = [*islice((plan for plan in plans if plan.has_more), MOST_OF_PIECE)]
        limit = self.cache.ahead_bytes(self.settings.read_ahead_bytes) // max(len(going_on), 1)
        runs = (Run(plan.partition, plan.pieces_after(limit)) for plan in going_on)
        return not limit or self.cache.read_ahead(runs, limit)

    async def _emit(
        self,
        request: FetchRequest,
        plans: dict[Interest, FetchPlan],
        gathered: dict[Interest, PlanSpans],
        left: int,
        made: dict[Interest, PartitionData],
    ) -> dict[Interest, PartitionData]:
        """Return the records or the error for each interest with a plan, up to a total of `left` bytes, with bounds not
        yet set.

        `made` holds the existing answers for internal topics.
        """
        level = request.isolation_level
        at_least_one = not any(answer.records for answer in made.values())
        served = dict(made)
        for number, (interest, found) in enumerate(gathered.items(), 1):
            limit = min(interest.partition_max_bytes, left)
            answer = _records(interest, found, limit, at_least_one, level)
            if at_least_one and found.is_coalesced and size_of(answer) > limit:
                # Only a batch that was produced this large may exceed the limit (KIP-74).
                (whole,) = await gather(self.cache, [plans[interest]], may_coalesce=False)
                answer = _records(interest, whole, limit, at_least_one, level)
            served[interest] = answer
            left = max(left - size_of(answer), 0)
            at_least_one = at_least_one and not answer.records
            if not number % MOST_OF_PIECE:
                await asyncio.sleep(0)
        return served

    async def _answers(
        self,
        request: FetchRequest,
        opened: Opened,
        plans: dict[Interest, FetchPlan],
        served: dict[Interest, PartitionData],
    ) -> list[tuple[Interest, PartitionData]]:
        """Return the answers in the order of the interests, or only those that have changed if a session continues."""
        level = request.isolation_level
        answers = []
        # Partitions that were not planned have not changed since the last answer to the client.
        interests = plans if opened.is_incremental else opened.watch.interests.values()
        for number, interest in enumerate(tuple(interests), 1):
            plan = plans.get(interest)
            error_code = plan.error_code if plan is not None else ErrorCode.NONE
            answer = self._answer(interest, error_code, served.get(interest), level)
            if interest.is_news(answer) or not opened.is_incremental:
                answers.append((interest, answer))
            if answer.records and opened.session is not None:
                opened.watch.rotate(interest)
            if not number % MOST_OF_PIECE:
                await asyncio.sleep(0)
        return answers

    def _answer(
        self,
        interest: Interest,
        error_code: int,
        served: PartitionData | None,
        isolation_level: int,
    ) -> PartitionData:
        if served is not None and served.error_code:
            return served
        view = interest.view
        if (view is None or view.is_deleted) and not error_code:
            error_code = self._planner.unknown(interest)
        if view is None or error_code:
            return failed(interest.partition, error_code, isolation_level)
        return PartitionData(
            interest.partition,
            0,
            view.high_watermark,
            view.last_stable_offset,
            view.log_start_offset,
            aborted_transactions=no_aborted(isolation_level),
            records=served.records if served is not None else (),
        )


def _may_share(settings: FetchSettings, store: ObjectStore, zone: Zone) -> bool:
    """Whether agents in a zone share reads. By default, they do if a request to the store costs more than a network
    hop.

    Traffic between agents without a zone name may cross zone boundaries, which costs far more than requests.
    """
    if settings.zone_reads == "auto":
        return store.read_gap > 0 and zone.name != ""
    return settings.zone_reads == "on"


def _records(
    interest: Interest, found: PlanSpans, limit: int, at_least_one: bool, isolation_level: int
) -> PartitionData:
    if found.error is not None and not found.spans:
        return failed(interest.partition, _error_code(found.error), isolation_level)
    offset = interest.fetch_offset
    buffers = emit(found.spans, offset, found.resume_offset, limit, at_least_one)
    return PartitionData(interest.partition, records=buffers)


def _error_code(error: ExtentError) -> int:
    if isinstance(error, ExtentCorruptError):
        return ErrorCode.CORRUPT_MESSAGE
    log.warning("a fetch failed: %s", error)
    return ErrorCode.KAFKA_STORAGE_ERROR
