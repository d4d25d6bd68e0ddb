"""The single writer: decides, replays, journals, and answers when it is durable (S2).

The state runs ahead of the journal, so that a command sees what the one before it did. Every reply
and every delta carries the journal position that it saw and is held until that is on the disk; what
holds them is one queue, so the order is the order of the decisions. While an append runs, the
records of all commands that arrive are gathered for the next one (group commit). An append that
failed ends everything: what is in memory then may never have happened.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import DecodeError

from controlplane.client.errors import ControlPlaneUnavailable
from controlplane.client.host import PartitionKey, Receiver
from controlplane.clock import Clock
from controlplane.decision import Context, Decision
from controlplane.journal.journal import (
    Journal,
    JournalBatch,
    JournalCorrupt,
    JournalError,
    Snapshotter,
)
from controlplane.pure import Machine
from controlplane.session import Held, PlaneSession
from controlplane.v1.cluster_pb2 import ClusterDelta
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.journal_pb2 import JournalRecord

S = TypeVar("S")

_log = logging.getLogger("lacuna.controlplane")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """Bounds and intervals: counts of commands, bytes, milliseconds."""

    tick_interval_ms: int = 250
    max_held: int = 50_000
    max_held_bytes: int = 64 << 20
    max_backlog: int = 100_000
    max_subscriptions: int = 200_000
    snapshot_records: int = 50_000
    snapshot_bytes: int = 64 << 20


class ControlPlane(Generic[S]):
    """One running control plane. Make it with `start`; use it in that event loop only.

    `on_fatal` is called once, when it had to stop by itself; the process should end then.
    """

    def __init__(
        self,
        machine: Machine[S],
        journal: Journal,
        clock: Clock,
        new_id: Callable[[], bytes],
        settings: RuntimeSettings,
        *,
        snapshotter: Snapshotter | None = None,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._machine = machine
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._settings = settings
        self._snapshotter = snapshotter
        self._on_fatal = on_fatal
        self._state: S = machine.new_state()
        self.cluster_id = ""
        self._fencing_token = 0
        self._now_ms = 0
        self._position = 0
        self._durable = 0
        self._last_token = 0
        self._last_session = 0
        self._records: list[bytes] = []
        self._records_bytes = 0
        self._append: asyncio.Future[int] | None = None
        self._held: deque[Held] = deque()
        self._is_releasing = False
        self._backlog: deque[tuple[PlaneSession, Command]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._sessions: dict[PlaneSession, None] = {}
        self._watchers: dict[PartitionKey, dict[PlaneSession, None]] = {}
        self._parked: dict[int, PlaneSession] = {}
        self._stopped: ControlPlaneUnavailable | None = ControlPlaneUnavailable(
            "the control plane has not started"
        )
        self._is_closing = False
        self._timer: asyncio.Task[None] | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._records_since_snapshot = 0
        self._bytes_since_snapshot = 0

    async def start(self, cluster_id: str | None = None) -> None:
        """Opens the journal, replays it, and begins to serve.

        `cluster_id` is the one that is expected (None: whatever the journal has). Raises
        JournalError.
        """
        opened = await self._journal.open(cluster_id)
        self.cluster_id = opened.cluster_id
        self._fencing_token = opened.fencing_token
        try:
            await self._recover(opened.position)
        except BaseException:
            await self._journal.close()
            raise
        self._stopped = None
        if self._position == 0:
            self._apply(self._machine.found(self._state, self.cluster_id, self._context(0)))
            self._kick()
        self._timer = asyncio.create_task(self._tick_forever())
        self._snapshot_if_due()

    async def _recover(self, end: int) -> None:
        """The state at the journal's end. Raises JournalCorrupt where it cannot be had."""
        snapshot = await self._journal.load_snapshot()
        if snapshot is not None:
            self._state = self._machine.restore(snapshot.state)
            self._now_ms = self._machine.now_ms(self._state)
            self._position = snapshot.position
        async for batch in self._journal.read(self._position):
            try:
                self._replay(batch)
            except (DecodeError, LookupError, ValueError, OverflowError) as error:
                raise JournalCorrupt(
                    f"a record up to position {batch.position} does not follow what is before it "
                    f"({error!r}): was the journal written by a later version, or restored in part?"
                ) from error
        if self._position != end:
            raise JournalCorrupt(
                f"the snapshot and the journal are not of one time: the snapshot leads to position "
                f"{self._position} and the journal to {end}; restore both together"
            )
        self._durable = self._position
        self._machine.take_changes(self._state)

    def _replay(self, batch: JournalBatch) -> None:
        for data in batch.records:
            record = JournalRecord.FromString(data)
            self._machine.replay(self._state, record)
            self._now_ms = max(self._now_ms, record.now_ms)
            self._bytes_since_snapshot += len(data)
        self._records_since_snapshot += len(batch.records)
        self._position = batch.position

    async def close(self) -> None:
        """Ends: what was decided is written and answered, later commands are not taken. Twice is
        once.
        """
        self._is_closing = True
        for task in (self._timer, self._snapshot):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        while self._append is not None:
            await asyncio.wait([self._append])
            await asyncio.sleep(0)
        if self._stopped is None:
            self._end(ControlPlaneUnavailable("the control plane was stopped"))
        if self._snapshotter is not None:
            await self._snapshotter.close()
        await self._journal.close()

    async def abort(self) -> None:
        """Ends at once, as by a crash: what was not answered never is."""
        if self._stopped is None:
            self._end(ControlPlaneUnavailable("the control plane was killed"))
        await self.close()

    def serialized_state(self) -> bytes:
        """The durable state as a snapshot would hold it now."""
        return self._machine.snapshot(self._state)

    @property
    def held_count(self) -> int:
        """Replies and deltas that wait for the disk."""
        return len(self._held)

    async def room(self) -> None:
        """Returns when commands are decided as they come; who reads them from a wire waits here."""
        await self._room.wait()

    # Sessions

    def open_session(self, receiver: Receiver) -> PlaneSession:
        """As `controlplane.client.host.Host` says."""
        self._check_running()
        self._last_session += 1
        session = PlaneSession(self, self._last_session, receiver)
        self._sessions[session] = None
        held = Held(self._position, session)
        held.cluster.append(self._machine.cluster_snapshot(self._state))
        self._hold((held,))
        return session

    def close_session(self, session: PlaneSession) -> None:
        """Forgets a session: its subscriptions, its parked commands, what is held for it."""
        if session.is_closed:
            return
        session.is_closed = True
        self._sessions.pop(session, None)
        self.unsubscribe(session, list(session.keys))
        for token in session.parked:
            del self._parked[token]
        self._machine.forget_tokens(self._state, list(session.parked))
        self._machine.end_session(self._state, session.number, self._context(0))
        session.parked.clear()

    def subscribe(self, session: PlaneSession, keys: Sequence[PartitionKey]) -> None:
        """Sends a snapshot of each partition, then its deltas."""
        self._check_running()
        held = Held(self._position, session)
        for key in keys:
            if key in session.keys:
                self._machine.unwatch(self._state, *key)
            elif len(session.keys) >= self._settings.max_subscriptions:
                raise ControlPlaneUnavailable(
                    f"a session may watch {self._settings.max_subscriptions} partitions: "
                    "unsubscribe some"
                )
            session.keys.add(key)
            self._watchers.setdefault(key, {})[session] = None
            held.partitions.append(self._machine.watch(self._state, *key))
        self._hold((held,))

    def unsubscribe(self, session: PlaneSession, keys: Sequence[PartitionKey]) -> None:
        """Ends the deltas of these partitions."""
        for key in keys:
            if key not in session.keys:
                continue
            session.keys.remove(key)
            self._machine.unwatch(self._state, *key)
            watchers = self._watchers[key]
            del watchers[session]
            if not watchers:
                del self._watchers[key]

    # Commands

    def submit(self, session: PlaneSession, commands: Sequence[Command]) -> None:
        """Takes commands in order; decides at once unless too much waits for the disk.

        Raises ControlPlaneUnavailable where it has stopped or the backlog is full.
        """
        self._check_running()
        if self._backlog or self._is_full():
            if len(self._backlog) + len(commands) > self._settings.max_backlog:
                raise ControlPlaneUnavailable(
                    f"{len(self._backlog)} commands wait already: wait for some replies"
                )
            self._backlog.extend((session, command) for command in commands)
            self._room.clear()
            return
        self._take(session, commands)

    def _take(self, session: PlaneSession, commands: Sequence[Command]) -> None:
        try:
            for command in commands:
                self._decide(session, command)
        except Exception as error:
            self._fail(error)
            return
        self._kick()

    def tick(self) -> None:
        """Ends what is overdue now."""
        self._check_running()
        try:
            self._apply(self._machine.tick(self._state, self._context(0)))
        except Exception as error:
            self._fail(error)
            return
        self._kick()

    async def _tick_forever(self) -> None:
        while True:
            await self._clock.sleep(self._settings.tick_interval_ms)
            if self._stopped is not None:
                return
            self.tick()

    def _decide(self, session: PlaneSession, command: Command) -> None:
        self._last_token += 1
        token = self._last_token
        context = self._context(token, session.number)
        decision = self._machine.handle(self._state, command, context)
        reply = decision.reply
        if reply is None:
            self._parked[token] = session
            session.parked[token] = command.command_id
            self._apply(decision)
            return
        reply.command_id = command.command_id
        self._apply(decision, session, reply)

    def _apply(
        self, decision: Decision, session: PlaneSession | None = None, reply: Reply | None = None
    ) -> None:
        """Replays a decision, queues its records, and holds what it says to whom."""
        for record in decision.records:
            self._machine.replay(self._state, record)
            data = record.SerializeToString()
            self._records.append(data)
            self._records_bytes += len(data)
        self._position += len(decision.records)
        held: dict[PlaneSession, Held] = {}
        self._hold_changes(held)
        for token, completion in decision.completions:
            waiting = self._parked.pop(token, None)
            if waiting is not None:
                completion.command_id = waiting.parked.pop(token)
                self._held_for(held, waiting).replies.append(completion)
        if reply is not None and session is not None:
            self._held_for(held, session).replies.append(reply)
        if held:
            self._hold(held.values())

    def _hold_changes(self, held: dict[PlaneSession, Held]) -> None:
        for delta in self._machine.take_changes(self._state):
            if isinstance(delta, ClusterDelta):
                for session in self._sessions:
                    self._held_for(held, session).cluster.append(delta)
                continue
            key = (delta.partition.topic_id, delta.partition.partition)
            for session in self._watchers.get(key, ()):
                self._held_for(held, session).partitions.append(delta)

    def _held_for(self, held: dict[PlaneSession, Held], session: PlaneSession) -> Held:
        found = held.get(session)
        if found is None:
            found = held[session] = Held(self._position, session)
        return found

    # The journal

    def _kick(self) -> None:
        """Starts an append where there is something to write and none is under way."""
        if self._append is not None or not self._records or self._stopped is not None:
            return
        records, self._records = self._records, []
        self._records_since_snapshot += len(records)
        self._bytes_since_snapshot += self._records_bytes
        self._records_bytes = 0
        try:
            self._append = self._journal.append(records, self._fencing_token)
        except Exception as error:
            self._fail(error)
            return
        if self._append.done():
            self._appended(self._append)
        else:
            self._append.add_done_callback(self._appended)

    def _appended(self, append: "asyncio.Future[int]") -> None:
        self._append = None
        if self._stopped is not None:
            return
        error = append.exception()
        if error is not None:
            self._fail(error)
            return
        self._durable = append.result()
        self._kick()
        self._release()
        self._drain_backlog()
        self._snapshot_if_due()

    def _hold(self, held: Iterable[Held]) -> None:
        self._held.extend(held)
        if self._durable >= self._position:
            self._release()

    def _release(self) -> None:
        """Delivers, in order, what has become durable. Who is called here may call back in: one
        loop only.
        """
        if self._is_releasing:
            return
        self._is_releasing = True
        try:
            while self._held and self._held[0].position <= self._durable:
                item = self._held.popleft()
                if not item.session.is_closed:
                    item.session.receiver.deliver(item.partitions, item.cluster, item.replies)
        except Exception as error:
            self._fail(error)
        finally:
            self._is_releasing = False

    def _is_full(self) -> bool:
        return (
            len(self._held) >= self._settings.max_held
            or self._records_bytes >= self._settings.max_held_bytes
        )

    def _drain_backlog(self) -> None:
        while self._backlog and not self._is_full():
            session, command = self._backlog.popleft()
            if not session.is_closed:
                self._take(session, (command,))
        if not self._backlog:
            self._room.set()

    def _snapshot_if_due(self) -> None:
        if self._snapshotter is None or self._snapshot is not None:
            return
        if (
            self._records_since_snapshot >= self._settings.snapshot_records
            or self._bytes_since_snapshot >= self._settings.snapshot_bytes
        ):
            self._records_since_snapshot = 0
            self._bytes_since_snapshot = 0
            self._snapshot = asyncio.create_task(self._make_snapshot(self._snapshotter))

    async def _make_snapshot(self, snapshotter: Snapshotter) -> None:
        """A snapshot that fails costs a longer replay; the next one is tried as if this had been made: what it
        lacked, it would mostly lack a moment later, too.
        """
        try:
            await snapshotter.make(self._durable)
        except JournalError as error:
            _log.warning(
                "no snapshot at position %d, the next is tried %d records or %d bytes later: %s",
                self._durable,
                self._settings.snapshot_records,
                self._settings.snapshot_bytes,
                error,
            )
        finally:
            self._snapshot = None

    # Ends

    def _check_running(self) -> None:
        if self._stopped is not None:
            raise ControlPlaneUnavailable(str(self._stopped))
        if self._is_closing:
            raise ControlPlaneUnavailable("the control plane is stopping")

    def _fail(self, error: BaseException) -> None:
        """Never answers what it may not keep: ends everything, and tells the process."""
        if self._stopped is not None:
            return
        _log.critical("the control plane stops: %s", error, exc_info=error)
        self._end(ControlPlaneUnavailable(f"the control plane has stopped: {error}"))
        if self._timer is not None:
            self._timer.cancel()
        self._on_fatal(error)

    def _end(self, error: ControlPlaneUnavailable) -> None:
        self._stopped = error
        self._held.clear()
        self._backlog.clear()
        self._room.set()
        sessions, self._sessions = self._sessions, {}
        for session in sessions:
            session.is_closed = True
            session.receiver.lost(error)

    def _context(self, token: int, session: int = 0) -> Context:
        self._now_ms = max(self._now_ms, self._clock.now_ms())
        return Context(now_ms=self._now_ms, new_id=self._new_id, token=token, session=session)
