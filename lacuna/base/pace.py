"""Decides whether short blocking work may run in the event loop itself, and collects bursts of arrivals.

Handing work to a thread and back costs 60 to 100 µs, about as long as a sync takes on a fast disk. With a fast disk,
the work therefore runs in the loop. With a slower disk, it does so only while the loop is mostly idle, because
everything else has to wait; with a very slow disk, it never does. Both the work and the load of the loop are measured.
"""

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")

_WINDOW_SECONDS = 0.02
_MAX_BUSY_SHARE = 0.6
_LONGEST_SECONDS = 0.001
_LONGEST_SECONDS_BUSY = 0.0004
_LONGEST_SECONDS_OF_A_TRY = 0.003
_TRY_AGAIN = 64
_LEARNING = 0.1
_OF_A_TRY = 0.5


class Pace(Protocol):
    """Decides whether one kind of work is fast enough to block the event loop."""

    def allows(self) -> bool:
        """Return whether the work may run in the event loop now. Call this in the loop's thread."""

    def timed(self, job: Callable[[], T]) -> T:
        """Run `job` in the calling thread, measure its time, and return its result."""


class LoopLoad:
    """Measures how busy the event loop's thread has been recently, as a share of a core. Use it from that thread."""

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
        """Whether the thread used at most 60% of a core, measured over windows of at least 20 ms."""
        elapsed = self._now() - self._since
        if elapsed >= _WINDOW_SECONDS:
            cpu = self._cpu()
            self._busy_share = (cpu - self._cpu_then) / elapsed
            self._since += elapsed
            self._cpu_then = cpu
        return self._busy_share <= _MAX_BUSY_SHARE


class MeasuredPace:
    """Measures how long one kind of work takes, and decides whether the event loop may do it.

    The decision depends on the average duration in the loop. In a thread, the work appears slower, because threads also
    wait for the interpreter's lock. Its duration there is used only to decide whether to try the loop: initially, and
    after every `_TRY_AGAIN` runs in threads. Each try has so much weight that a single slow sync is soon forgotten.
    """

    def __init__(
        self,
        load: LoopLoad,
        now: Callable[[], float] = time.perf_counter,
        thread: Callable[[], int] = threading.get_ident,
    ) -> None:
        self._load = load
        self._now = now
        self._thread = thread
        self._loop_thread = 0
        self._in_loop: float | None = None
        self._in_thread: float | None = None
        self._until_try = 0
        self._is_try = False

    def allows(self) -> bool:
        self._loop_thread = self._thread()
        seconds = self._in_loop
        if seconds is not None and seconds <= self._longest():
            return True
        if self._until_try:
            self._until_try -= 1
            return False
        if self._in_thread is None or self._in_thread > _LONGEST_SECONDS_OF_A_TRY:
            return False
        self._until_try = _TRY_AGAIN
        self._is_try = True
        return True

    def _longest(self) -> float:
        return _LONGEST_SECONDS if self._load.is_idle_mostly() else _LONGEST_SECONDS_BUSY

    def timed(self, job: Callable[[], T]) -> T:
        """Run `job` in the calling thread, and record its duration even if it fails."""
        started = self._now()
        try:
            return job()
        finally:
            self._learn(self._now() - started)

    def _learn(self, took: float) -> None:
        if self._thread() != self._loop_thread:
            self._in_thread = _averaged(self._in_thread, took, _LEARNING)
            return
        self._in_loop = _averaged(self._in_loop, took, _OF_A_TRY if self._is_try else _LEARNING)
        self._is_try = False


def _averaged(known: float | None, took: float, weight: float) -> float:
    return took if known is None else known + weight * (took - known)


class Burst:
    """Arrivals within at most `iterations` iterations of the event loop, to be handled together.

    Call `goes_on` once per iteration.
    """

    __slots__ = ("_left", "_seen")

    def __init__(self, iterations: int) -> None:
        self._left = iterations
        self._seen = 0

    def goes_on(self, count: int) -> bool:
        """Return whether to wait for another iteration, because `count`, the total so far, grew in the last one."""
        if count == self._seen or not self._left:
            return False
        self._seen = count
        self._left -= 1
        return True
