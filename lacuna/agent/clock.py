"""The clock that is passed to an agent, so that tests and simulations can control the time.

Durations (idle connections, leases, the waiting of a fetch) are measured by the event loop's time, which can be
controlled as well.
"""

import time
from typing import Protocol


class WallClock(Protocol):
    """A source of wall time, for times that are stored or shown."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...


class SystemWallClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000
