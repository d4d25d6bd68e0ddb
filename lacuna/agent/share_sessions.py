"""Share sessions (KIP-932). A session holds an epoch and the partitions that a member of a share group fetches from
this agent.

The control plane knows which records a member holds. If an agent forgets a session, the member opens another one, and
can still acknowledge the records that it holds.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey

OPENING_EPOCH: Final = 0
CLOSING_EPOCH: Final = -1
_LARGEST_EPOCH: Final = 2**31 - 1
#: Kafka's group.share.max.share.sessions.
MOST_SESSIONS: Final = 2_000
#: A session that has been silent for this long makes room for a new one.
_SILENT_SECONDS: Final = 120.0


class SessionError(Exception):
    """The request does not match its session."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


@dataclass(slots=True, kw_only=True)
class ShareSession:
    """The partitions of one member, in the order in which they will be served, and the epoch of its next request."""

    epoch: int
    used_at: float
    partitions: OrderedDict[PartitionKey, None] = field(default_factory=OrderedDict)

    def update(self, added: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        for key in added:
            self.partitions.setdefault(key)
        for key in forgotten:
            self.partitions.pop(key, None)

    def rotate(self) -> None:
        """Let the next request begin with the next partition, so that none starves."""
        if self.partitions:
            self.partitions.move_to_end(next(iter(self.partitions)))


class ShareSessions:
    """The share sessions of one worker, and the waits of their fetches."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._sessions: OrderedDict[tuple[str, str], ShareSession] = OrderedDict()
        self._waiting: dict[str, set[asyncio.Event]] = {}
        #: Set when records of a share group are waiting to be written to their dead-letter queue.
        self.dead_letters = asyncio.Event()
        #: Whether fetches are answered without waiting, because the agent is about to stop.
        self.is_ending = False

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, group_id: str, member_id: str, now: float) -> ShareSession:
        """Begin a session, replacing any earlier one of the member. Raises SessionError if there are too many."""
        key = group_id, member_id
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._most:
            oldest = next(iter(self._sessions))
            if self._sessions[oldest].used_at > now - _SILENT_SECONDS:
                raise SessionError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            del self._sessions[oldest]
        session = self._sessions[key] = ShareSession(epoch=1, used_at=now)
        return session

    def go_on(self, group_id: str, member_id: str, epoch: int, now: float) -> ShareSession:
        """Return the session that a request continues. Raises SessionError if the request does not match it."""
        session = self._find(group_id, member_id)
        if session.epoch != epoch:
            raise SessionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _LARGEST_EPOCH else epoch + 1
        session.used_at = now
        self._sessions.move_to_end((group_id, member_id))
        return session

    def close(self, group_id: str, member_id: str) -> ShareSession:
        """End a session, and return it. Raises SessionError if there is none."""
        session = self._find(group_id, member_id)
        del self._sessions[group_id, member_id]
        return session

    def _find(self, group_id: str, member_id: str) -> ShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise SessionError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def wait_in(self, group_id: str) -> asyncio.Event:
        """Return an event that is set when a member of the group releases records through this agent."""
        event = asyncio.Event()
        self._waiting.setdefault(group_id, set()).add(event)
        return event

    def stop_waiting(self, group_id: str, event: asyncio.Event) -> None:
        """Stop setting an event that `wait_in` has returned."""
        waiting = self._waiting[group_id]
        waiting.discard(event)
        if not waiting:
            del self._waiting[group_id]

    def wake(self, group_id: str) -> None:
        """Let the group's waiting fetches check for records again."""
        for event in self._waiting.get(group_id, ()):
            event.set()

    def wakes_of(self, group_id: str) -> int:
        """Return how many of the group's fetches are waiting."""
        return len(self._waiting.get(group_id, ()))

    def end_waits(self) -> None:
        """Wake all fetches, because the agent is about to stop."""
        self.is_ending = True
        for group_id in self._waiting:
            self.wake(group_id)
