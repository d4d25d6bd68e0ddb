"""Holds a shared journal that no control plane is to lead meanwhile."""

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
    """Wait until nobody leads, or the leader has been silent for `lease` seconds. Raises JournalInUse if it is not."""
    silent = -1.0
    while True:
        leader = await reader.leader()
        if leader is None or leader.silent >= lease:
            return
        # Of a leader that says nothing it grows with each look.
        if leader.silent <= silent:
            who = f"the control plane at {leader.address}" if leader.address else "another command"
            raise JournalInUse(
                f"{who} is at work on this journal: stop it and all other control planes first"
            )
        silent = leader.silent
        await clock.sleep(_LOOK_MS)


@asynccontextmanager
async def renewing(renewer: Renewer, lease: float, clock: Clock) -> AsyncIterator[None]:
    """Run the body, and renew meanwhile as a leader does.

    If that fails, another one may lead. The body has to find that out when it matters.
    """
    work = partial(renew_forever, renewer, LeasedTenure(clock, lease), clock, lease)
    async with beside_the_loop(work, clock, lease):
        yield
