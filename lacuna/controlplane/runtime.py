"""The single writer: decides commands, replays and journals their records, and replies once they are durable (S2).

The state is ahead of the journal, so that each command sees the effects of the previous one. Every reply and delta is
held until the journal is durable up to the position that it depends on. They are all in one queue, and are therefore
delivered in the order of the decisions. A failed append stops the control plane, because the state in memory may then
never become durable. If the leader holds a lease, answers without records are also held until the journal proves that
it was still the leader when it decided on them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from lacuna.controlplane import machine
from lacuna.controlplane.appending import Appender
from lacuna.controlplane.client.host import Receiver
from lacuna.controlplane.client.protocol import ControlPlaneUnavailable
from lacuna.controlplane.clock import STORE, Clock, SteadyTime
from lacuna.controlplane.decision import Context, Decision
from lacuna.controlplane.delivering import Deliveries
from lacuna.controlplane.hot import HotBytes
from lacuna.controlplane.journal.journal import (
    Journal,
    JournalError,
    JournalFenced,
    OpenedJournal,
    Snapshotter,
)
from lacuna.controlplane.journal.replica import Replica
from lacuna.controlplane.rights import Job, JobRights
from lacuna.controlplane.runtime_settings import RuntimeLoad, RuntimeSettings
from lacuna.controlplane.session import Held, RuntimeSession
from lacuna.controlplane.shared.audit import Audit
from lacuna.controlplane.shared.authorizer import Authorizer
from lacuna.controlplane.shared.authorizing import AuthorizerSettings, authorizer_of
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.snapshotting import Snapshots
from lacuna.controlplane.state.state import NO_NODE, State
from lacuna.controlplane.state.times import leap
from lacuna.controlplane.stepping import Steps
from lacuna.controlplane.tenure import LeasedTenure
from lacuna.controlplane.v1.cluster_pb2 import AgentReport, ClusterDelta, RegisterAgent
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import CommitSegment, PartitionDelta, ReadHot
from lacuna.controlplane.watching import Watchers

_log = logging.getLogger("lacuna.controlplane")

#: A tick may be late by this much. If it is later than that, the process was stopped and could not receive anything
#: from clients.
_LATE_MS = 1_000


class Runtime:
    """One running control plane. Call `start` first, and use the runtime only in the event loop of that call.

    `on_fatal` is called with the error if the runtime has to stop; a stopped runtime cannot be restarted. `prepare` is
    called with the state before the first decision. `replica` is the state that has already been replayed. Nothing is
    decided once `tenure` has ended, since another control plane may have taken over. `confirm` is
    `SharedJournal.confirm` if the journal is shared, and otherwise None. A snapshot is due after `snapshot_appends`
    appends at the latest. `authorizer` determines whether ACLs restrict jobs.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        new_id: Callable[[], bytes],
        settings: RuntimeSettings,
        *,
        snapshotter: Snapshotter | None = None,
        replica: Replica | None = None,
        tenure: LeasedTenure | None = None,
        snapshot_appends: int | None = None,
        confirm: Callable[[int], Awaitable[None]] | None = None,
        authorizer: AuthorizerSettings | None = None,
        prepare: Callable[[State], None] = lambda _: None,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._settings = settings
        self._prepare = prepare
        self._on_fatal = on_fatal
        self._replica = replica or Replica()
        self._tenure = tenure
        self._is_shared = confirm is not None
        self._authorizer_settings = authorizer or AuthorizerSettings()
        #: None if jobs may use their verbs on all topics.
        self._authorizer: Authorizer | None = None
        self._audit: Audit | None = None
        self._state = State()
        self.cluster_id = ""
        self._fencing_token = 0
        #: The secret by which agents prove to each other that they have a session here. Only agents receive it.
        self._peer_secret = b""
        self._position = 0
        self._last_token = 0
        self._last_session = 0
        self._hot = HotBytes(journal)
        self._hot_reads: set[asyncio.Task[None]] = set()
        self._appender = Appender(
            journal, self._hot, confirm, appended=self._appended, failed=self._fail
        )
        self._snapshots = Snapshots(
            snapshotter, settings.snapshot_records, settings.snapshot_bytes, snapshot_appends
        )
        self._deliveries = Deliveries(self._appender, self._fail)
        self._backlog: deque[tuple[RuntimeSession, Command]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._steps = Steps(clock)
        #: The time of the last tick, or of the start.
        self._ticked_ms = 0
        self._going_on: asyncio.Handle | None = None
        self._sessions: dict[RuntimeSession, None] = {}
        self._watchers = self._new_watchers()
        self._parked: dict[int, RuntimeSession] = {}
        self._stopped: ControlPlaneUnavailable | None = ControlPlaneUnavailable(
            "the control plane has not started"
        )
        self._is_closing = False
        self._timer: asyncio.Task[None] | None = None

    def _new_watchers(self) -> Watchers:
        return Watchers(
            self._state,
            self._steps,
            self._settings.max_subscriptions,
            send=self._send,
            go_on_soon=self._go_on_soon,
        )

    async def start(self, cluster_id: str | None = None) -> None:
        """Open and replay the journal, and begin serving. `cluster_id` is the expected id, or None for any. Raises
        JournalError.
        """
        opened = await self._journal.open(cluster_id)
        self.cluster_id = opened.cluster_id
        self._fencing_token = opened.fencing_token
        try:
            await self._recover(opened)
        except BaseException:
            await self._journal.close()
            raise
        self._time = SteadyTime(self._clock, self._state.clock_ms)
        self._ticked_ms = self._time.now_ms()
        self._prepare(self._state)
        self._authorizer = authorizer_of(self._authorizer_settings, self._state.security)
        if self._authorizer is not None:
            self._audit = Audit(self._authorizer, lambda: self._time.now_ms() / 1000)
        self._peer_secret = self._new_id()
        self._stopped = None
        if self._position == 0:
            self._apply(machine.found(self._state, self.cluster_id, self._context(0)))
            self._appender.append_soon()
        self._timer = asyncio.create_task(self._tick_forever())
        self._snapshots.make_if_due(self._appender.durable)

    async def _recover(self, opened: OpenedJournal) -> None:
        """Restore the state at the journal's end. Raises JournalCorrupt and JournalForeign."""
        replica = self._replica
        await replica.catch_up(self._journal)
        replica.check(opened)
        self._state = replica.state
        self._watchers = self._new_watchers()
        self._state.is_journal_shared = self._is_shared
        intake = self._state.hot_intake
        intake.bytes_per_second = self._settings.hot_bytes_per_second
        intake.max_bytes = self._settings.max_hot_bytes
        self._hot.opened()
        intake.kept_bytes = self._hot.kept_bytes
        self._position = replica.position
        self._appender.start(opened.fencing_token, replica.position)
        self._snapshots.count(replica.records, replica.bytes, replica.appends)

    async def close(self) -> None:
        """Write and answer everything already decided, then stop. Later commands fail. Closing again has no effect."""
        self._is_closing = True
        self._appender.hurry()
        for task in (self._timer, *self._hot_reads):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._snapshots.cancel()
        await self._hot.close()
        await self._appender.close()
        if self._stopped is None:
            self._end(ControlPlaneUnavailable("the control plane was stopped"))
        await self._snapshots.close()
        await self._journal.close()

    def give_up(self, error: JournalError) -> None:
        """Stop the runtime in the same way as after a failed append."""
        self._fail(error)

    async def abort(self, reason: str = "the control plane was killed") -> None:
        """Stop immediately, as in a crash, so that unanswered commands are never answered."""
        if self._stopped is None:
            self._end(ControlPlaneUnavailable(reason))
        await self.close()

    @property
    def epoch(self) -> int:
        """The fencing token that the journal issued at `start`, higher than that of every earlier leader."""
        return self._fencing_token

    @property
    def durable_position(self) -> int:
        return self._appender.durable

    @property
    def state(self) -> State:
        """The current state, ahead of the journal. It is read-only, and valid within one step of the event loop."""
        return self._state

    def now_ms(self) -> int:
        return self._time.now_ms()

    @property
    def time(self) -> SteadyTime:
        """The control plane's time, and its difference from the clocks."""
        return self._time

    def load(self) -> RuntimeLoad:
        return RuntimeLoad(
            sessions=len(self._sessions),
            subscriptions=len(self._watchers),
            held=len(self._deliveries),
            backlog=len(self._backlog),
            pending_records=self._appender.pending_records,
            pending_bytes=self._appender.pending_bytes,
            decided_position=self._position,
            durable_position=self._appender.durable,
            records_since_snapshot=self._snapshots.records,
            longest_step_ms=self._steps.longest_ms,
        )

    def serialized_state(self) -> bytes:
        """Return the durable state as a snapshot would contain it now, with all parts joined."""
        return machine.snapshot(self._state)

    @property
    def held_count(self) -> int:
        """The number of deliveries that wait for the journal. Each contains one decision's replies and deltas for one
        session.
        """
        return len(self._deliveries)

    async def room(self) -> None:
        """Wait until the backlog is empty. The service does this before it passes on the next request."""
        await self._room.wait()

    # Sessions

    def open_session(self, receiver: Receiver, *, job: Job | None = None) -> RuntimeSession:
        """Open a session for an agent or control plane or, if `job` is given, for a job, which receives no secrets."""
        self._check_running()
        self._last_session += 1
        rights = None if job is None else self._rights_of(job)
        session = RuntimeSession(
            self, self._last_session, receiver, is_cluster=job is None, rights=rights
        )
        self._sessions[session] = None
        held = Held(self._position, session)
        snapshot = self._state.cluster_snapshot()
        if job is None:
            snapshot.peer_secret = self._peer_secret
        else:
            snapshot.ClearField("security")
        if rights is not None:
            snapshot = rights.shown(snapshot)
        held.cluster.append(snapshot)
        self._deliveries.hold((held,))
        return session

    def _rights_of(self, job: Job) -> JobRights | None:
        if self._authorizer is None or self._audit is None:
            return None
        return JobRights(self._state, self._authorizer, self._audit, job)

    def close_session(self, session: RuntimeSession) -> None:
        """End a session, and drop its subscriptions and parked commands. Nothing more is delivered to it."""
        if session.is_closed:
            return
        session.is_closed = True
        self._sessions.pop(session, None)
        session.unshown.clear()
        self._watchers.remove(session, list(session.keys))
        for token in session.parked:
            del self._parked[token]
            self._state.groups.forget_token(token)
        machine.end_session(self._state, session.number, self._context(0).now_ms)
        session.parked.clear()

    def subscribe(self, session: RuntimeSession, keys: Sequence[PartitionKey]) -> None:
        """Deliver a snapshot of each partition, followed by its deltas.

        Raises ControlPlaneUnavailable if the runtime has stopped, or the session would watch too many partitions.
        """
        self._check_running()
        self._watchers.add(session, keys)

    def unsubscribe(self, session: RuntimeSession, keys: Sequence[PartitionKey]) -> None:
        self._watchers.remove(session, keys)

    def _send(self, session: RuntimeSession, delta: PartitionDelta) -> None:
        held = Held(self._position, session)
        held.partitions.append(delta)
        self._deliveries.hold((held,))

    # Commands

    def submit(self, session: RuntimeSession, commands: Sequence[Command]) -> None:
        """Accept commands, and decide them in order: immediately, unless too many deliveries are held or decisions have
        taken too long. Raises ControlPlaneUnavailable if the runtime has stopped or the backlog is full.
        """
        self._check_running()
        if self._backlog or self._is_full():
            if len(self._backlog) + len(commands) > self._settings.max_backlog:
                raise ControlPlaneUnavailable(
                    f"{len(self._backlog)} commands are already waiting: wait for some replies first"
                )
            self._wait(session, commands)
            return
        self._take(session, commands)

    def _wait(self, session: RuntimeSession, commands: Iterable[Command]) -> None:
        self._backlog.extend((session, command) for command in commands)
        if self._backlog:
            self._room.clear()

    def _take(self, session: RuntimeSession, commands: Sequence[Command]) -> None:
        for number, command in enumerate(commands):
            if not self._steps.has_time():
                self._wait(session, commands[number:])
                self._go_on_soon()
                break
            self._try(session, command)
        self._appender.append_soon()

    def _try(self, session: RuntimeSession, command: Command) -> None:
        """Decide a command if this control plane is the leader. If that fails, stop the runtime."""
        if not self._leads():
            return
        began_ms = self._clock.passed_ms()
        try:
            self._decide(session, command)
        except Exception as error:
            self._fail(error)
        self._steps.note(began_ms, command.WhichOneof("verb") or "")

    def _go_on_soon(self) -> None:
        """Continue with the remaining work in the next iteration of the event loop."""
        if self._going_on is None:
            self._going_on = asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._going_on = None
        if self._stopped is None:
            self._watchers.show()
            self._drain_backlog()

    def tick(self) -> None:
        """Expire everything that is overdue. Raises ControlPlaneUnavailable if the runtime has stopped."""
        self._check_running()
        self._step("a tick", machine.tick)
        if not self._time.is_doubtful:
            self._hot.drop_some(
                self._state,
                self._time.now_ms(),
                decided=self._position,
                durable=self._appender.durable,
            )
            self._state.hot_intake.kept_bytes = self._hot.kept_bytes

    def expect_jump(self, by_ms: int) -> None:
        """Prepare for a test to move the clock by `by_ms`, which must not be mistaken for a pause of the process."""
        self._ticked_ms += by_ms

    def _step(self, what: str, decide: Callable[[State, Context], Decision]) -> None:
        began_ms = self._clock.passed_ms()
        try:
            context = self._context(0)
            self._ticked_ms = context.now_ms
            self._apply(decide(self._state, context))
        except Exception as error:
            self._fail(error)
            return
        self._steps.note(began_ms, what)
        self._steps.ticked()
        self._appender.append_soon()

    async def _tick_forever(self) -> None:
        """Tick at regular intervals.

        The first tick after a pause of the process is skipped, so that commands that have arrived in the meantime are
        decided before anything counts as overdue.
        """
        has_paused = False
        while True:
            await self._clock.sleep(self._settings.tick_interval_ms)
            if not self._leads():
                return
            was_paused, has_paused = has_paused, self._note_pause()
            if was_paused or not has_paused:
                self.tick()

    def _note_pause(self) -> bool:
        """Return whether the process was stopped since the last tick and, if so, extend leases and sessions
        accordingly.

        The machine may have slept, or the process may have been suspended or starved of CPU time. Renewals and
        heartbeats are then still waiting in the sockets.
        """
        passed_ms = self._context(0).now_ms - self._ticked_ms
        # The time may advance by two intervals during one interval of real time (`SteadyTime`).
        paused_ms = passed_ms - 2 * self._settings.tick_interval_ms
        if paused_ms <= _LATE_MS:
            return False
        _log.warning(
            "this process was stopped for %.1f s; leases, sessions and transactions are extended "
            "by the same amount",
            paused_ms / 1000,
        )
        self._step("a pause", lambda state, context: machine.pause(state, context, paused_ms))
        return True

    def _decide(self, session: RuntimeSession, command: Command) -> None:
        self._last_token += 1
        token = self._last_token
        context = self._context(token, session.number)
        rights = session.rights
        if rights is not None and (failure := rights.failure(command)):
            held = Held(self._position, session)
            held.replies.append(Reply(command_id=command.command_id, failure=failure))
            self._deliveries.hold((held,))
            return
        decision = machine.handle(self._state, command, context)
        self._hear(command, decision.reply)
        proof = 0
        if self._is_shared and machine.needs_proof(command, decision):
            proof = self._appender.ask_proof()
        reply = decision.reply
        if reply is None:
            self._parked[token] = session
            session.parked[token] = command.command_id
            self._apply(decision, command)
            if command.HasField("read_hot"):
                reading = asyncio.create_task(self._read_hot(token, command.read_hot))
                self._hot_reads.add(reading)
                reading.add_done_callback(self._hot_reads.discard)
            return
        if rights is not None:
            reply = rights.answer(reply)
        self._apply(decision, command, session, reply, proof)

    async def _read_hot(self, token: int, command: ReadHot) -> None:
        # The answer depends only on durable bytes, so it does not wait for the latest decisions to become durable.
        reply = await self._hot.read(command)
        session = self._parked.pop(token, None)
        if self._stopped is not None or session is None:
            return
        reply.command_id = session.parked.pop(token)
        try:
            session.receiver.deliver((), (), (reply,), self._appender.durable)
        except Exception as error:
            self._fail(error)

    def _hear(self, command: Command, reply: Reply | None) -> None:
        """Record what an agent with a lease reports about its own clock and the store's."""
        told: RegisterAgent | AgentReport
        if command.HasField("register_agent") and reply is not None:
            node_id, told = reply.agent_registered.node_id, command.register_agent
        elif command.HasField("renew_lease"):
            lease = self._state.leases.get(command.renew_lease.lease_id)
            node_id = NO_NODE if lease is None else lease.node_id
            told = command.renew_lease.report
        else:
            return
        if node_id != NO_NODE and told.clock_ms:
            self._time.hear(node_id, told.clock_ms)
            if told.store_clock_ms:
                self._time.hear(STORE, told.store_clock_ms)

    def _apply(
        self,
        decision: Decision,
        command: Command | None = None,
        session: RuntimeSession | None = None,
        reply: Reply | None = None,
        proof: int = 0,
    ) -> None:
        """Replay a decision, queue its records, and hold its replies and deltas for their sessions.

        `command` is the decided command, or None if there is none, as for a tick. `reply` waits for `proof`.
        """
        is_told = _log.isEnabledFor(logging.INFO)
        for record in decision.records:
            if is_told and (line := machine.describe(self._state, command, record)):
                _log.info("%s", line)
            machine.replay(self._state, record)
            self._appender.add(record.SerializeToString())
        if command is not None and decision.records and command.commit_segment.hot:
            self._add_hot(command.commit_segment)
        self._position += len(decision.records)
        held: dict[RuntimeSession, Held] = {}
        self._hold_changes(held)
        for token, completion in decision.completions:
            waiting = self._parked.pop(token, None)
            if waiting is not None:
                completion.command_id = waiting.parked.pop(token)
                self._held_for(held, waiting).replies.append(completion)
        if reply is not None and session is not None:
            waiting_reply = self._held_for(held, session)
            waiting_reply.replies.append(reply)
            waiting_reply.proof = proof
        if held:
            self._deliveries.hold(held.values())

    def _add_hot(self, commit: CommitSegment) -> None:
        """Have the journal keep the bytes of a hot segment, unless its commit was rejected or created no extent."""
        segments, key = self._state.segments, (commit.segment.lease_id, commit.segment.sequence)
        if key in segments and key not in segments.replaced:
            self._hot.add(commit)
            self._state.hot_intake.kept_bytes = self._hot.kept_bytes

    def _hold_changes(self, held: dict[RuntimeSession, Held]) -> None:
        for delta in self._state.take_changes():
            if isinstance(delta, ClusterDelta):
                told = _without_security(delta) if delta.HasField("security") else delta
                for session in self._sessions:
                    shown = delta if session.is_cluster else told
                    if session.rights is not None:
                        shown = session.rights.shown(delta)
                        if delta.HasField("security"):
                            ended = self._watchers.end_refused(session)
                            self._held_for(held, session).partitions.extend(ended)
                    self._held_for(held, session).cluster.append(shown)
                continue
            key = key_of(delta.partition)
            for session in self._watchers.of(key):
                self._held_for(held, session).partitions.append(delta)

    def _held_for(self, held: dict[RuntimeSession, Held], session: RuntimeSession) -> Held:
        found = held.get(session)
        if found is None:
            found = held[session] = Held(self._position, session)
        return found

    # Deliveries

    def _appended(self, records: int, size: int) -> None:
        """Deliver what has become durable, and decide commands from the backlog."""
        self._snapshots.count(records, size, 1 if records else 0)
        self._deliveries.release()
        self._drain_backlog()
        self._snapshots.make_if_due(self._appender.durable)

    def _is_full(self) -> bool:
        return (
            len(self._deliveries) >= self._settings.max_held
            or self._appender.pending_bytes + self._hot.pending_bytes
            >= self._settings.max_held_bytes
        )

    def _drain_backlog(self) -> None:
        while self._backlog and not self._is_full():
            if not self._steps.has_time():
                self._go_on_soon()
                return
            session, command = self._backlog.popleft()
            if not session.is_closed:
                self._try(session, command)
        self._appender.append_soon()
        if not self._backlog:
            self._room.set()

    # Ends

    def _leads(self) -> bool:
        """Whether commands may be decided. If the tenure has ended, stop the runtime.

        Checking at the time of the decision is enough, since the reply to a timely decision remains correct however
        late it is sent.
        """
        has_ended = self._tenure is not None and not self._tenure.holds()
        if self._stopped is None and has_ended:
            self._fail(
                JournalFenced(
                    "this control plane could not renew its lease in time, so another one may now be the leader"
                )
            )
        return self._stopped is None

    def _check_running(self) -> None:
        self._leads()
        if self._stopped is not None:
            raise ControlPlaneUnavailable(str(self._stopped))
        if self._is_closing:
            raise ControlPlaneUnavailable("the control plane is stopping")

    def _fail(self, error: BaseException) -> None:
        """Stop the runtime and notify the process, since the effects of later replies might not become durable."""
        if self._stopped is not None:
            return
        # The caller reports errors of the journal, and decides whether they end the process.
        if not isinstance(error, JournalError):
            _log.critical(
                "the control plane is stopping because of an unexpected error; please report it",
                exc_info=error,
            )
        self._end(ControlPlaneUnavailable(f"the control plane has stopped: {error}"))
        if self._timer is not None:
            self._timer.cancel()
        self._on_fatal(error)

    def _end(self, error: ControlPlaneUnavailable) -> None:
        self._stopped = error
        self._appender.stop()
        self._deliveries.clear()
        self._backlog.clear()
        self._watchers.clear()
        self._room.set()
        sessions, self._sessions = self._sessions, {}
        for session in sessions:
            session.is_closed = True
            session.receiver.lost(error)

    def _context(self, token: int, session: int = 0) -> Context:
        now_ms = self._time.now_ms()
        if leap_ms := self._time.take_leap():
            leap(self._state, leap_ms)
            self._ticked_ms += leap_ms
        return Context(
            now_ms=now_ms,
            new_id=self._new_id,
            token=token,
            session=session,
            is_time_doubtful=self._time.is_doubtful,
        )


def _without_security(delta: ClusterDelta) -> ClusterDelta:
    told = ClusterDelta()
    told.CopyFrom(delta)
    told.ClearField("security")
    return told
