"""Measures how long a shared journal's leader has been silent, as observed by one process.

The clocks of other machines are not used: neither the leader's, nor the database's, which can be set and can change in
a failover. Only the time that passes in this process between two observations of the journal matters.
"""

from collections.abc import Hashable

from lacuna.controlplane.clock import Clock, SystemClock


class LeaderWatch:
    """The last change observed in the leader's renewals, and its time."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._seen: Hashable = None
        self._since_ms = 0.0
        #: The seconds for which the leader is known to have been silent, as of the last observation.
        self.silent = 0.0

    def now_ms(self) -> float:
        """Return the current time, to pass to `see` later."""
        return self._clock.passed_ms()

    def see(self, mark: Hashable, asked_ms: float) -> None:
        """Record `mark`, which changes with each renewal, as the answer to a query sent at `asked_ms`."""
        if mark != self._seen:
            # A new mark may have been written at any time up to now.
            self._seen, self._since_ms = mark, self._clock.passed_ms()
        self.silent = max(0.0, asked_ms - self._since_ms) / 1000
