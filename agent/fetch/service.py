"""A Fetch from end to end: look at the views, wait, read, emit (S7, S13-S18, S21).

`FetchService` is what the API files hold on to. It never polls: a fetch that has nothing listens to
the views of its partitions, and looks again at those that moved.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agent.fetch.cache import ExtentCache
from agent.fetch.codec import (
    KAFKA_STORAGE_ERROR,
    NO_SESSION,
    READ_COMMITTED,
    FetchRequest,
    FetchResponse,
    PartitionAnswer,
    TopicAnswer,
)
from agent.fetch.gather import Gathered, Gatherer
from agent.fetch.loading import ExtentCorruptError, ExtentError, ExtentGoneError
from agent.fetch.plan import Plan, plan_fetch
from agent.fetch.sessions import Interest, Opened, Sessions, Watch
from agent.fetch.settings import FetchSettings
from agent.fetch.synthesize import emit
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import ReadPartitions

if TYPE_CHECKING:
    from agent.fetch.fresh import Part
    from controlplane.client import ControlClient, PartitionView
    from logstore.objects.store import ObjectStore
    from logstore.segments.paths import SegmentId

log = logging.getLogger("lacuna.agent.fetch")

# What a partition may fill of an answer whatever others have.
SMALLEST_SHARE_BYTES: Final = 2 << 20
# What an answer may hold however many others wait for their clients.
SMALLEST_ANSWER_BYTES: Final = 256 << 10
# Partitions that a fetch waited for, and how long flushes go on to keep their records for it.
_MAX_TAILED: Final = 10_000
_TAILED_SECONDS: Final = 10.0


@dataclass(slots=True)
class Look:
    """What a look at one interest's view gave: an error, or a plan."""

    interest: Interest
    error_code: int = 0
    plan: Plan | None = None
    end_offset: int = 0
    is_suspect: bool = False

    @property
    def size(self) -> int:
        """Bytes that there are to send, estimated; a filler counts as something."""
        if self.plan is None:
            return 0
        return max(self.plan.size, 1) if self.plan.asked_offset < self.plan.end_offset else 0

    @property
    def is_idle(self) -> bool:
        """Neither records nor an error."""
        return not self.error_code and not self.size


