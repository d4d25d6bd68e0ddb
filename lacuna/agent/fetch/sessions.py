"""Fetch sessions (KIP-227), and the partitions that a fetch watches.

An `Interest` is one partition that a client wants. A `Watch` holds the interests of a request or session and tracks
which of them may have changes to report, so that a long poll over many idle partitions costs nothing until a view
changes. The number of sessions per worker is bounded, and sessions end as in Kafka: a new session replaces only one
that has fallen silent, or an old one with fewer partitions. Otherwise, the fetch gets no session.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.controlplane.client import PartitionView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0

_FIRST_TOPIC_ID: Final = 13
_MAX_EPOCH: Final = 2**31 - 1
_MAX_SESSION_ID: Final = 2**31 - 1

#: A session that has been unused for this long makes room for any other; one that began this long ago makes room for a
#: larger one (min.incremental.fetch.session.eviction.ms in Kafka).
EVICTION_SECONDS: Final = 120.0
#: The number of least recently used sessions that are examined to find one with few partitions.
_MOST_COMPARED: Final = 128

#: topic name or id, partition
InterestKey: TypeAlias = tuple[str | bytes, int]
#: The first value changes when the client or its rights change. Given the name or id of a topic, the function returns
#: the error code for reading it, or 0 if the client may read it.
Permission: TypeAlias = tuple[Hashable, Callable[[str, bytes], int]]


class Interest:
    """A partition that a client wants, identified by `name` or by `topic_id`, depending on the request.

    `view` is None while the topic is unknown. `sent` holds the bounds last sent to the client in its session
    (high_watermark, last_stable_offset, log_start_offset), or None if there are none or the last answer was an error.
    `refusal` is the error code if the client may not read the partition, or 0.
    """

    __slots__ = (
        "_watch",
        "current_leader_epoch",
        "fetch_offset",
        "name",
        "partition",
        "partition_max_bytes",
        "refusal",
        "sent",
        "topic_id",
        "view",
    )

    def __init__(self, watch: "Watch", name: str, topic_id: bytes, partition: int) -> None:
        self._watch = watch
        self.name = name
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = 0
        self.partition_max_bytes = 0
        self.current_leader_epoch = -1
        self.refusal = 0
        self.view: PartitionView | None = None
        self.sent: tuple[int, int, int] | None = None

    @property
    def key(self) -> InterestKey:
        return (self.name or self.topic_id, self.partition)

    def is_news(self, answer: PartitionData) -> bool:
        """Whether the answer tells the client of a session anything new. Records the answer's bounds as sent."""
        if answer.error_code:
            self.sent = None
            return True
        bounds = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
        is_news = bounds != self.sent or bool(answer.records)
        self.sent = bounds
        return is_news

    def on_change(self) -> None:
        self._watch.changed(self)


