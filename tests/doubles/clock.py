"""Clocks that a test controls, and functions that wait for the event loop alone."""

import asyncio
import threading
from collections.abc import Callable
from math import inf


class ManualClock:
    """Stands still until `advance`, which immediately wakes every sleeper that is due."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._passed_ms = 0
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []
        #: How long each look at what has passed takes.
        self.pace_ms = 0

    def now_ms(self) -> int:
        """Return the time that was set."""
        return self._now_ms

    def passed_ms(self) -> float:
        """Return the total time by which the clock was advanced."""
        self._passed_ms += self.pace_ms
        return self._passed_ms

    @property
    def sleepers(self) -> list[int]:
        """Return the due times of the sleepers, in order."""
        return sorted(wake_ms for wake_ms, _ in self._sleepers)

    def set(self, by_ms: int) -> None:
        """Set the time as an operator might, possibly backwards. No time passes."""
        self._now_ms += by_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass, and wake the sleepers that are due."""
        self._now_ms += duration_ms
        self._passed_ms += duration_ms
        due = [future for wake_ms, future in self._sleepers if wake_ms <= self._now_ms]
        self._sleepers = [item for item in self._sleepers if item[0] > self._now_ms]
        for future in due:
            if not future.done():
                future.set_result(None)

    def wake_first(self) -> None:
        """Let time pass until the first sleeper is due."""
        self.advance(self.sleepers[0] - self._now_ms)

    async def sleep(self, duration_ms: int) -> None:
        """Wait for `advance`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now_ms + duration_ms, future))
        await future


class LeaseClock:
    """Advances when threads sleep, but not while a lease is being renewed, so that a slow machine never loses a lease.

    Several threads share the clock. A sleep takes `moment` seconds, or longer if a renewal (`renewing.beside_the_loop`)
    is due earlier. No sleep ends after `end_ms`.
    """

    def __init__(self, moment: float = 0.002) -> None:
        self._moment = moment
        self._passed_ms = 0.0
        self._lock = threading.Lock()
        #: When each sleep is due, and in which thread it is.
        self._due: dict[object, tuple[float, threading.Thread]] = {}
        self.end_ms = inf

    def now_ms(self) -> int:
        """Return the time of a clock that cannot be set."""
        return 1_700_000_000_000 + int(self._passed_ms)

    def passed_ms(self) -> float:
        """Return the total time slept."""
        return self._passed_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass, regardless of what is due."""
        with self._lock:
            self._passed_ms += duration_ms

    async def sleep(self, duration_ms: int) -> None:
        """Wait until this much time has passed."""
        sleep = object()
        with self._lock:
            self._due[sleep] = self._passed_ms + duration_ms, threading.current_thread()
        try:
            await asyncio.sleep(self._moment)
            while not self._ends(sleep):
                await asyncio.sleep(0.002)
        finally:
            with self._lock:
                del self._due[sleep]

    def _ends(self, sleep: object) -> bool:
        """Return whether a sleep is over. Time advances to its end if all renewing threads sleep at least as long."""
        renewing = {each for each in threading.enumerate() if each.name == "lease"}
        with self._lock:
            due_ms, _ = self._due[sleep]
            renewals = {thread: due for due, thread in self._due.values() if thread in renewing}
            if renewals.keys() == renewing and due_ms <= min([*renewals.values(), self.end_ms]):
                self._passed_ms = max(self._passed_ms, due_ms)
            return due_ms <= self._passed_ms


async def iterations(count: int = 20) -> None:
    """Let new tasks start, and run everything that is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(is_so: Callable[[], object], pause: float = 0) -> None:
    """Wait until `is_so` returns a true value. Check it again after each pause (in seconds)."""
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(pause)
