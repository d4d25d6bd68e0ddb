"""Shows sessions the partitions to which they have subscribed, a part at a time."""

from collections import deque
from collections.abc import Callable, Collection, Sequence

from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.session import RuntimeSession
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.partition import deleted_delta
from lacuna.controlplane.state.state import State
from lacuna.controlplane.stepping import Steps
from lacuna.controlplane.v1.log_pb2 import PartitionDelta


class Watchers:
    """The partitions that the sessions of one runtime watch, at most `most` in each session.

    `send` delivers a part of a partition to a session. `go_on_soon` has `show` called in the next iteration of the
    event loop.
    """

    def __init__(
        self,
        state: State,
        steps: Steps,
        most: int,
        *,
        send: Callable[[RuntimeSession, PartitionDelta], None],
        go_on_soon: Callable[[], None],
    ) -> None:
        self._state = state
        self._steps = steps
        self._most = most
        self._send = send
        self._go_on_soon = go_on_soon
        self._by_key: dict[PartitionKey, dict[RuntimeSession, None]] = {}
        #: Partitions that have not been shown to the sessions yet.
        self._unshown: deque[tuple[RuntimeSession, PartitionKey]] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._by_key.values()))

    def of(self, key: PartitionKey) -> Collection[RuntimeSession]:
        """Return the sessions that receive a partition's deltas."""
        return self._by_key.get(key, ())

    def add(self, session: RuntimeSession, keys: Sequence[PartitionKey]) -> None:
        """Begin to show partitions to a session. Raises ControlPlaneUnavailable if it would watch too many."""
        new = set(keys) - session.keys - session.unshown
        if len(session.keys) + len(session.unshown) + len(new) > self._most:
            raise ControlPlaneUnavailable(
                f"a session may watch at most {self._most} partitions: unsubscribe from some"
            )
        session.unshown.update(keys)
        self._unshown.extend((session, key) for key in keys)
        self.show()

    def remove(self, session: RuntimeSession, keys: Sequence[PartitionKey]) -> None:
        for key in keys:
            session.unshown.discard(key)
            session.older.pop(key, None)
            if key not in session.keys:
                continue
            session.keys.remove(key)
            self._state.unwatch(key)
            watchers = self._by_key[key]
            del watchers[session]
            if not watchers:
                del self._by_key[key]

    def show(self) -> None:
        """Send sessions the partitions to which they have subscribed, as long as there is time."""
        while self._unshown and self._steps.has_time():
            session, key = self._unshown.popleft()
            delta = self._next_shown(session, key)
            if delta is None:
                continue
            if delta.older_below:
                session.older[key] = delta.older_below
                self._unshown.append((session, key))
            self._send(session, delta)
        if self._unshown:
            self._go_on_soon()

    def _next_shown(self, session: RuntimeSession, key: PartitionKey) -> PartitionDelta | None:
        """Return the next part of a partition for a session, or None if the session already has all of it."""
        below = session.older.pop(key, 0)
        if key in session.unshown:
            session.unshown.remove(key)
            return self._shown(session, key)
        partition = self._state.partitions.get(key)
        return partition.older_delta(below) if below and partition is not None else None

    def _shown(self, session: RuntimeSession, key: PartitionKey) -> PartitionDelta:
        """Subscribe a session to a partition, and return the first part to send."""
        if session.rights is not None and (why := session.rights.refusal(key[0])):
            self.remove(session, (key,))
            return _refused(key, why)
        if key in session.keys:
            self._state.unwatch(key)
        session.keys.add(key)
        self._by_key.setdefault(key, {})[session] = None
        return self._state.watch(key)

    def end_refused(self, session: RuntimeSession) -> list[PartitionDelta]:
        """End those subscriptions of a job that ACLs no longer allow, and return a delta for each that says so."""
        assert session.rights is not None
        watched = {topic_id for topic_id, _ in session.keys}
        refused = {each: why for each in watched if (why := session.rights.refusal(each))}
        ended = [each for each in session.keys if each[0] in refused]
        self.remove(session, ended)
        return [_refused(key, refused[key[0]]) for key in ended]

    def clear(self) -> None:
        self._unshown.clear()


def _refused(key: PartitionKey, why: str) -> PartitionDelta:
    delta = deleted_delta(key)
    delta.refusal = why
    return delta
