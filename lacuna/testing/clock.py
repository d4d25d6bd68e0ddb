"""A clock that a test can move forward."""

import asyncio
import time

from lacuna.controlplane.clock import SystemClock


class AdjustableClock:
    """A clock for agents and the control plane: the machine's time plus the sum of all `advance` calls.

    Any thread may call `now_ms`; the other methods are for the cluster's event loop.
    """

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._moved = asyncio.Event()

    def now_ms(self) -> int:
        """Return the milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def passed_ms(self) -> float:
        """Return the milliseconds that have passed since a fixed time."""
        return SystemClock().passed_ms() + self._ahead_ms

    async def sleep(self, duration_ms: int) -> None:
        """Sleeps until this clock has moved `duration_ms` forward, by itself or by `advance` and `wake`."""
        deadline = self.now_ms() + duration_ms
        while (remaining_ms := deadline - self.now_ms()) > 0:
            moved = self._moved
            try:
                async with asyncio.timeout(remaining_ms / 1000):
                    await moved.wait()
            except TimeoutError:
                continue

    def advance(self, duration_ms: int) -> None:
        """Moves the time forward without waking sleepers; `wake` does that. Raises ValueError if negative."""
        if duration_ms < 0:
            raise ValueError("time cannot go back")
        self._ahead_ms += duration_ms

    def wake(self) -> None:
        """Wakes the sleepers whose time has come since the last `advance`."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
