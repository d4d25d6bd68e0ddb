"""The clock that is passed to an agent, so that tests and simulations can control the time.

Durations, such as idle times, leases and the waits of fetches, are measured in the event loop's time, which tests can
control as well.
"""

import time
from typing import Protocol


class WallClock(Protocol):
    """A source of wall-clock time, which is used for times that are stored or shown."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...


class SystemWallClock:
    """The system clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000
