"""A journal that is copied. This process leads it meanwhile, so that no control plane can begin to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from lacuna.controlplane import machine
from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal.journal import (
    Journal,
    JournalError,
    JournalInUse,
    JournalReader,
    JournalTrimmed,
    OpenedJournal,
    SharedJournal,
    Snapshot,
)
from lacuna.controlplane.journal.replica import Replica

_LOOK_MS: Final = 100
_RENEWALS: Final = 4


class Source:
    """A journal that a lock keeps others out of, and what it held when it was opened."""

    def __init__(self, opened: OpenedJournal, replica: Replica) -> None:
        self.opened = opened
        self._replica = replica

    def take_snapshot(self) -> Snapshot:
        """Return everything as a snapshot, once: the state, which may be large, is dropped."""
        replica, self._replica = self._replica, Replica()
        return Snapshot(replica.position, machine.snapshot(replica.state))

    async def confirm(self) -> None:
        """Raise JournalFenced unless it is still led, and so has not changed."""


class LeasedSource(Source):
    """A journal that others may take over if it is not renewed."""

    def __init__(self, opened: OpenedJournal, replica: Replica, journal: SharedJournal) -> None:
        super().__init__(opened, replica)
        self._journal = journal

    async def confirm(self) -> None:
        """Renew it, which fails if another one has taken over."""
        await self._journal.renew(self.opened.fencing_token)


@asynccontextmanager
async def locked_source(journal: Journal) -> AsyncIterator[Source]:
    """Run the body while `journal`, which one process at a time can open, is open. Raises JournalError."""
    opened = await journal.open(None)
    try:
        if not opened.position:
            raise _nothing()
        yield Source(opened, await _replayed(journal, Replica(), opened))
    finally:
        await journal.close()


@asynccontextmanager
async def leased_source(journal: SharedJournal, clock: Clock) -> AsyncIterator[Source]:
    """Run the body while this process leads `journal`.

    Raises JournalInUse as soon as the leader is heard of, and other JournalErrors.
    """
    replica = await _followed(journal, clock)
    opened = await journal.open(None)
    renewing = asyncio.create_task(_renew(journal, opened.fencing_token, clock))
    try:
        yield LeasedSource(opened, await _replayed(journal, replica, opened), journal)
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await journal.close()


async def _followed(journal: SharedJournal, clock: Clock) -> Replica:
    """Replay a journal before it is led, since to restore a large state takes longer than a lease."""
    replica = Replica()
    reader = journal.reader()
    try:
        await wait_for_silence(reader, journal.lease, clock)
        await replica.catch_up(reader)
    except JournalTrimmed as error:
        raise JournalError(f"{error}. If its snapshots are in a bucket, name that") from error
    finally:
        await reader.close()
    if not replica.position:
        raise _nothing()
    return replica


def _nothing() -> JournalError:
    return JournalError("there is no journal to copy: nothing was changed")


async def _replayed(journal: Journal, replica: Replica, opened: OpenedJournal) -> Replica:
    await replica.catch_up(journal)
    replica.check_ends_at(opened.position)
    return replica


async def _renew(journal: SharedJournal, fencing_token: int, clock: Clock) -> None:
    """Renew as a leader does. If that fails, `confirm` does too."""
    with suppress(JournalError):
        while True:
            await clock.sleep(int(journal.lease * 1000 / _RENEWALS))
            await journal.renew(fencing_token)


async def wait_for_silence(reader: JournalReader, lease: float, clock: Clock) -> None:
    """Wait until nobody leads, or the leader has been silent for `lease` seconds. Raises JournalInUse if it is not."""
    silent = -1.0
    while True:
        leader = await reader.leader()
        if leader is None or leader.silent >= lease:
            return
        # Of a leader that says nothing it grows with each look.
        if leader.silent <= silent:
            who = f"the control plane at {leader.address}" if leader.address else "a copy"
            raise JournalInUse(
                f"{who} is at work on this journal: stop it and all other control planes first"
            )
        silent = leader.silent
        await clock.sleep(_LOOK_MS)
