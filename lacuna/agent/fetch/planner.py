"""Turns interests into plans by examining the views and waiting until there are enough bytes to send (S7, S13).

The planner never polls. A fetch that finds no records listens to the views of its partitions, and plans partitions
again when they change. A large fetch is planned in steps, between which other requests are served.

While no control plane can be reached, plans use the records known before the outage (adr/0034). Such plans never report
that something does not exist. For an offset out of range, an unknown partition or the end of the records, they return
errors that clients retry.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from lacuna.agent.fetch.answers import READ_COMMITTED
from lacuna.agent.fetch.plan import NOTHING, FetchPlan, plan_fetch, refuse
from lacuna.agent.fetch.sessions import Interest, Opened, Watch
from lacuna.agent.internal import topic_by_id, topic_by_name
from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.agent.trust import READ_ON_SECONDS, Trust
from lacuna.controlplane.client import ControlClient, PartitionView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import ReadPartitions
from lacuna.wire.messages.fetch import FetchRequest

# The share of an answer that one partition may take up, even if other partitions also have records.
SMALLEST_SHARE_BYTES: Final = 2 << 20
#: The number of views that a large fetch may subscribe to in one step. Subscribing takes ten times as long as
#: using an existing view.
_MOST_SUBSCRIBED: Final = 100
# The number of partitions that are remembered, and how long they are remembered after a fetch waited at their end.
_MAX_TAILED: Final = 10_000
_TAILED_SECONDS: Final = 10.0


class Tails:
    """The partitions at whose end a consumer has waited within the last ten seconds."""

    def __init__(self) -> None:
        self._waited: OrderedDict[PartitionKey, float] = OrderedDict()

    def __contains__(self, key: PartitionKey) -> bool:
        waited = self._waited.get(key)
        return waited is not None and asyncio.get_running_loop().time() < waited + _TAILED_SECONDS

    def remember(self, watch: Watch, interests: Iterable[Interest]) -> None:
        """Remember the partitions of `interests` as tailed and, occasionally, all partitions of the session.

        Remembering all of them each time would be slow, since a session may have thousands of partitions.
        """
        now = asyncio.get_running_loop().time()
        if now >= watch.remembered_until:
            watch.remembered_until = now + _TAILED_SECONDS / 2
            interests = watch.interests.values()
        for interest in interests:
            if interest.view is not None:
                key = (interest.view.topic_id, interest.partition)
                self._waited[key] = now
                self._waited.move_to_end(key)
        while len(self._waited) > _MAX_TAILED:
            self._waited.popitem(last=False)


class Plans(NamedTuple):
    """The plans for the interests that may have records, and the maximum size of the answer in bytes.

    `is_reading_on` means that the plans were made without a control plane.
    """

    plans: dict[Interest, FetchPlan]
    limit: int
    is_reading_on: bool


class Planner:
    """Plans the fetches of one worker. `limit_of` returns the current limit on the bytes in the answer to a request."""

    def __init__(
        self, control: ControlClient, trust: Trust, limit_of: Callable[[FetchRequest], int]
    ) -> None:
        self.tails = Tails()
        self._control = control
        self._trust = trust
        self._limit_of = limit_of
        self._waiting: dict[Watch, None] = {}  # an ordered set
        self._is_ending = False

    async def plan(self, request: FetchRequest, opened: Opened) -> Plans:
        """Wait until there are enough bytes to send or the time is up (S13), and return the plans."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + request.max_wait_ms / 1000
        watch = opened.watch
        plans: dict[Interest, FetchPlan] = {}
        barred: set[Interest] | None = None
        while True:
            limit = self._limit_of(request)
            is_reading_on, surveyed = await self._survey(request, watch, limit)
            if barred is None:
                barred = _barred(surveyed)
            plans.update(surveyed)
            total = sum(plan.promise for plan in plans.values())
            is_failed = len(barred) == len(watch.interests) or any(
                plan.error_code for interest, plan in plans.items() if interest not in barred
            )
            # As in Kafka, a fetch never waits for more bytes than its answer may hold.
            enough = min(request.min_bytes, limit)
            is_over = self._is_ending or loop.time() >= deadline or enough <= 0
            has_enough = is_failed or total >= max(enough, 1) or (is_over and total > 0)
            # A fetch that has waited has received all changes that were answered before it began. A fetch that has not
            # waited must make a confirming read.
            has_waited = request.max_wait_ms > 0 and enough > 0
            is_certain = has_waited or self._is_ending or self._trust.holds(began)
            if has_enough or (is_over and (is_reading_on or is_certain)):
                if is_reading_on:
                    are_all_told = not (opened.is_incremental and total)
                    _tell_no_end(
                        plans, watch, watch.interests.values() if are_all_told else [*plans]
                    )
                return Plans(plans, limit, is_reading_on)
            if is_over:
                await self._trust.restore(began)
                continue
            self.tails.remember(watch, plans)
            self._waiting[watch] = None
            try:
                await watch.wait(deadline)
            finally:
                if not watch.is_waited_for:
                    self._waiting.pop(watch, None)

    def plan_one(self, interest: Interest, is_committed: bool, max_bytes: int) -> FetchPlan:
        """Plan one interest from its current view, without waiting."""
        view = interest.view
        if interest.refusal:
            return refuse(interest.refusal)
        if view is None or view.is_deleted:
            return refuse(self.unknown(interest))
        if interest.current_leader_epoch > 0:
            return refuse(ErrorCode.UNKNOWN_LEADER_EPOCH)
        offset = interest.fetch_offset
        if not view.log_start_offset <= offset <= view.high_watermark:
            return refuse(ErrorCode.OFFSET_OUT_OF_RANGE)
        end_offset = view.last_stable_offset if is_committed else view.high_watermark
        if offset >= end_offset:
            return NOTHING
        dead = view.dead if is_committed else None
        limit = min(interest.partition_max_bytes, max_bytes)
        partition = (view.topic_id, interest.partition)
        return plan_fetch(view.extents, dead, offset, end_offset, limit, partition)

    def unknown(self, interest: Interest) -> int:
        if interest.name or topic_by_id(self._control.cluster, interest.topic_id) is not None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.UNKNOWN_TOPIC_ID

    async def confirm(self, views: Iterable[PartitionView]) -> None:
        """Make a confirming read (S7), after which the views include all that the control plane knew before it."""
        partitions = [
            TopicPartition(topic_id=view.topic_id, partition=view.partition) for view in views
        ]
        began = asyncio.get_running_loop().time()
        await self._control.call(Command(read_partitions=ReadPartitions(partitions=partitions)))
        self._trust.renew(began)

    def end_waits(self) -> None:
        self._is_ending = True
        for watch in self._waiting:
            watch.wake()

    async def _survey(
        self, request: FetchRequest, watch: Watch, max_bytes: int
    ) -> tuple[bool, dict[Interest, FetchPlan]]:
        """Plan the dirty interests, and mark those without records as no longer dirty.

        Return whether the plans were made without a control plane, and the plans.
        """
        is_committed = request.isolation_level == READ_COMMITTED
        confirmed: set[Interest] = set()
        plans: dict[Interest, FetchPlan] = {}
        while True:
            is_reading_on, dirty = await self._make_ready(watch)
            left = max_bytes
            for number, interest in enumerate(dirty):
                if number and not number % MOST_OF_PIECE:
                    await asyncio.sleep(0)
                # Each gets a share, so that neighbours in the bucket are read together.
                share = max(left // (len(dirty) - number), SMALLEST_SHARE_BYTES)
                plan = plans[interest] = self.plan_one(interest, is_committed, min(left, share))
                left -= plan.promise
                if plan is NOTHING:
                    watch.dirty.pop(interest, None)
                if left <= 0:
                    break
            if is_reading_on:
                return True, {
                    interest: _certain(interest, plan) for interest, plan in plans.items()
                }
            # The views of these interests may be out of date, so a confirming read (S7) must come first.
            suspects = [
                interest
                for interest, plan in plans.items()
                if plan.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and interest not in confirmed
            ]
            if not suspects:
                return False, plans
            await self.confirm(one.view for one in suspects if one.view is not None)
            confirmed.update(suspects)

    async def _make_ready(self, watch: Watch) -> tuple[bool, list[Interest]]:
        """Wait until the views of the dirty interests are current (S3) and trusted (S7).

        Return whether there is no control plane to call, and the interests that are ready.

        While there is no leader, views that were current when the session ended are used as long as they are trusted,
        so that consumers of existing records do not notice a takeover. After that, the views show only the records
        known before the outage.
        """
        cluster = self._control.cluster
        while True:
            if not cluster.is_current and self._trust.holds():
                dirty, views = await self._find_views(watch)
                if len(views) == len(dirty) and all(view.is_as_left for view in views):
                    return False, dirty
            elif self._trust.is_alone(READ_ON_SECONDS):
                dirty, _ = await self._find_views(watch)
                return True, dirty
            while not cluster.is_current:
                await cluster.ready()
            dirty, views = await self._find_views(watch)
            stale = [view for view in views if not view.is_current]
            if not stale and self._trust.holds():
                return False, dirty
            await asyncio.gather(self._trust.restore(), _all_ready(stale))

    async def _find_views(self, watch: Watch) -> tuple[list[Interest], list[PartitionView]]:
        """Look up and return the dirty interests and their views, since topics may have been created or deleted.

        The watch starts listening to each view immediately, so that no view is dropped while others in a large fetch
        are still missing.
        """
        cluster = self._control.cluster
        dirty = watch.look()
        for number, interest in enumerate(dirty, 1):
            topic = topic_by_name(cluster, interest.name)
            if not interest.name:
                topic = topic_by_id(cluster, interest.topic_id)
            if topic is None or not 0 <= interest.partition < topic.partition_count:
                interest.view = None
            else:
                interest.view = self._control.partition(topic.topic_id, interest.partition)
            watch.listen_to(interest)
            if not number % _MOST_SUBSCRIBED:
                await asyncio.sleep(0)
        return dirty, [interest.view for interest in dirty if interest.view is not None]


async def _all_ready(views: list[PartitionView]) -> None:
    for view in views:
        if not view.is_current:
            await view.ready()


def _barred(plans: dict[Interest, FetchPlan]) -> set[Interest]:
    """Return the interests that cannot wait, because they do not exist or the client may not read them.

    As in Kafka, their errors do not end the wait for the others.
    """
    return {interest for interest in plans if interest.refusal or interest.view is None}


def _certain(interest: Interest, plan: FetchPlan) -> FetchPlan:
    """Return the plan if it is valid regardless of any changes since the outage began, or else a retriable error."""
    view = interest.view
    if view is None or not view.has_been_current or plan.error_code:
        return refuse(ErrorCode.KAFKA_STORAGE_ERROR)
    return plan


def _tell_no_end(
    plans: dict[Interest, FetchPlan], watch: Watch, interests: Iterable[Interest]
) -> None:
    """Return errors for the interests without records, since an empty answer would mean that there are none."""
    for interest in interests:
        if interest not in watch.dirty:
            plans[interest] = refuse(ErrorCode.KAFKA_STORAGE_ERROR)
