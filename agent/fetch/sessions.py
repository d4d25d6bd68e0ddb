"""Fetch sessions (KIP-227) and what a fetch watches.

An `Interest` is one partition that a client wants; a `Watch` holds the interests of a request or of
a session and knows which of them may have something new, so that a long poll over many idle
partitions costs nothing until a view moves. Sessions are bounded per worker.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from agent.fetch.codec import FINAL_EPOCH, FIRST_TOPIC_ID, INITIAL_EPOCH, NO_SESSION, FetchRequest

if TYPE_CHECKING:
    from controlplane.client import PartitionView

FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106

_MAX_EPOCH: Final = 2**31 - 1
_MAX_SESSION_ID: Final = 2**31 - 1

#: topic name or id, partition
InterestKey: TypeAlias = tuple[str | bytes, int]


class Interest:
    """A partition that a client wants, by `name` or `topic_id` as it was asked.

    `view` is None while the topic is unknown. `sent` is what the client was last told in its
    session: (high_watermark, last_stable_offset, log_start_offset); None: nothing yet, or an error.
    """

    __slots__ = (
        "_watch",
        "current_leader_epoch",
        "fetch_offset",
        "name",
        "partition",
        "partition_max_bytes",
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
        self.view: PartitionView | None = None
        self.sent: tuple[int, int, int] | None = None

    @property
    def key(self) -> InterestKey:
        """As it was asked."""
        return (self.name or self.topic_id, self.partition)

    def on_change(self) -> None:
        """The view moved: look at it again."""
        self._watch.changed(self)


class Watch:
    """Interests in the order in which they are to be answered; `dirty` ones may have something."""

    def __init__(self) -> None:
        self.interests: dict[InterestKey, Interest] = {}
        self.dirty: dict[Interest, None] = {}
        self._listening: dict[Interest, PartitionView] = {}
        # More than one where a client has several fetches of a session under way, each on a connection of its own.
        self._futures: set[asyncio.Future[None]] = set()
        self._has_changed = False
        self._is_closed = False
        # Loop time until which all partitions are known as waited for.
        self.remembered_until = 0.0

    def want(self, name: str, topic_id: bytes, asked: tuple[int, int, int, int]) -> None:
        """Add or change an interest: (partition, fetch_offset, partition_max_bytes, epoch)."""
        partition, fetch_offset, partition_max_bytes, current_leader_epoch = asked
        interest = self.interests.get((name or topic_id, partition))
        if interest is None:
            interest = Interest(self, name, topic_id, partition)
            self.interests[interest.key] = interest
        interest.fetch_offset = fetch_offset
        interest.partition_max_bytes = partition_max_bytes
        interest.current_leader_epoch = current_leader_epoch
        self.dirty[interest] = None

    def forget(self, key: InterestKey) -> None:
        """Remove an interest, if it is there."""
        interest = self.interests.pop(key, None)
        if interest is not None:
            self.dirty.pop(interest, None)
            self._unlisten(interest)

    def listen(self) -> None:
        """Hear of every change from now on; again for views that were found or changed since."""
        for interest in self.interests.values():
            self.listen_to(interest)

    def listen_to(self, interest: Interest) -> None:
        """Hear of the changes of one interest's view."""
        view = interest.view
        heard = self._listening.get(interest)
        if heard is view or self._is_closed:
            return
        self._unlisten(interest)
        if view is not None and self._has(interest):
            view.add_listener(interest.on_change)
            self._listening[interest] = view

    def changed(self, interest: Interest) -> None:
        """An interest's view moved: whoever waits looks again."""
        self.dirty[interest] = None
        self._has_changed = True
        self.wake()

    def look(self) -> list[Interest]:
        """The dirty interests, all of which are looked at before the next await."""
        self._has_changed = False
        return list(self.dirty)

    async def wait(self, deadline: float) -> None:
        """Wait until a view moves that has not been looked at, or until `deadline` (loop time)."""
        if self._has_changed:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._futures.add(future)
        timer = loop.call_at(deadline, _end, future)
        try:
            await future
        finally:
            timer.cancel()
            self._futures.discard(future)

    @property
    def is_waited_for(self) -> bool:
        """Whether a fetch waits."""
        return bool(self._futures)

    def wake(self) -> None:
        """Whoever waits looks again."""
        for future in self._futures:
            _end(future)

    def rotate(self, interest: Interest) -> None:
        """It was served: others come first next time (KIP-74)."""
        if not self._has(interest):
            return
        self.interests[interest.key] = self.interests.pop(interest.key)
        if interest in self.dirty:
            del self.dirty[interest]
            self.dirty[interest] = None

    def close(self) -> None:
        """Hear of nothing any more, whatever a fetch that is under way still looks at."""
        self._is_closed = True
        for interest, view in self._listening.items():
            view.remove_listener(interest.on_change)
        self._listening.clear()

    def _has(self, interest: Interest) -> bool:
        """Another fetch of the session may have forgotten it while one was under way."""
        return self.interests.get(interest.key) is interest

    def _unlisten(self, interest: Interest) -> None:
        view = self._listening.pop(interest, None)
        if view is not None:
            view.remove_listener(interest.on_change)


