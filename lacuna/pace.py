"""Decides whether short blocking work runs in the event loop itself.

Handing work to a thread and back costs two switches: 60 to 100 µs, on a machine where a disk sync takes as long. With
a fast disk it is therefore better to wait in the loop. With a slower one that would hold up everything else, so only
a mostly idle loop waits; with the slowest, none does. Both the work and the loop's load are measured.
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
    """Measures what share of a core the event loop's thread has used recently. Only for use in that thread."""

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
        """Whether the thread used at most 60 % of a core, measured over windows of at least 20 ms."""
        elapsed = self._now() - self._since
        if elapsed >= _WINDOW_SECONDS:
            cpu = self._cpu()
            self._busy_share = (cpu - self._cpu_then) / elapsed
            self._since += elapsed
            self._cpu_then = cpu
        return self._busy_share <= _MAX_BUSY_SHARE


class MeasuredPace:
    """Measures how long one kind of work takes, and decides whether the event loop may do it now."""

    def __init__(self, load: LoopLoad, now: Callable[[], float] = time.perf_counter) -> None:
        self._load = load
        self._now = now
        self._seconds: float | None = None

    def allows(self) -> bool:
        """Whether to do the work in the event loop now; call it in the loop's thread."""
        seconds = self._seconds
        if seconds is None or seconds > _LONGEST_SECONDS:
            return False
        return seconds <= _LONGEST_SECONDS_BUSY or self._load.is_idle_mostly()

    def timed(self, job: Callable[[], T]) -> T:
        """Does the work, in any thread, and records how long it took. Raises whatever `job` raises."""
        started = self._now()
        result = job()
        took = self._now() - started
        known = self._seconds
        self._seconds = took if known is None else known + _LEARNING * (took - known)
        return result
