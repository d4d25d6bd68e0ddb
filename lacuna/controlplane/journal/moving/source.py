"""A journal that is being copied, or whose time is being set. This process holds it, so that no control plane can open
it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from lacuna.controlplane import machine
from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal.hot_segments import in_portions
from lacuna.controlplane.journal.journal import (
    HotSegment,
    Journal,
    JournalError,
    JournalTrimmed,
    OpenedJournal,
    SharedJournal,
    Snapshot,
)
from lacuna.controlplane.journal.moving.holding import renewing, wait_for_silence
from lacuna.controlplane.journal.replica import Replica

_HOT_BYTES: Final = 4 << 20
_HOT_KEYS: Final = 1024


class Source:
    """A journal locked by this process, and its contents when it was opened."""

    def __init__(self, opened: OpenedJournal, replica: Replica, journal: Journal) -> None:
        self.opened = opened
        self.clock_ms = replica.state.clock_ms
        self._replica = replica
        self._journal = journal

    async def add(self, records: Sequence[bytes]) -> None:
        """Append records. Raises JournalError."""
        await self._journal.append(records, self.opened.fencing_token)

    def take_snapshot(self) -> Snapshot:
        """Return everything as a snapshot. Call this only once, since it drops the state, which may be large."""
        replica, self._replica = self._replica, Replica()
        return Snapshot(replica.position, tuple(machine.snapshot_parts(replica.state)))

    async def hot(self) -> AsyncIterator[list[HotSegment]]:
        """Yield the hot segments, a few MiB at a time. Raises JournalError."""
        sizes = dict(self._journal.hot)
        for keys in in_portions(sizes, sizes, _HOT_BYTES, _HOT_KEYS):
            found = await self._journal.read_hot(keys)
            yield [HotSegment(key, data) for key, data in found.items()]

    async def confirm(self) -> None:
        """Raise JournalFenced if this process no longer holds the journal, which may then have changed."""


class LeasedSource(Source):
    """A journal that others may take over if its lease is not renewed."""

    def __init__(self, opened: OpenedJournal, replica: Replica, journal: SharedJournal) -> None:
        super().__init__(opened, replica, journal)
        self._shared = journal

    async def confirm(self) -> None:
        """Make sure that no other process has taken over. Raises JournalError."""
        await self._shared.confirm(self.opened.fencing_token)


@asynccontextmanager
async def locked_source(journal: Journal) -> AsyncIterator[Source]:
    """Run the body with `journal` open, which only one process at a time can open. Raises JournalError."""
    opened = await journal.open(None)
    try:
        if not opened.position:
            raise _nothing()
        yield Source(opened, await _replayed(journal, Replica(), opened), journal)
    finally:
        await journal.close()


@asynccontextmanager
async def leased_source(journal: SharedJournal, clock: Clock) -> AsyncIterator[Source]:
    """Run the body while this process is the leader of `journal`.

    Raises JournalInUse as soon as the current leader renews its lease, and other JournalErrors.
    """
    replica = await _followed(journal, clock)
    opened = await journal.open(None)
    try:
        async with renewing(journal.renewer(opened.fencing_token), journal.lease, clock):
            yield LeasedSource(opened, await _replayed(journal, replica, opened), journal)
    finally:
        await journal.close()


async def _followed(journal: SharedJournal, clock: Clock) -> Replica:
    """Replay a journal before becoming its leader, since restoring a large state takes longer than a lease."""
    replica = Replica()
    reader = journal.reader()
    try:
        await wait_for_silence(reader, journal.lease, clock)
        await replica.catch_up(reader)
    except JournalTrimmed as error:
        raise JournalError(
            f"{error}. If its snapshots are in a bucket, specify the bucket with --store"
        ) from error
    finally:
        await reader.close()
    if not replica.position:
        raise _nothing()
    return replica


def _nothing() -> JournalError:
    return JournalError("there is no journal at this place, so nothing was changed")


async def _replayed(journal: Journal, replica: Replica, opened: OpenedJournal) -> Replica:
    await replica.catch_up(journal)
    replica.check(opened)
    return replica
