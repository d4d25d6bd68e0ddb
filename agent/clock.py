"""Time as an agent is given it, so that a test can hold the clock and a simulation can own it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored or shown, monotonic time for how long something took."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from any fixed moment, never going back."""
        ...


class SystemClock:
    """The machine's own clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds from any fixed moment, never going back."""
        return time.monotonic()
