"""Time as an agent is given it, so that a test can hold the clock and a simulation can own it.
 Durations (idle connections, leases, waits of a fetch) are the event loop's, which can be owned as
well.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time, for what is stored or shown."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000
