"""The machine's time, which a test can move forward."""

import asyncio
import time


class AdjustableClock:
    """Runs with the machine's clock, ahead of it by what `advance` was given; serves agents and control plane.

    `now_ms` may be asked from any thread; `sleep` and `advance` belong to the cluster's event loop.
    """

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._moved = asyncio.Event()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    async def sleep(self, duration_ms: int) -> None:
        """Returns when the time has come, by waiting or by `advance` and `wake`."""
        deadline = self.now_ms() + duration_ms
        while (remaining_ms := deadline - self.now_ms()) > 0:
            moved = self._moved
            try:
                async with asyncio.timeout(remaining_ms / 1000):
                    await moved.wait()
            except TimeoutError:
                continue

    def advance(self, duration_ms: int) -> None:
        """Moves the time forward; whoever is due sleeps on until `wake`."""
        if duration_ms < 0:
            raise ValueError("time does not go back")
        self._ahead_ms += duration_ms

    def wake(self) -> None:
        """Wakes whoever is due after `advance`."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
