"""A clock that a test can move forward."""

import asyncio
import time

from lacuna.controlplane.clock import SystemClock


class AdjustableClock:
    """A clock for agents and the control plane: the machine's time plus the sum of all `advance` calls.

    `now_ms` may be called from any thread; the other methods may be called only from the cluster's event loop.
    """

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._moved = asyncio.Event()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def passed_ms(self) -> float:
        """Return the number of milliseconds since some fixed time."""
        return SystemClock().passed_ms() + self._ahead_ms

    async def sleep(self, duration_ms: int) -> None:
        """Sleep until `duration_ms` have passed on this clock, in real time or because of `advance` and `wake`."""
        deadline = self.now_ms() + duration_ms
        while (remaining_ms := deadline - self.now_ms()) > 0:
            moved = self._moved
            try:
                async with asyncio.timeout(remaining_ms / 1000):
                    await moved.wait()
            except TimeoutError:
                continue

    def advance(self, duration_ms: int) -> None:
        """Move the time forward without waking sleepers, which `wake` does. Raises ValueError if `duration_ms` is
        negative.
        """
        if duration_ms < 0:
            raise ValueError("time cannot go back")
        self._ahead_ms += duration_ms

    def wake(self) -> None:
        """Wake the sleepers that are due since the last `advance`."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
