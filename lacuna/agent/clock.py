"""The clock that is passed to an agent, so that tests and simulations can control the time.

Durations, such as idle times, leases and the waits of fetches, are measured in the event loop's time, which tests can
also control.
"""

import time
from typing import Protocol


class WallClock(Protocol):
    """A source of wall-clock time, which is used for times that are stored or shown."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, UTC."""
        ...


class SystemWallClock:
    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