@dataclass(slots=True)
class Session:
    """A session: the client sends what changed, and is sent what changed."""

    session_id: int
    epoch: int
    has_topic_ids: bool
    watch: Watch


@dataclass(frozen=True, slots=True)
class Opened:
    """What a request is about. `error_code` is that of the whole answer, then the rest is empty.

    Without a session every interest is answered, and the watch is the caller's to close. An
    incremental request of a session is answered with what changed only.
    """

    error_code: int
    watch: Watch
    session: Session | None = None
    is_incremental: bool = False


class Sessions:
    """The sessions of one worker, least recently used first.

    Those end beyond `max_sessions`, and where all of them name more than `max_partitions`; a fetch of more
    than that has no session.
    """

    def __init__(
        self, max_sessions: int, max_partitions: int, randint: Callable[[int, int], int]
    ) -> None:
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._partitions = 0
        self._randint = randint
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest) -> Opened:
        """The interests of a request, after the session that it names, if any."""
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._end(request.session_id)
            watch = Watch()
            _update(watch, request)
            has_session = 0 < len(watch.interests) <= self._max_partitions
            if request.session_epoch == FINAL_EPOCH or not has_session:
                return Opened(0, watch)
            return Opened(0, watch, self._begin(request, watch))
        return self._go_on(request)

    def close(self) -> None:
        """End all."""
        for session_id in tuple(self._sessions):
            self._end(session_id)

    def _go_on(self, request: FetchRequest) -> Opened:
        session = self._sessions.get(request.session_id)
        if session is None:
            return Opened(FETCH_SESSION_ID_NOT_FOUND, Watch())
        if session.has_topic_ids != (request.version >= FIRST_TOPIC_ID):
            return Opened(FETCH_SESSION_TOPIC_ID_ERROR, Watch())
        if session.epoch != request.session_epoch:
            return Opened(INVALID_FETCH_SESSION_EPOCH, Watch())
        self._sessions.move_to_end(session.session_id)
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        before = len(session.watch.interests)
        _update(session.watch, request)
        for topic in request.forgotten:
            for partition in topic.partitions:
                session.watch.forget((topic.name or topic.topic_id, partition))
        self._partitions += len(session.watch.interests) - before
        self._make_room()
        if session.session_id not in self._sessions:
            return Opened(FETCH_SESSION_ID_NOT_FOUND, Watch())  # it has grown beyond the bound
        if not session.watch.interests:
            self._end(session.session_id)
            return Opened(0, session.watch)
        return Opened(0, session.watch, session, is_incremental=True)

    def _begin(self, request: FetchRequest, watch: Watch) -> Session:
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._randint(1, _MAX_SESSION_ID)
        if len(self._sessions) >= self._max_sessions:
            self._end(next(iter(self._sessions)))
        session = Session(session_id, 1, request.version >= FIRST_TOPIC_ID, watch)
        self._sessions[session_id] = session
        self._partitions += len(watch.interests)
        self._make_room()
        return session

    def _make_room(self) -> None:
        while self._partitions > self._max_partitions:
            self._end(next(iter(self._sessions)))

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.watch.interests)
            session.watch.close()


def _end(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _update(watch: Watch, request: FetchRequest) -> None:
    for topic in request.topics:
        for asked in topic.partitions:
            watch.want(topic.name, topic.topic_id, asked)
