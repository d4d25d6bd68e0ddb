"""How long the leader of a shared journal has been silent, as one process saw it.

No clock of another machine has a part in it: not the leader's, and not the database's, which can be set or be another
one after a failover.
"""

import time
from collections.abc import Callable, Hashable

#: Goes on while the machine is suspended.
_SINCE_START = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_start() -> float:
    """Return the seconds since the machine was started."""
    return time.clock_gettime(_SINCE_START)


class LeaderWatch:
    """What was last seen of the leader, and since when. `clock` returns seconds of a clock that nobody can set."""

    def __init__(self, clock: Callable[[], float] = seconds_since_start) -> None:
        self._clock = clock
        self._seen: Hashable = None
        self._since = 0.0

    def see(self, mark: Hashable, asked: float) -> float:
        """Note `mark`, which each renewal changes, and return for how many seconds it has certainly been the same.

        `asked` is when it was asked for, by the same clock.
        """
        if mark != self._seen:
            # What is new may have been written at any time up to now.
            self._seen, self._since = mark, self._clock()
        return max(0.0, asked - self._since)

    def now(self) -> float:
        """Return the time of the clock."""
        return self._clock()
