"""Checks leadership: one control plane per epoch, no decision under an old one, and a consistent journal.

All readers must see the records that a journal reported to a leader as durable, at the same positions. A takeover must
find all of them, and no later append from an earlier epoch may count. With a correct lease, two leaders never overlap.
A forced takeover causes an overlap, during which an earlier leader may answer from its state, but for no longer than a
lease.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from lacuna.controlplane.client.repeating import may_be_repeated
from lacuna.controlplane.client.session import SessionLimits
from lacuna.controlplane.decision import Decision
from lacuna.controlplane.journal.journal import (
    Fit,
    HotKey,
    HotSegment,
    JournalBatch,
    JournalReader,
    Leader,
    OpenedJournal,
    Renewer,
    Seal,
    SharedJournal,
    Snapshot,
)
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.session import RuntimeSession
from lacuna.controlplane.v1.control_pb2 import Command
from tests.simulation.history import History
from tests.simulation.loop import Process
from tests.simulation.sessions import CLIENT


@dataclass(slots=True)
class Reign:
    """One epoch: its leader, its first position, and the time at which it opened the journal."""

    epoch: int
    who: str
    position: int
    since: float
    is_forced: bool


class Reigns:
    """All epochs of one history, and the records seen at each position of the journal."""

    def __init__(self, history: History, lease: float) -> None:
        self._history = history
        self._lease = lease
        #: In the order in which they began.
        self._reigns: dict[int, Reign] = {}
        self.newest = 0
        self._records: dict[int, bytes] = {}
        #: How often a client's command was decided, by the client's process and the command's id.
        self._decisions: Counter[tuple[Process, int]] = Counter()
        #: The last position of which a leader was told that it is durable.
        self._acknowledged = 0

    def began(self, who: str, opened: OpenedJournal, *, is_forced: bool) -> None:
        """Note that a control plane has opened the journal."""
        epoch, history = opened.fencing_token, self._history
        if epoch in self._reigns:
            history.wrong(f"{who} leads in epoch {epoch}, and so does {self._reigns[epoch].who}")
        # One that was paused meanwhile may come after others, and then must not decide anything.
        if epoch > self.newest and opened.position < self._acknowledged:
            history.wrong(
                f"{who} finds {opened.position} records in the journal; {self._acknowledged} had been acknowledged"
            )
        self._reigns[epoch] = Reign(epoch, who, opened.position, history.now(), is_forced)
        self.newest = max(self.newest, epoch)
        history.counts["takeovers"] += 1
        history.counts["takeovers that were forced"] += is_forced

    def decides(self, who: str, epoch: int) -> None:
        """Check that a control plane may decide or answer something in its epoch."""
        if epoch == self.newest:
            return
        now = self._history.now()
        later = next(each for each in self._reigns.values() if each.epoch > epoch)
        if later.is_forced and now < later.since + self._lease:
            self._history.two_led()
            return
        self._history.wrong(
            f"{who} decides in epoch {epoch} at {now:.3f} s, and {later.who} leads in epoch {later.epoch} since "
            f"{later.since:.3f} s"
        )

    def decided(self, client: Process, command: Command) -> None:
        """Note that a control plane has decided a command, which its client may resend if it was not answered."""
        key = (client, command.command_id)
        self._decisions[key] += 1
        most = 1 + SessionLimits().max_repeats if may_be_repeated(command) else 1
        if self._decisions[key] > most:
            verb = command.WhichOneof("verb")
            self._history.wrong(
                f"a {verb} of {client.name} is decided {self._decisions[key]} times, and may be {most} times"
            )

    def appended(self, who: str, epoch: int, end: int, records: Sequence[bytes]) -> None:
        """Note that a leader has learned that its records are durable."""
        self._acknowledged = max(self._acknowledged, end)
        self._see(f"{who} was told", end, records)
        for later in self._reigns.values():
            if later.epoch > epoch and end > later.position:
                self._history.wrong(
                    f"{who} has appended position {end} in epoch {epoch}, and epoch {later.epoch} began after "
                    f"{later.position}"
                )

    def lost(self, end: int) -> None:
        """Note that the journal continues after position `end`. No lost record may have been reported as durable."""
        if self._acknowledged > end:
            self._history.wrong(
                f"a failover of the database left {end} records; {self._acknowledged} had been acknowledged"
            )
        self._records = {at: each for at, each in self._records.items() if at <= end}

    def read(self, who: str, batch: JournalBatch) -> None:
        """Check the records that a reader has read."""
        self._see(f"{who} reads", batch.position, batch.records)

    def _see(self, who: str, end: int, records: Sequence[bytes]) -> None:
        for position, record in enumerate(records, end - len(records) + 1):
            if self._records.setdefault(position, record) != record:
                self._history.wrong(f"{who} another record at position {position} than was there")


#: A process that was paused for so many seconds has noticed, however slowly its time passes (ADR 25).
LONG_PAUSE: Final = 4.0


class HearingRuntime(Runtime):
    """A control plane that may not end a lease after a pause while its renewal is waiting to be read."""

    process: Process
    history: History

    def _apply(self, decision: Decision, *given: Any, **named: Any) -> None:
        ended = {each for record in decision.records for each in record.leases_ended.lease_ids}
        process = self.process
        was_paused = (
            process.went_on_at - process.paused_at > LONG_PAUSE
            and self.history.now() < process.went_on_at + 0.2
        )
        if ended and not given and was_paused:
            for lease_id in sorted(ended.intersection(chain(*process.renewed))):
                self.history.wrong(
                    f"{process.name} ends lease {lease_id}, whose renewal has arrived while it was paused"
                )
        super()._apply(decision, *given, **named)


class WatchedRuntime(HearingRuntime):
    """A control plane that reports every decision."""

    reigns: Reigns
    who: str

    def _leads(self) -> bool:
        leads = super()._leads()
        if leads:
            self.reigns.decides(self.who, self.epoch)
        return leads

    def _decide(self, session: RuntimeSession, command: Command) -> None:
        super()._decide(session, command)
        client = CLIENT.get(None)
        if client is not None:
            self.reigns.decided(client, command)


class WatchedJournal:
    """A shared journal that reports its operations to `reigns`. `is_impatient` makes it take over at once."""

    def __init__(
        self,
        journal: SharedJournal,
        reigns: Reigns,
        who: str,
        is_impatient: Callable[[], bool],
    ) -> None:
        self._journal = journal
        self._reigns = reigns
        self._who = who
        self._is_impatient = is_impatient
        self.lease = journal.lease
        self.snapshot_appends = journal.snapshot_appends

    @property
    def place(self) -> str:
        return self._journal.place

    async def check(self) -> None:
        await self._journal.check()

    async def open(self, cluster_id: str | None) -> OpenedJournal:
        is_forced = self._is_impatient()
        self._journal.lease = 0.0 if is_forced else self.lease
        opened = await self._journal.open(cluster_id)
        self._reigns.began(self._who, opened, is_forced=is_forced)
        return opened

    async def read(
        self, after_position: int, seal: Seal | None = None, /
    ) -> AsyncIterator[JournalBatch]:
        async for batch in self._journal.read(after_position, seal):
            self._reigns.read(self._who, batch)
            yield batch

    def append(
        self, records: Sequence[bytes], fencing_token: int, hot: Sequence[HotSegment] = ()
    ) -> asyncio.Future[int]:
        def note(appended: asyncio.Future[int]) -> None:
            if not appended.cancelled() and appended.exception() is None:
                self._reigns.appended(self._who, fencing_token, appended.result(), records)

        appended = self._journal.append(records, fencing_token, hot)
        appended.add_done_callback(note)
        return appended

    @property
    def hot(self) -> Mapping[HotKey, int]:
        return self._journal.hot

    async def read_hot(self, keys: Sequence[HotKey]) -> Mapping[HotKey, bytes]:
        return await self._journal.read_hot(keys)

    async def drop_hot(self, keys: Collection[HotKey]) -> None:
        await self._journal.drop_hot(keys)

    def renewer(self, fencing_token: int) -> Renewer:
        return self._journal.renewer(fencing_token)

    async def confirm(self, fencing_token: int) -> None:
        await self._journal.confirm(fencing_token)

    def abandon(self) -> None:
        self._journal.abandon()

    async def load_snapshot(self) -> Snapshot | None:
        return await self._journal.load_snapshot()

    async def store_snapshot(self, snapshot: Snapshot) -> None:
        await self._journal.store_snapshot(snapshot)

    async def trim(self) -> None:
        await self._journal.trim()

    async def close(self) -> None:
        await self._journal.close()

    def reader(self) -> JournalReader:
        return _WatchedReader(self._journal.reader(), self._reigns, self._who, self._is_impatient)


class _WatchedReader:
    """A reader that reports its reads to `reigns`."""

    def __init__(
        self,
        reader: JournalReader,
        reigns: Reigns,
        who: str,
        is_impatient: Callable[[], bool],
    ) -> None:
        self._reader = reader
        self._reigns = reigns
        self._who = who
        self._is_impatient = is_impatient

    async def load_snapshot(self) -> Snapshot | None:
        return await self._reader.load_snapshot()

    async def read(
        self, after_position: int, seal: Seal | None = None, /
    ) -> AsyncIterator[JournalBatch]:
        async for batch in self._reader.read(after_position, seal):
            self._reigns.read(self._who, batch)
            yield batch

    async def fit(self, position: int, seal: Seal, /) -> Fit:
        return await self._reader.fit(position, seal)

    async def leader(self) -> Leader | None:
        leader = await self._reader.leader()
        if leader is not None and self._is_impatient():
            return Leader(leader.epoch, leader.address, float("inf"))
        return leader

    async def close(self) -> None:
        await self._reader.close()
