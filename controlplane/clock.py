"""The clock that the control plane is given."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """A source of the time in milliseconds since 1970, and a way to wait on the same clock."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970; it can jump forwards and backwards."""
        ...

    async def sleep(self, duration_ms: int) -> None:
        """Wait until `duration_ms` have passed on this clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the system time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    async def sleep(self, duration_ms: int) -> None:
        """Wait for `duration_ms` without blocking the event loop."""
        await asyncio.sleep(duration_ms / 1000)