class Watch:
    """The interests of one fetch or session, in the order of the answer. The `dirty` ones may have changes to report.

    A session may end while a fetch waits, so a watch listens to views until its session has ended and no fetch uses it.
    """

    def __init__(self) -> None:
        self.interests: dict[InterestKey, Interest] = {}
        self.dirty: dict[Interest, None] = {}
        self._listening: dict[Interest, PartitionView] = {}
        # This is more than one if a client has several fetches in a session under way, each on its own connection.
        self._futures: dict[asyncio.Future[None], None] = {}  # an ordered set
        self._has_changed = False
        self._fetches = 0
        self._is_ended = False
        self._isolation_level = -1
        self._permitted_to: Hashable = None
        # Loop time until which `Tails.remember` need not record all partitions again.
        self.remembered_until = 0.0

    def want(self, name: str, topic_id: bytes, asked: FetchPartition) -> None:
        interest = self.interests.get((name or topic_id, asked.partition))
        if interest is None:
            interest = Interest(self, name, topic_id, asked.partition)
            self.interests[interest.key] = interest
        interest.fetch_offset = asked.fetch_offset
        interest.partition_max_bytes = asked.partition_max_bytes
        interest.current_leader_epoch = asked.current_leader_epoch
        self.dirty[interest] = None

    def read_at(self, isolation_level: int) -> None:
        """Set the isolation level. A change makes all interests dirty, since each may now have changes to report."""
        if isolation_level != self._isolation_level:
            self._isolation_level = isolation_level
            self.dirty = dict.fromkeys(self.interests.values())

    async def permit(self, permission: Permission) -> None:
        """Decide which interests the client may read. Only dirty interests are checked, unless the client or its rights
        have changed.

        Topics are checked in steps, but the results are applied to all partitions in one step, since a concurrent fetch
        in the same session must not find some of them undecided.
        """
        whose, refusal = permission
        asked = self.dirty if whose == self._permitted_to else self.interests.values()
        refusals: dict[str | bytes, int] = {}
        for topic in dict.fromkeys((interest.name, interest.topic_id) for interest in asked):
            refusals[topic[0] or topic[1]] = refusal(*topic)
            if not len(refusals) % MOST_OF_PIECE:
                await asyncio.sleep(0)
        if whose != self._permitted_to:
            self._permitted_to = whose
            self.dirty = dict.fromkeys(self.interests.values())
        for interest in self.dirty:
            topic_key = interest.name or interest.topic_id
            if topic_key in refusals:
                interest.refusal = refusals[topic_key]
            else:  # it has become dirty in the meantime
                interest.refusal = refusal(interest.name, interest.topic_id)

    def forget(self, key: InterestKey) -> None:
        interest = self.interests.pop(key, None)
        if interest is not None:
            self.dirty.pop(interest, None)
            self._unlisten(interest)

    def enter(self) -> None:
        """Keep the watch listening, even if its session ends, until the fetch that uses it calls `leave`."""
        self._fetches += 1

    def leave(self) -> None:
        """End a fetch's use of the watch. If the session has ended, the last fetch to leave stops the listening."""
        self._fetches -= 1
        self._let_go()

    def listen_to(self, interest: Interest) -> None:
        """Listen to the interest's current view instead of its earlier one."""
        view = interest.view
        heard = self._listening.get(interest)
        if heard is view:
            return
        self._unlisten(interest)
        if view is not None and self._has(interest):
            view.add_listener(interest.on_change)
            self._listening[interest] = view

    def changed(self, interest: Interest) -> None:
        """Mark an interest as dirty, and wake the waiting fetches."""
        self.dirty[interest] = None
        self._has_changed = True
        self.wake()

    def look(self) -> list[Interest]:
        """Return the dirty interests, all of which the caller must plan.

        Any later change ends the next `wait`, even a change to an interest that is planned after it.
        """
        self._has_changed = False
        return list(self.dirty)

    async def wait(self, deadline: float) -> None:
        """Wait until a view has changed since `look`, or until `deadline` (loop time)."""
        if self._has_changed:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._futures[future] = None
        timer = loop.call_at(deadline, _end, future)
        try:
            await future
        finally:
            timer.cancel()
            self._futures.pop(future, None)

    @property
    def is_waited_for(self) -> bool:
        """Whether any fetch is waiting."""
        return bool(self._futures)

    def wake(self) -> None:
        """Wake all waiting fetches, so that they check their interests again."""
        for future in self._futures:
            _end(future)

    def rotate(self, interest: Interest) -> None:
        """Move an interest that has been served to the end, so that others come first next time (KIP-74)."""
        if not self._has(interest):
            return
        self.interests[interest.key] = self.interests.pop(interest.key)
        if interest in self.dirty:
            del self.dirty[interest]
            self.dirty[interest] = None

    def end(self) -> None:
        """Stop listening to all views once no fetch uses the watch any more."""
        self._is_ended = True
        self._let_go()

    def _let_go(self) -> None:
        if self._fetches or not self._is_ended:
            return
        for interest in [*islice(self._listening, MOST_OF_PIECE)]:
            self._unlisten(interest)
        if self._listening:
            asyncio.get_running_loop().call_soon(self._let_go)

    def _has(self, interest: Interest) -> bool:
        """Whether the session still includes this interest, which another fetch may have removed."""
        return self.interests.get(interest.key) is interest

    def _unlisten(self, interest: Interest) -> None:
        view = self._listening.pop(interest, None)
        if view is not None:
            view.remove_listener(interest.on_change)


@dataclass(slots=True)
class FetchSession:
    """A fetch session, whose requests and answers contain only changes. Times are event loop times."""

    session_id: int
    epoch: int
    has_topic_ids: bool
    watch: Watch
    began: float
    used: float
    #: The number of the session's partitions that count towards the bound.
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """The watch and session of a request. If `error_code` is not 0, it is the entire answer, and the watch is empty.

    Without a session, the answer covers every interest. The answer to an incremental request contains only changes.
    """

    error_code: int
    watch: Watch
    session: FetchSession | None = None
    is_incremental: bool = False


