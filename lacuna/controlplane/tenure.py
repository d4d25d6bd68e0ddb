"""Determines how long a leader may answer: as long as it is certain that no other control plane has taken over."""

from typing import Final

from lacuna.controlplane.clock import Clock

#: The part of a lease that a leader does not use, since its clock and the journal's may run at different speeds.
_MARGIN: Final = 1 / 6


class LeasedTenure:
    """The tenure of a leader with a lease of `lease` seconds, measured by a clock that continues while the process is
    stopped.
    """

    def __init__(self, clock: Clock, lease: float) -> None:
        self._clock = clock
        self._usable_ms = lease * 1000 * (1 - _MARGIN)
        self._renewed_ms = -float("inf")
        self._has_ended = False

    def end(self) -> None:
        """End the tenure, regardless of renewals. This and `renewed` may be called from another thread."""
        self._has_ended = True

    def renewed(self, asked_ms: float) -> None:
        """Record a successful renewal that was requested at `asked_ms` (`Clock.passed_ms`)."""
        self._renewed_ms = max(self._renewed_ms, asked_ms)

    def holds(self) -> bool:
        """Whether the last renewal was requested less than a lease ago, minus a margin, and none has failed."""
        is_renewed = self._clock.passed_ms() - self._renewed_ms < self._usable_ms
        return is_renewed and not self._has_ended
