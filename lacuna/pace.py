"""Whether short blocking work is done in the event loop itself.

Handing work to a thread and back costs two switches, 60 to 100 µs on a machine where a sync of the disk takes as
long, so it is better to wait for a quick disk here. A slow one would make all others wait: then only a loop
that is mostly idle does so, and for the slowest not even that. Both are measured.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_WINDOW_SECONDS = 0.02
_MAX_BUSY_SHARE = 0.6
_LONGEST_SECONDS = 0.001
_LONGEST_SECONDS_BUSY = 0.0004
_LEARNING = 0.1


class LoopLoad:
    """The share of a core that the event loop's thread used of late. Ask in that thread only."""

    def __init__(
        self,
        now: Callable[[], float] = time.perf_counter,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._now = now
        self._cpu = cpu
        self._since = now()
        self._cpu_then = cpu()
        self._busy_share = 1.0

    def is_idle_mostly(self) -> bool:
        """Measured over windows of 20 ms and more."""
        elapsed = self._now() - self._since
        if elapsed >= _WINDOW_SECONDS:
            cpu = self._cpu()
            self._busy_share = (cpu - self._cpu_then) / elapsed
            self._since += elapsed
            self._cpu_then = cpu
        return self._busy_share <= _MAX_BUSY_SHARE


class Pace:
    """One kind of work: how long it takes, and whether the loop may do it now."""

    def __init__(self, load: LoopLoad, now: Callable[[], float] = time.perf_counter) -> None:
        self._load = load
        self._now = now
        self._seconds: float | None = None

    def allows(self) -> bool:
        """Whether to do it in the event loop; asked there."""
        seconds = self._seconds
        if seconds is None or seconds > _LONGEST_SECONDS:
            return False
        return seconds <= _LONGEST_SECONDS_BUSY or self._load.is_idle_mostly()

    def timed(self, job: Callable[[], T]) -> T:
        """Do it, in whichever thread, and learn how long that takes. Raises what it raises."""
        started = self._now()
        result = job()
        took = self._now() - started
        known = self._seconds
        self._seconds = took if known is None else known + _LEARNING * (took - known)
        return result