class FetchSessions:
    """The sessions of one worker, least recently used first.

    There are at most `max_sessions` sessions, with a total of at most `max_partitions` partitions. Beyond that, a fetch
    gets no session, as in Kafka. If it replaced another client's session, that client would come back, and each fetch
    would end a session.
    """

    def __init__(
        self, max_sessions: int, max_partitions: int, randint: Callable[[int, int], int]
    ) -> None:
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._partitions = 0
        self._randint = randint
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        #: The number of sessions that ended to make room for others.
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self, request: FetchRequest, version: int, now: float) -> Opened:
        """Begin, continue or end the session named in a request, and apply the request to its watch.

        A large request is applied in steps. `now` is event loop time.
        """
        has_topic_ids = version >= _FIRST_TOPIC_ID
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._end(request.session_id)
            watch = Watch()
            await _update(watch, request)
            is_wanted = request.session_epoch == INITIAL_EPOCH and watch.interests
            if is_wanted and self._make_room(len(watch.interests), now):
                return Opened(0, watch, self._begin(watch, has_topic_ids, now))
            watch.end()
            return Opened(0, watch)
        return await self._go_on(request, has_topic_ids, now)

    def close(self) -> None:
        for session_id in tuple(self._sessions):
            self._end(session_id)

    async def _go_on(self, request: FetchRequest, has_topic_ids: bool, now: float) -> Opened:
        session = self._sessions.get(request.session_id)
        if session is None:
            return Opened(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, Watch())
        if session.has_topic_ids != has_topic_ids:
            return Opened(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, Watch())
        if session.epoch != request.session_epoch:
            return Opened(ErrorCode.INVALID_FETCH_SESSION_EPOCH, Watch())
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        session.used = now
        await _update(session.watch, request)
        await _forget(session.watch, request)
        if self._sessions.get(session.session_id) is not session:  # it has ended in the meantime
            return Opened(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, Watch())
        self._take(session)
        if not self._make_room(len(session.watch.interests), now):  # it has grown beyond the bound
            session.watch.end()
            return Opened(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, Watch())
        if not session.watch.interests:
            session.watch.end()
            return Opened(0, session.watch)
        self._put(session)
        return Opened(0, session.watch, session, is_incremental=True)

    def _begin(self, watch: Watch, has_topic_ids: bool, now: float) -> FetchSession:
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._randint(1, _MAX_SESSION_ID)
        session = FetchSession(session_id, 1, has_topic_ids, watch, began=now, used=now)
        self._put(session)
        return session

    def _make_room(self, partitions: int, now: float) -> bool:
        """Make room for a session with this many partitions, ending others if allowed. Return whether there is room."""
        if partitions > self._max_partitions:
            return False
        most = self._max_partitions - partitions
        while len(self._sessions) >= self._max_sessions or self._partitions > most:
            victim = self._victim(partitions, now)
            if victim is None:
                return False
            self.evicted += 1
            self._end(victim.session_id)
        return True

    def _victim(self, partitions: int, now: float) -> FetchSession | None:
        """Return a session that may be ended in favour of one with this many partitions, or None."""
        oldest = next(iter(self._sessions.values()))
        if now - oldest.used > EVICTION_SECONDS:
            return oldest
        settled = (
            session
            for session in islice(self._sessions.values(), _MOST_COMPARED)
            if now - session.began > EVICTION_SECONDS
        )
        smallest = min(settled, key=lambda session: len(session.watch.interests), default=None)
        if smallest is None or len(smallest.watch.interests) >= partitions:
            return None
        return smallest

    def _put(self, session: FetchSession) -> None:
        self._sessions[session.session_id] = session
        session.partitions = len(session.watch.interests)
        self._partitions += session.partitions

    def _take(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self._partitions -= session.partitions

    def _end(self, session_id: int) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            self._take(session)
            session.watch.end()


def _end(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _update(watch: Watch, request: FetchRequest) -> None:
    count = 0
    for topic in request.topics:
        for asked in topic.partitions:
            watch.want(topic.topic, topic.topic_id, asked)
            count += 1
            if not count % MOST_OF_PIECE:
                await asyncio.sleep(0)


async def _forget(watch: Watch, request: FetchRequest) -> None:
    count = 0
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            watch.forget((topic.topic or topic.topic_id, partition))
            count += 1
            if not count % MOST_OF_PIECE:
                await asyncio.sleep(0)
