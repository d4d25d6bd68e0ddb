"""Holds a shared journal so that no control plane can take it over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal.journal import JournalInUse, JournalReader, Renewer
from lacuna.controlplane.journal.renewing import beside_the_loop, renew_forever
from lacuna.controlplane.tenure import LeasedTenure

_LOOK_MS: Final = 100


async def wait_for_silence(reader: JournalReader, lease: float, clock: Clock) -> None:
    """Wait until there is no leader, or it has been silent for `lease` seconds. Raises JournalInUse if it is active."""
    silent = -1.0
    while True:
        leader = await reader.leader()
        if leader is None or leader.silent >= lease:
            return
        # If the leader is inactive, its silence grows from one look to the next.
        if leader.silent <= silent:
            who = f"the control plane at {leader.address}" if leader.address else "another command"
            raise JournalInUse(
                f"{who} is using this journal: stop it and all other control planes first"
            )
        silent = leader.silent
        await clock.sleep(_LOOK_MS)


@asynccontextmanager
async def renewing(renewer: Renewer, lease: float, clock: Clock) -> AsyncIterator[None]:
    """Run the body while renewing the lease as a leader does.

    If a renewal fails, another writer may have taken over, and the body must check for this where it matters.
    """
    work = partial(renew_forever, renewer, LeasedTenure(clock, lease), clock, lease)
    async with beside_the_loop(work, clock, lease):
        yield
