"""Versioned copies of the control plane's state: one view of the cluster, and one of each partition in use (S3).

A view changes only through deltas, each applied in order and in one step, so a reader sees a single version between two
awaits.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol

from lacuna.controlplane.shared.extents import COLUMNS, EXTENT_ROW, DeadRanges, ExtentTable
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.v1.cluster_pb2 import Agent, ClusterDelta, Topic
from lacuna.controlplane.v1.log_pb2 import Extents, ExtentSwap, PartitionDelta

Listener = Callable[[], None]


class _Listeners:
    """Callbacks, all of which run even if some fail. The event loop's handler receives their errors."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        #: How often each callback has been added, though it is called only once. A dict, so that removing one of a
        #: thousand is fast.
        self._callbacks: dict[Listener, int] = {}

    def add(self, callback: Listener) -> None:
        self._callbacks[callback] = self._callbacks.get(callback, 0) + 1

    def remove(self, callback: Listener) -> None:
        count = self._callbacks.get(callback)
        if count is None:
            raise ValueError("this callback is not registered")
        if count > 1:
            self._callbacks[callback] = count - 1
        else:
            del self._callbacks[callback]

    def notify(self) -> None:
        for callback in tuple(self._callbacks):
            try:
                callback()
            except Exception as error:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a view's listener failed", "exception": error}
                )