class FetchService:
    """The fetching of one worker. `cluster_id` gives it once the agent is registered."""

    def __init__(
        self,
        *,
        control: "ControlClient",
        store: "ObjectStore",
        cluster_id: Callable[[], str],
        randint: Callable[[int, int], int],
        settings: FetchSettings | None = None,
    ) -> None:
        self.settings = settings or FetchSettings()
        self.control = control
        reads = min(self.settings.max_reads, store.reads_at_once)
        self._executor = ThreadPoolExecutor(reads, "fetch")
        self.cache = ExtentCache(
            store,
            self._executor,
            cluster_id,
            max_bytes=self.settings.cache_bytes,
            max_read_bytes=self.settings.max_read_bytes,
            max_reads=reads,
        )
        self.sessions = Sessions(
            self.settings.max_sessions, self.settings.max_session_partitions, randint
        )
        self._gatherer = Gatherer(self.cache)
        self._tailed: OrderedDict[tuple[bytes, int], float] = OrderedDict()
        self._waiting: set[Watch] = set()
        self._is_ending = False

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """The answer. Raises ControlPlaneUnavailable where a view cannot be had."""
        is_committed = request.isolation_level == READ_COMMITTED
        opened = self.sessions.open(request)
        if opened.error_code:
            return FetchResponse(opened.error_code, NO_SESSION, [], is_committed)
        try:
            looks, limit = await self._wait_for_enough(request, opened)
            answers = await self._read(request, opened, looks, limit)
        finally:
            if opened.session is None:
                opened.watch.close()
        session_id = opened.session.session_id if opened.session is not None else NO_SESSION
        return FetchResponse(0, session_id, _by_topic(answers), is_committed)

    def keep_written(
        self, segment_id: "SegmentId", batches: "Iterable[tuple[tuple[bytes, int], int, Part]]"
    ) -> None:
        """Batches of a segment that is about to be committed: (topic id, partition), position, bytes.

        Those that somebody tails are kept, so that nobody reads them from the store.
        """
        parts = {position: part for key, position, part in batches if self.is_tailed(*key)}
        if parts:
            self.cache.offer(segment_id.lease_id, segment_id.sequence, parts)

    def is_tailed(self, topic_id: bytes, partition: int) -> bool:
        """Whether a consumer waited at the end of this partition a moment ago."""
        waited = self._tailed.get((topic_id, partition))
        return waited is not None and asyncio.get_running_loop().time() < waited + _TAILED_SECONDS

    def end_waits(self) -> None:
        """From now on nobody waits for records: an agent that ends answers with what there is."""
        self._is_ending = True
        for watch in self._waiting:
            watch.wake()

    async def close(self) -> None:
        """End the sessions and the reads."""
        self.sessions.close()
        await self.cache.close()
        self._executor.shutdown(wait=False)

    async def confirm(self, views: "Iterable[PartitionView]") -> None:
        """A confirming read (S7): afterwards the views have what the control plane has now."""
        partitions = [
            TopicPartition(topic_id=view.topic_id, partition=view.partition) for view in views
        ]
        await self.control.call(Command(read_partitions=ReadPartitions(partitions=partitions)))

    async def _wait_for_enough(
        self, request: FetchRequest, opened: Opened
    ) -> tuple[dict[Interest, Look], int]:
        """Looks at all that may have something, once there is enough or no time left (S13).

        And how many bytes the answer may hold.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.max_wait_ms / 1000
        watch = opened.watch
        looks: dict[Interest, Look] = {}
        while True:
            limit = self._answer_limit(request)
            looks.update(await self._survey(request, watch, limit))
            if opened.session is not None:
                for interest in looks:
                    watch.listen_to(interest)
            total = sum(look.size for look in looks.values())
            is_failed = any(look.error_code for look in looks.values())
            is_over = self._is_ending or loop.time() >= deadline
            # As in Kafka nobody waits for more than the answer may hold.
            if is_failed or total >= min(request.min_bytes, limit) or is_over:
                return looks, limit
            if opened.session is None:
                watch.listen()
            self._remember_tails(watch, looks)
            self._waiting.add(watch)
            try:
                await watch.wait(deadline)
            finally:
                if not watch.is_waited_for:
                    self._waiting.discard(watch)

    async def _survey(
        self, request: FetchRequest, watch: Watch, max_bytes: int
    ) -> dict[Interest, Look]:
        """Look at the dirty interests; what has nothing is not dirty any more."""
        is_committed = request.isolation_level == READ_COMMITTED
        confirmed: set[Interest] = set()
        while True:
            await self._make_ready(watch)
            left = max_bytes
            looks: dict[Interest, Look] = {}
            waiting = len(watch.dirty)
            for interest in watch.look():
                # Shared out, so that what stands together in the bucket is read together.
                share = max(left // max(waiting, 1), SMALLEST_SHARE_BYTES)
                waiting -= 1
                look = self._look(interest, is_committed, min(left, share))
                looks[interest] = look
                left -= look.size
                if look.is_idle:
                    del watch.dirty[interest]
                if left <= 0:
                    break
            suspects = [
                look.interest
                for look in looks.values()
                if look.is_suspect and look.interest not in confirmed
            ]
            if not suspects:
                return looks
            await self.confirm(one.view for one in suspects if one.view is not None)
            confirmed.update(suspects)

    def _answer_limit(self, request: FetchRequest) -> int:
        """What an answer may hold: less, where many wait for their clients to take them."""
        free = self.settings.answer_bytes - self.cache.outside_bytes
        share = max(free // 4, SMALLEST_ANSWER_BYTES)
        return min(request.max_bytes, self.settings.max_response_bytes, share)

    async def _make_ready(self, watch: Watch) -> None:
        """Find the views of dirty interests and wait until they have missed nothing (S3)."""
        cluster = self.control.cluster
        while not cluster.is_current:
            await cluster.ready()
        for interest in watch.dirty:
            topic = cluster.topics_by_name.get(interest.name)
            if not interest.name:
                topic = cluster.topics_by_id.get(interest.topic_id)
            if topic is None or not 0 <= interest.partition < topic.partition_count:
                interest.view = None
                continue
            interest.view = self.control.partition(topic.topic_id, interest.partition)
        views = [interest.view for interest in watch.dirty if interest.view is not None]
        while stale := [view for view in views if not view.is_current]:
            await asyncio.gather(*(view.ready() for view in stale))

    def _look(self, interest: Interest, is_committed: bool, max_bytes: int) -> Look:
        view = interest.view
        if view is None or view.is_deleted:
            return Look(interest, self._unknown(interest))
        if interest.current_leader_epoch > 0:
            return Look(interest, ErrorCode.UNKNOWN_LEADER_EPOCH)
        offset = interest.fetch_offset
        if not view.log_start_offset <= offset <= view.high_watermark:
            return Look(interest, ErrorCode.OFFSET_OUT_OF_RANGE, is_suspect=True)
        end_offset = view.last_stable_offset if is_committed else view.high_watermark
        plan = None
        if offset < end_offset:
            dead = view.dead if is_committed else None
            limit = min(interest.partition_max_bytes, max_bytes)
            plan = plan_fetch(view.extents, dead, offset, end_offset, limit)
        return Look(interest, plan=plan, end_offset=end_offset)

    def _unknown(self, interest: Interest) -> int:
        if interest.name or interest.topic_id in self.control.cluster.topics_by_id:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.UNKNOWN_TOPIC_ID

    def _remember_tails(self, watch: Watch, looks: Iterable[Interest]) -> None:
        """A session may have thousands of partitions: all of them only now and then."""
        now = asyncio.get_running_loop().time()
        if now >= watch.remembered_until:
            watch.remembered_until = now + _TAILED_SECONDS / 2
            looks = watch.interests.values()
        for interest in looks:
            if interest.view is not None:
                key = (interest.view.topic_id, interest.partition)
                self._tailed[key] = now
                self._tailed.move_to_end(key)
        while len(self._tailed) > _MAX_TAILED:
            self._tailed.popitem(last=False)

    async def _read(
        self, request: FetchRequest, opened: Opened, looks: dict[Interest, Look], left: int
    ) -> list[tuple[Interest, PartitionAnswer]]:
        """Read what the looks planned, at most `left` bytes; answers in the order of the interests."""
        planned = [look for look in looks.values() if look.plan is not None]
        gathered = await self._gather(request, planned)
        at_least_one = True
        served: dict[Interest, PartitionAnswer] = {}
        for look, found in zip(planned, gathered, strict=True):
            limit = min(look.interest.partition_max_bytes, left)
            answer = self._emit(look, found, limit, at_least_one)
            if at_least_one and found.is_coalesced and answer.size > limit and look.plan:
                # Only a batch that came as large may pass the limit (KIP-74).
                (whole,) = await self._gatherer.gather([look.plan], may_coalesce=False)
                answer = self._emit(look, whole, limit, at_least_one)
            served[look.interest] = answer
            left = max(left - answer.size, 0)
            at_least_one = at_least_one and not answer.size
        answers = []
        # What was not looked at has not moved since the client was told of it.
        interests = looks if opened.is_incremental else opened.watch.interests.values()
        for interest in tuple(interests):
            answer = served.get(interest) or self._empty(interest, looks.get(interest))
            if _is_news(interest, answer) or not opened.is_incremental:
                answers.append((interest, answer))
            if answer.size and opened.session is not None:
                opened.watch.rotate(interest)
        return answers

    async def _gather(self, request: FetchRequest, looks: list[Look]) -> list[Gathered]:
        """Entries of all plans; a plan that met a collected object is made again, once."""
        gathered = await self._gatherer.gather([look.plan for look in looks if look.plan])
        gone = [
            index
            for index, found in enumerate(gathered)
            if isinstance(found.error, ExtentGoneError) and not found.spans
        ]
        if gone:
            views = [looks[index].interest.view for index in gone]
            await self.confirm(view for view in views if view is not None)
            is_committed = request.isolation_level == READ_COMMITTED
            for index in gone:
                again = self._look(looks[index].interest, is_committed, request.max_bytes)
                looks[index].plan = again.plan or looks[index].plan
            replanned = await self._gatherer.gather(
                [plan for index in gone if (plan := looks[index].plan)]
            )
            for index, found in zip(gone, replanned, strict=True):
                gathered[index] = found
        if any(found.is_ahead_due for found in gathered):
            self._read_ahead(looks, request.isolation_level == READ_COMMITTED)
        return gathered

    def _read_ahead(self, looks: list[Look], is_committed: bool) -> None:
        """Begin to read what the next fetch wants: as much again, of all partitions together."""
        dues = []
        for look in looks:
            view, plan = look.interest.view, look.plan
            if view is not None and plan is not None and plan.resume_offset < plan.end_offset:
                dues.append((view, plan))
        limit = self.settings.read_ahead_bytes // max(len(dues), 1)
        if not limit:
            return
        runs = []
        for view, plan in dues:
            dead = view.dead if is_committed else None
            ahead = plan_fetch(view.extents, dead, plan.resume_offset, plan.end_offset, limit)
            runs.append(ahead.pieces)
        self.cache.read_ahead(runs)

    def _emit(self, look: Look, found: Gathered, limit: int, at_least_one: bool) -> PartitionAnswer:
        if found.error is not None and not found.spans:
            return PartitionAnswer(look.interest.partition, _error_code(found.error))
        emission = emit(
            found.spans, look.interest.fetch_offset, found.resume_offset, limit, at_least_one
        )
        answer = self._empty(look.interest, look)
        return answer._replace(records=emission.buffers, size=emission.size)

    def _empty(self, interest: Interest, look: Look | None) -> PartitionAnswer:
        """An answer without records: the bounds, or an error."""
        if look is not None and look.error_code:
            return PartitionAnswer(interest.partition, look.error_code)
        view = interest.view
        if view is None:
            return PartitionAnswer(interest.partition, self._unknown(interest))
        return PartitionAnswer(
            interest.partition,
            0,
            view.high_watermark,
            view.last_stable_offset,
            view.log_start_offset,
        )


def _error_code(error: ExtentError) -> int:
    """Corrupt bytes are told as such; everything else may be well at the next attempt."""
    if isinstance(error, ExtentCorruptError):
        return ErrorCode.CORRUPT_MESSAGE
    log.warning("a fetch failed: %s", error)
    return KAFKA_STORAGE_ERROR


def _is_news(interest: Interest, answer: PartitionAnswer) -> bool:
    """Whether a client that has a session must hear this; remembers that it did."""
    if answer.error_code:
        interest.sent = None
        return True
    bounds = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
    is_news = bounds != interest.sent or bool(answer.size)
    interest.sent = bounds
    return is_news


def _by_topic(answers: list[tuple[Interest, PartitionAnswer]]) -> list[TopicAnswer]:
    topics: dict[tuple[str, bytes], TopicAnswer] = {}
    for interest, answer in answers:
        key = (interest.name, interest.topic_id)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = TopicAnswer(*key, [])
        topic.partitions.append(answer)
    return list(topics.values())
