"""Holds a shared journal that no control plane is to lead meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal.journal import JournalError, JournalInUse, JournalReader

_LOOK_MS: Final = 100
_RENEWALS: Final = 4


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
async def renewing(
    renew: Callable[[], Awaitable[None]], lease: float, clock: Clock
) -> AsyncIterator[None]:
    """Run the body, and meanwhile call `renew` as a leader does.

    If that fails, another one may lead. The body has to find that out when it matters.
    """
    task = asyncio.create_task(_renew_forever(renew, lease, clock))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _renew_forever(renew: Callable[[], Awaitable[None]], lease: float, clock: Clock) -> None:
    with suppress(JournalError):
        while True:
            await clock.sleep(int(lease * 1000 / _RENEWALS))
            await renew()
