"""One of several control planes that share a journal. As a standby, it follows the leader until it can become the
leader.

A standby replays what the leader appends, so that a takeover only has to wait for the rest of the leader's lease. A
leader that cannot renew its lease, or finds itself fenced, becomes a standby and reloads the state, since any decisions
that did not become durable are missing from the journal.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal.journal import (
    JournalCorrupt,
    JournalError,
    JournalForeign,
    JournalReader,
    JournalRefused,
    JournalReplaced,
    JournalTrimmed,
    Leader,
    SharedJournal,
)
from lacuna.controlplane.journal.renewing import Beside, beside_the_loop, renew_forever
from lacuna.controlplane.journal.replica import Replica
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.tenure import LeasedTenure
from lacuna.controlplane.v1.control_pb2 import ControlPlaneStatus, Standby

_log = logging.getLogger("lacuna.controlplane")

#: How often a standby checks for new records and for the leader's renewals, and the shortest interval.
_POLL_MS: Final = 100
_SHORTEST_POLL_MS: Final = 20
#: How often a standby reports its position to the leader, and how long the leader remembers it.
_TELL_MS: Final = 1_000
_FORGET_MS: Final = 5_000
_PAUSE_MS: Final = 500
#: Errors that an operator has to fix. After any other error of the journal, another attempt may succeed.
_LASTING: Final = (JournalForeign, JournalCorrupt)
#: How long a journal that has been accessible must deny access before the denial counts as lasting: credentials are
#: rotated, and the services that provide them can fail briefly.
_REFUSED_MS: Final = 300_000

#: Asks the control plane at an address for its status, and reports this standby to it. Returns None if it does not
#: answer.
AskLeader = Callable[[str, Standby], Awaitable[ControlPlaneStatus | None]]
MakeRuntime = Callable[
    [SharedJournal, Replica, LeasedTenure, Callable[[BaseException], None]], Runtime
]


class Node:
    """One of several control planes. Call `begin`, then `run` for as long as it should serve, then `close`.

    `make_runtime` returns a runtime on a journal. Until `begin`, the node is a standby that knows of no leader.
    `beside` runs the lease renewals.
    """

    def __init__(
        self,
        make_runtime: MakeRuntime,
        clock: Clock,
        ask_leader: AskLeader,
        *,
        cluster_id: str | None = None,
        beside: Beside = beside_the_loop,
    ) -> None:
        self._make_runtime = make_runtime
        self._clock = clock
        self._ask_leader = ask_leader
        self._cluster_id = cluster_id
        self._beside = beside
        self._address = ""
        self._make_journal: Callable[[], SharedJournal]
        self._on_change: Callable[[], Awaitable[None]]
        self._last_error = ""
        self._is_checked = False
        #: When the journal began to deny this control plane access (`Clock.passed_ms`).
        self._refused_since: float | None = None
        self._is_reread = False
        self._replica = Replica()
        self._has_caught_up = False
        self._leader: Leader | None = None
        self._told: ControlPlaneStatus | None = None
        #: Standbys that have reported, each with the time of the report (`Clock.passed_ms`).
        self._standbys: dict[str, tuple[Standby, float]] = {}
        self.runtime: Runtime | None = None
        self.epoch = 0
        self.is_closed = False
        self.changed = asyncio.Event()

    def begin(
        self,
        address: str,
        make_journal: Callable[[str], SharedJournal],
        on_change: Callable[[], Awaitable[None]],
    ) -> None:
        """Provide values that are known only once the process is listening.

        Clients reach this control plane at `address`. `make_journal` returns the unopened journal for a control plane
        at an address. `on_change` is called whenever this control plane becomes the leader or stops being it.
        """
        self._address = address
        self._make_journal = partial(make_journal, address)
        self._on_change = on_change

    async def _tell(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
        await self._on_change()

    @property
    def is_ready(self) -> bool:
        """Whether this control plane is the leader, or has replayed the leader's appends and could take over
        immediately.
        """
        return self.runtime is not None or (self._has_caught_up and self._leader is not None)

    @property
    def leader(self) -> str:
        """The address at which the leader serves, as far as this control plane knows, or "" if there is no leader."""
        if self.runtime is not None:
            return self._address
        if self._leader is None or self._leader.address == self._address:
            return ""  # the journal may still name this control plane, although it is no longer the leader
        return self._leader.address

    def status(self, standby: Standby | None = None) -> ControlPlaneStatus:
        """Return the status of all control planes known to this one. `standby` is the caller, if it is a standby."""
        if self.runtime is None:
            return self._status_of_standby()
        now = self._clock.passed_ms()
        if standby is not None:
            self._standbys[standby.address] = (standby, now)
        self._standbys = {
            address: (each, told)
            for address, (each, told) in self._standbys.items()
            if now - told < _FORGET_MS
        }
        load = self.runtime.load()
        return ControlPlaneStatus(
            is_leader=True,
            leader=self._address,
            journal="shared",
            epoch=self.epoch,
            position=self.runtime.durable_position,
            standbys=[each for each, _ in self._standbys.values()],
            pending_records=load.pending_records,
            backlog=load.backlog,
            is_time_doubtful=self.runtime.time.is_doubtful,
            clocks_ahead_ms=int(self.runtime.time.apart_ms),
        )

    def _status_of_standby(self) -> ControlPlaneStatus:
        status = ControlPlaneStatus(leader=self.leader, epoch=self.epoch)
        here = Standby(address=self._address, position=self._replica.position)
        told = self._told
        if told is not None and told.leader == status.leader:
            status.position = told.position
            status.pending_records, status.backlog = told.pending_records, told.backlog
            status.is_time_doubtful = told.is_time_doubtful
            status.clocks_ahead_ms = told.clocks_ahead_ms
            status.standbys.extend(each for each in told.standbys if each.address != here.address)
        status.position = max(status.position, here.position)
        status.standbys.append(here)
        return status

    async def run(self) -> None:
        """Follow the leader, or be the leader, until cancelled.

        Raises JournalForeign, JournalCorrupt or JournalRefused if an operator has to intervene. If the journal denies
        access, the node gives up immediately at startup, but later only after five minutes of denials.
        """
        while True:
            async with self._outliving_errors():
                await self._serve()
            await self._clock.sleep(_PAUSE_MS)

    @asynccontextmanager
    async def _outliving_errors(self) -> AsyncIterator[None]:
        """Run the body. If it raises a journal error that may be temporary, log it unless it is the same as the last
        one.
        """
        try:
            yield
        except _LASTING:
            raise
        except JournalError as error:
            if isinstance(error, JournalRefused) and self._is_refused_for_good():
                raise
            if str(error) != self._last_error:
                self._last_error = str(error)
                _log.warning("%s; trying again", error)

    def _is_refused_for_good(self) -> bool:
        """Note that the journal has denied access, and return whether further attempts are useless."""
        if not self._is_checked:
            return True
        now = self._clock.passed_ms()
        if self._refused_since is None:
            self._refused_since = now
        return now - self._refused_since >= _REFUSED_MS

    async def close(self) -> None:
        """Give up the leadership, so that a standby can take over immediately. `run` must have ended."""
        runtime, self.runtime = self.runtime, None
        self.is_closed = True
        await self._tell()
        if runtime is not None:
            await runtime.close()

    async def _serve(self) -> None:
        """Follow the leader, take over from it, and serve as the leader until that ends."""
        journal = self._make_journal()
        if not self._is_checked:
            await journal.check()
            self._is_checked = True
        reporting = asyncio.create_task(self._report_forever())
        try:
            await self._follow(journal)
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
        await self._lead(journal)

    async def _follow(self, journal: SharedJournal) -> None:
        """Replay what the leader appends until there is no leader.

        A separate task watches the leader, since a delay in observing a renewal would extend the leader's lease.
        """
        self._replica = Replica()
        self._has_caught_up = False
        replaying = asyncio.create_task(self._replay_forever(journal))
        try:
            await self._watch(journal, replaying)
        finally:
            replaying.cancel()
            await asyncio.gather(replaying, return_exceptions=True)

    async def _watch(self, journal: SharedJournal, replaying: "asyncio.Task[None]") -> None:
        """Watch the leader until there is none, and all existing records have been replayed."""
        is_told = False
        async with _opened(journal) as reader:
            while True:
                pause_ms = float(_POLL_MS)
                async with self._outliving_errors():
                    await self._look(reader)
                    left_ms = 1000 * self._lease_left(journal)
                    if left_ms <= 0 and self._has_caught_up:
                        return
                    pause_ms = min(pause_ms, max(left_ms, _SHORTEST_POLL_MS))
                if replaying.done():
                    replaying.result()
                if self._leader is not None and self._has_caught_up and not is_told:
                    is_told = True
                    self._refused_since = None
                    _log.info(
                        "standing by at position %d: %s",
                        self._replica.position,
                        f"{self.leader} leads"
                        if self.leader
                        else "there is no leader until this one's earlier lease ends",
                    )
                    await self._tell()
                await self._clock.sleep(1 + int(pause_ms))

    async def _look(self, reader: JournalReader) -> None:
        before, self._leader = self.leader, await reader.leader()
        if self._leader is not None:
            self.epoch = self._leader.epoch
        if before != self.leader:
            await self._tell()

    def _lease_left(self, journal: SharedJournal) -> float:
        """Return the remaining seconds of the leader's lease, as of the last check."""
        return 0.0 if self._leader is None else journal.lease - self._leader.silent

    async def _replay_forever(self, journal: SharedJournal) -> None:
        async with _opened(journal) as reader:
            while True:
                async with self._outliving_errors():
                    await self._catch_up(reader)
                    self._has_caught_up = True
                await self._clock.sleep(_POLL_MS)

    async def _catch_up(self, reader: JournalReader) -> None:
        try:
            await self._replica.catch_up(reader)
        except (JournalTrimmed, JournalReplaced) as error:
            if isinstance(error, JournalReplaced):
                _log.warning("%s", error)
            self._replica = Replica()
            try:
                await self._replica.catch_up(reader)
            except JournalTrimmed as error:
                if self._replica.position:
                    raise
                raise JournalCorrupt(
                    f"{error}. There is no snapshot. If the snapshots are in a bucket, specify "
                    "the bucket with --store"
                ) from error

    async def _report_forever(self) -> None:
        while True:
            if self._leader is not None:
                here = Standby(address=self._address, position=self._replica.position)
                self._told = await self._ask_leader(self._leader.address, here)
            await self._clock.sleep(_TELL_MS)

    async def _lead(self, journal: SharedJournal) -> None:
        """Take the journal over, serve until this control plane can no longer lead, and raise the reason."""
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tenure = LeasedTenure(self._clock, journal.lease)

        def fail(error: BaseException) -> None:
            if not failed.done():
                failed.set_exception(error)

        runtime = await self._start(journal, tenure, fail)
        self._refused_since = None
        self.epoch = runtime.epoch
        try:
            # The renewals are stopped first, so that a released lease is not renewed.
            async with self._renewing(journal, tenure, fail):
                self._leader = self._told = None
                self._standbys.clear()
                self.runtime = runtime
                _log.info(
                    "leading in epoch %d from position %d", self.epoch, runtime.durable_position
                )
                await self._tell()
                await failed
        except JournalError as error:
            self.runtime = None
            await self._tell()
            await runtime.abort(f"this control plane is no longer the leader: {error}")
            raise
        finally:
            failed.cancel()

    async def _start(
        self, journal: SharedJournal, tenure: LeasedTenure, fail: Callable[[BaseException], None]
    ) -> Runtime:
        replica, self._replica = self._replica, Replica()
        tenure.renewed(self._clock.passed_ms())
        runtime = self._make_runtime(journal, replica, tenure, fail)
        try:
            await runtime.start(self._cluster_id)
        except JournalCorrupt as error:
            if not replica.position or self._is_reread:
                raise
            # In a failover, a database may have lost records that this standby had already read. Everything is read
            # again, once.
            self._is_reread = True
            raise JournalError(str(error)) from error
        self._is_reread = False
        return runtime

    @asynccontextmanager
    async def _renewing(
        self, journal: SharedJournal, tenure: LeasedTenure, fail: Callable[[BaseException], None]
    ) -> AsyncIterator[None]:
        """Renew the lease while the body runs, and call `fail` if a renewal fails."""

        def note(ended: "asyncio.Future[None]") -> None:
            if not ended.cancelled() and (error := ended.exception()) is not None:
                fail(error)

        renewer = journal.renewer(self.epoch)
        work = partial(renew_forever, renewer, tenure, self._clock, journal.lease)
        async with self._beside(work, self._clock, journal.lease) as ended:
            ended.add_done_callback(note)
            yield


@asynccontextmanager
async def _opened(journal: SharedJournal) -> AsyncIterator[JournalReader]:
    reader = journal.reader()
    try:
        yield reader
    finally:
        with suppress(JournalError):
            await reader.close()