class _Ready:
    """Callers that are waiting for a view to become current."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def wait(self) -> "asyncio.Future[None]":
        self._waiting = [future for future in self._waiting if not future.done()]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def settle(self, error: Exception | None = None) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)


class Feed(Protocol):
    """Keeps views current."""

    def want(self, view: "PartitionView") -> None:
        """Subscribe to the view if necessary. Raises ControlPlaneUnavailable if the control plane is unreachable."""
        ...

    def want_cluster(self) -> None:
        """Raise ControlPlaneUnavailable if the control plane is unreachable and no snapshot can arrive."""
        ...

    def note_use(self, view: "PartitionView") -> None:
        """Record that the view is now in use, or that it is no longer in use and may be unsubscribed."""
        ...


class PartitionView:
    """A copy of one partition's extents and bounds. Read it after `ready()`, without awaiting in between.

    Deltas change `extents` and `dead` in place; snapshots replace them.
    """

    __slots__ = (
        "__weakref__",
        "_feed",
        "_is_filling",
        "_listeners",
        "_older_below",
        "_ready",
        "_users",
        "dead",
        "extents",
        "high_watermark",
        "is_as_left",
        "is_current",
        "is_deleted",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "topic_id",
        "vacated_to",
        "version",
    )

    def __init__(self, topic_id: bytes, partition: int, feed: Feed) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.version = -1
        self.log_start_offset = 0
        self.high_watermark = 0
        self.last_stable_offset = 0
        self.vacated_to = 0
        self.extents = ExtentTable()
        self.dead = DeadRanges()
        self.is_deleted = False
        #: While parts of a snapshot are missing: the offset below which the extents in them begin.
        self._older_below = 0
        self._is_filling = False
        #: False until the first snapshot is complete, and whenever a version may have been missed.
        self.is_current = False
        #: Whether the view was current when the last session ended, and so shows the partition as of then.
        self.is_as_left = False
        self._feed = feed
        self._listeners = _Listeners()
        self._ready = _Ready()
        self._users = 0

    async def ready(self) -> None:
        """Wait until the view is current. Raises ControlPlaneUnavailable, or CommandRefused if ACLs deny access."""
        if self.is_current:
            return
        self._use()
        try:
            while not self.is_current:
                self._feed.want(self)
                if not self.is_current:
                    await self._ready.wait()
        finally:
            self._release()

    def add_listener(self, callback: Listener) -> None:
        """Call `callback` after each delta is applied, before the reply to the command that caused it."""
        self._listeners.add(callback)
        self._use()

    def remove_listener(self, callback: Listener) -> None:
        """Undo one `add_listener`. Raises ValueError if `callback` was not added."""
        self._listeners.remove(callback)
        self._release()

    @property
    def has_been_current(self) -> bool:
        """Whether the view has received a version and has remained subscribed since then."""
        return self.version >= 0 and not self._older_below

    @property
    def is_in_use(self) -> bool:
        """Whether the view must stay subscribed, because a caller is listening to it or waiting for it."""
        return self._users > 0

    def apply(self, delta: PartitionDelta) -> bool:
        """Apply a delta. If it does not follow the current version, mark the view as stale instead and return False."""
        if delta.is_snapshot:
            self.extents = ExtentTable.from_columns(delta.extents)
            self.dead = DeadRanges.from_pairs(delta.dead)
            self._older_below = delta.older_below
        elif not (self.is_current or self._is_filling):
            return True
        elif delta.from_version != self.version:
            self.is_current = self._is_filling = False
            return False
        elif delta.is_older:
            self.extents.prepend(delta.extents)
            self.dead.add_pairs(delta.dead)
            self._older_below = delta.older_below
        else:
            self._apply_changes(delta)
        self.version = delta.version
        self.log_start_offset = delta.log_start_offset
        self.high_watermark = delta.high_watermark
        self.last_stable_offset = delta.last_stable_offset
        self.vacated_to = delta.vacated_to
        self.is_deleted = delta.is_deleted
        self.is_as_left = False
        self._is_filling = self._older_below > 0
        self.is_current = not self._is_filling
        if self.is_current:
            self._ready.settle()
            self._listeners.notify()
        return True

    def leave(self) -> None:
        """Record that the session has ended, so versions may be missed from now on."""
        self.is_as_left = self.is_as_left or self.is_current
        self.is_current = self._is_filling = False

    def forget(self) -> None:
        self.is_current = self.is_as_left = self._is_filling = False
        self.version = -1

    def _use(self) -> None:
        self._users += 1
        if self._users == 1:
            self._feed.note_use(self)

    def _release(self) -> None:
        self._users -= 1
        if not self._users:
            self._feed.note_use(self)

    def _apply_changes(self, delta: PartitionDelta) -> None:
        if rows := delta.appended:
            for row in EXTENT_ROW.iter_unpack(rows):
                self.extents.append_row(row)
        if pairs := delta.dead:
            self.dead.add_pairs(pairs)
        for swap in delta.swaps:
            self._swap(swap)
            self.dead.remove(swap.first_offset, swap.end_offset)
        if below := delta.dropped_below:
            self.extents.drop_below(below)
            self.dead.drop_below(below)

    def _swap(self, swap: ExtentSwap) -> None:
        """Replace extents, except those that have not arrived yet, which will already reflect the swap."""
        first_offset, extents = swap.first_offset, swap.extents
        if first_offset < self._older_below:
            first_offset = self._older_below
            start = bisect_left(extents.base_offsets, first_offset)
            extents = Extents(
                **{name: getattr(extents, name)[start:] for name in COLUMNS},
            )
        self.extents.replace(first_offset, max(first_offset, swap.end_offset), extents)

    def fail(self, error: Exception) -> None:
        """Make all callers that wait in `ready` raise `error`, since no snapshot will arrive."""
        self._ready.settle(error)


class ClusterView:
    """A copy of the topics and agents.

    `version` grows with each change, except when agents become hidden or visible; it is -1 before the first snapshot.
    """

    def __init__(self, feed: Feed) -> None:
        self.version = -1
        self.cluster_id = ""
        #: The secret by which agents recognize each other (adr/0039), or empty if the control plane sends none. Never
        #: log it.
        self.peer_secret = b""
        self.security = Security()
        #: If not "", the view contains only the topics that ACLs allow this principal to describe.
        self.principal = ""
        self.topics_by_id: dict[bytes, Topic] = {}
        self.topics_by_name: dict[str, Topic] = {}
        self.agents: tuple[Agent, ...] = ()  # agents that clients are sent to
        self.hidden_agents: tuple[Agent, ...] = ()  # agents that clients are not sent to
        self.leaving_node_ids: frozenset[int] = (
            frozenset()
        )  # agents in `agents` that are about to stop
        self.hidden_lease_ids: frozenset[int] = frozenset()
        #: The processes of `agents`; an agent has one for each worker.
        self.agent_processes = 0
        #: The agents' leases as of the beginning of the session.
        self.lease_ids: frozenset[int] = frozenset()
        #: The numbers of the internal topics that have records.
        self.internal_topics: frozenset[int] = frozenset()
        self.sessions = 0  # the number of sessions that have sent a snapshot
        self.is_current = False
        self._feed = feed
        self._listeners = _Listeners()
        self._ready = _Ready()

    @property
    def whose(self) -> str:
        """A suffix for the error "there is no topic" that names the principal, if the view contains only the topics
        that this principal may describe.
        """
        if not self.principal:
            return ""
        return (
            f" that {self.principal} may describe (an operator can allow it with `lacuna acls add`)"
        )

    async def ready(self) -> None:
        """Wait until the view is current. Raises ControlPlaneUnavailable."""
        while not self.is_current:
            self._feed.want_cluster()
            await self._ready.wait()

    def add_listener(self, callback: Listener) -> None:
        self._listeners.add(callback)

    def remove_listener(self, callback: Listener) -> None:
        self._listeners.remove(callback)

    def apply(self, delta: ClusterDelta) -> None:
        """Apply a delta. Within a session, cluster deltas arrive in order and without gaps."""
        if delta.is_snapshot:
            self.topics_by_id = {}
            self.topics_by_name = {}
            self.cluster_id = delta.cluster_id
            self.peer_secret = delta.peer_secret
            self.principal = delta.principal
            self.internal_topics = frozenset()
            self.lease_ids = frozenset(delta.lease_ids)
            self.security.clear()
            self.sessions += 1
        for topic_id in delta.deleted_topic_ids:
            deleted = self.topics_by_id.pop(topic_id, None)
            if deleted is not None and self.topics_by_name[deleted.name] is deleted:
                del self.topics_by_name[deleted.name]
        for topic in delta.topics:
            self.topics_by_id[topic.topic_id] = topic
            self.topics_by_name[topic.name] = topic
        if delta.is_snapshot or delta.has_agents:
            self.agents = tuple(delta.agents)
            self.hidden_agents = tuple(delta.hidden_agents)
            self.leaving_node_ids = frozenset(delta.leaving_node_ids)
            self.hidden_lease_ids = frozenset(delta.hidden_lease_ids)
            self.agent_processes = delta.agent_processes
        self.internal_topics |= frozenset(delta.internal_topics)
        if delta.HasField("security"):
            self.security.apply(delta.security)
        self.version = delta.version
        self.is_current = True
        self._ready.settle()
        self._listeners.notify()

    def fail(self, error: Exception) -> None:
        """Make all callers that wait in `ready` raise `error`, since no snapshot can arrive for now."""
        self._ready.settle(error)
