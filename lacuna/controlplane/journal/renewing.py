"""Renews a leader's lease outside the leader's own event loop (adr/0065), so that a slow step does not end the lease.

If that loop makes no progress for half a minute, the lease is given up, so that a standby can take over.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias

from lacuna.controlplane.clock import Clock
from lacuna.controlplane.journal.journal import JournalError, Renewer
from lacuna.controlplane.tenure import LeasedTenure

_log = logging.getLogger("lacuna.controlplane")

#: How many renewals are attempted during a lease.
_RENEWALS: Final = 4
#: How long the leader's event loop may go without progress. By then, Kafka clients have given up on their requests
#: (`request.timeout.ms`), and a new leader can still take over well before agents lose their leases, which takes two
#: minutes.
_LONGEST_STALL_MS: Final = 30_000
#: For a long lease, the limit is instead this many leases.
_LONGEST_STALL_LEASES: Final = 3


class LoopWatch:
    """Checks, from another thread, whether the event loop in which it was created is making progress."""

    def __init__(self, clock: Clock, lease: float) -> None:
        self._clock = clock
        self._longest_ms = max(_LONGEST_STALL_MS, 1000 * lease * _LONGEST_STALL_LEASES)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        #: The time of the request that the loop has not answered yet.
        self._asked_ms: float | None = None

    def check(self) -> None:
        """Ask the loop for an answer, unless one is already pending. Raises JournalError if the loop has not answered
        for too long.
        """
        now_ms, asked_ms = self._clock.passed_ms(), self._asked_ms
        if asked_ms is None:
            self._asked_ms = now_ms
            self._loop.call_soon_threadsafe(self._answer)
        elif now_ms - asked_ms >= self._longest_ms:
            seconds = (now_ms - asked_ms) / 1000
            _log.error(
                "this control plane has made no progress for %.0f s, so it gives up its lease. Please report where "
                "it is stuck:\n%s",
                seconds,
                "".join(traceback.format_stack(sys._current_frames().get(self._thread))),
            )
            raise JournalError(
                f"this control plane made no progress for {seconds:.0f} s, so another one may now be the leader"
            )

    def _answer(self) -> None:
        self._asked_ms = None


Check: TypeAlias = Callable[[], None]
"""Raises JournalError if the leader's event loop must be abandoned."""


Work: TypeAlias = Callable[[Check], Coroutine[Any, Any, None]]
Beside: TypeAlias = Callable[
    [Work, Clock, float], AbstractAsyncContextManager["asyncio.Future[None]"]
]
"""Runs work outside the leader's event loop while the body runs. The body receives a future that ends with the work."""


@asynccontextmanager
async def beside_the_loop(
    work: Work, clock: Clock, lease: float, /
) -> AsyncIterator["asyncio.Future[None]"]:
    """Run `work` in the event loop of a separate thread, which ends with the body."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="lease", daemon=True)
    thread.start()
    try:
        yield _run_in(loop, work(LoopWatch(clock, lease).check))
    finally:
        try:
            await _run_in(loop, _end_others())
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _run_in(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]
) -> "asyncio.Future[None]":
    return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def renew_forever(
    renewer: Renewer, tenure: LeasedTenure, clock: Clock, lease: float, check: Check
) -> None:
    """Renew a lease of `lease` seconds until a renewal or `check` fails, then end `tenure`. Raises JournalError."""
    try:
        while True:
            await clock.sleep(int(lease * 1000 / _RENEWALS))
            check()
            asked_ms = clock.passed_ms()
            await renewer.renew()
            tenure.renewed(asked_ms)
    except Exception:
        # This happens immediately, since the leader's event loop could otherwise make a decision before it learns of
        # the failure.
        tenure.end()
        raise
    finally:
        await renewer.close()
