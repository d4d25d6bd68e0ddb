"""Limits the time that the runtime works in one iteration of the event loop, and measures its steps."""

import asyncio
import logging
import time
from typing import Final

from lacuna.controlplane.clock import Clock

_log = logging.getLogger("lacuna.controlplane")

#: How long one iteration of the event loop may spend on deciding commands and showing partitions to sessions. The rest
#: is left for the next iteration, so that connections are read in between.
_SLICE_MS: Final = 50
#: A step that takes this long is logged. The shortest lease is three times as long.
_LONG_STEP_MS: Final = 500


class Steps:
    """The steps of one runtime: decisions for a command or a tick. Use it only in the runtime's event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slice_began_ms: float | None = None
        #: The duration of the longest step so far.
        self.longest_ms = 0.0
        #: The event loop thread's CPU time in seconds, as of the last tick.
        self._cpu_ticked = 0.0

    def has_time(self) -> bool:
        """Whether there is time for more decisions in this iteration of the event loop."""
        now_ms = self._clock.passed_ms()
        if self._slice_began_ms is None:
            self._slice_began_ms = now_ms
            asyncio.get_running_loop().call_soon(self._end_slice)
        return now_ms - self._slice_began_ms < _SLICE_MS

    def _end_slice(self) -> None:
        self._slice_began_ms = None

    def note(self, began_ms: float, what: str) -> None:
        """Record the duration of a step, and log it if the step held up other work."""
        took_ms = self._clock.passed_ms() - began_ms
        self.longest_ms = max(self.longest_ms, took_ms)
        if took_ms > _LONG_STEP_MS:
            # Measured since the last tick, a fraction of a second ago, so that no command has to read the CPU time.
            cpu_ms = (time.thread_time() - self._cpu_ticked) * 1000
            _log.warning(
                "%s took %d ms, during which nothing else was decided; %s",
                what,
                took_ms,
                "please report it"
                if cpu_ms > took_ms / 2
                else f"it used at most {cpu_ms:.0f} ms of CPU time, so this machine has too little CPU or memory",
            )

    def ticked(self) -> None:
        """Note the CPU time at a tick."""
        self._cpu_ticked = time.thread_time()
