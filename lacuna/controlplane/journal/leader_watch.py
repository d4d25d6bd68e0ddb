"""How long the leader of a shared journal has been silent, as one process saw it.

No clock of another machine has a part in it: not the leader's, and not the database's, which can be set or be another
one after a failover. What counts is how much time has passed here between two looks.
"""

from collections.abc import Hashable

from lacuna.controlplane.clock import Clock, SystemClock


class LeaderWatch:
    """What was last seen of the leader, and since when."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._seen: Hashable = None
        self._since_ms = 0.0
        #: Seconds for which it certainly was the same, as of the last look.
        self.silent = 0.0

    def now_ms(self) -> float:
        """Return the time of a look, for `see`."""
        return self._clock.passed_ms()

    def see(self, mark: Hashable, asked_ms: float) -> None:
        """Note `mark`, which each renewal changes, as the answer to a question that was asked at `asked_ms`."""
        if mark != self._seen:
            # What is new may have been written at any time up to now.
            self._seen, self._since_ms = mark, self._clock.passed_ms()
        self.silent = max(0.0, asked_ms - self._since_ms) / 1000
