"""The clock that the control plane is given, and the time that it makes of it."""

import asyncio
import logging
import time
from typing import Final, Protocol

_log = logging.getLogger("lacuna.controlplane")

#: How far a clock may be ahead before it is believed at once: then it was wrong before, as after a boot without NTP.
_FAR_MS: Final = 3_600_000
#: How much of an outage leases and transactions may be given back.
_OUTAGE_MS: Final = 120_000
_TOLD_MS: Final = 1_000

# On Linux the monotonic clock stands still while the machine is suspended.
_SINCE_START: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """A source of the time in milliseconds since 1970, and a way to wait on the same clock."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970; it can jump forwards and backwards."""
        ...

    def passed_ms(self) -> float:
        """Return how many milliseconds have passed since a fixed time; nobody can set this clock."""
        ...

    async def sleep(self, duration_ms: int) -> None:
        """Wait until `duration_ms` have passed on this clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the system time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def passed_ms(self) -> float:
        """Return the milliseconds since the machine was started, with those that it was suspended."""
        return time.clock_gettime_ns(_SINCE_START) / 1_000_000

    async def sleep(self, duration_ms: int) -> None:
        """Wait for `duration_ms` without blocking the event loop."""
        await asyncio.sleep(duration_ms / 1000)


class SteadyTime:
    """The time of a clock without its jumps: it passes at half to twice the real pace until both agree again.

    Leases, transactions, pins and the grace of collection end at a time that is in the journal. They would all end at
    once if the time jumped forwards, and none if it stood still after a jump backwards. While no control plane runs,
    the time stands still for a while, since nobody can renew a lease or end a transaction.
    """

    def __init__(self, clock: Clock, last_ms: int) -> None:
        """`last_ms` is the last time in the journal, with which the time begins; 0 if there is none."""
        self._clock = clock
        self._passed_ms = clock.passed_ms()
        now_ms = clock.now_ms()
        # Nobody knows how long no control plane ran: the last record may be old because there was nothing to decide.
        is_near = 0 < last_ms <= now_ms <= last_ms + _FAR_MS
        self._now_ms = float(max(last_ms, now_ms - _OUTAGE_MS * is_near))
        self._is_apart = abs(now_ms - self._now_ms) > _TOLD_MS

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970, which never goes back."""
        passed_ms = self._clock.passed_ms()
        duration_ms = passed_ms - self._passed_ms
        self._passed_ms = passed_ms
        behind_ms = self._clock.now_ms() - self._now_ms
        if behind_ms > _FAR_MS:
            self._now_ms += behind_ms
        else:
            self._now_ms += min(max(behind_ms, duration_ms / 2), duration_ms * 2)
        self._tell(behind_ms - duration_ms)
        return int(self._now_ms)

    def _tell(self, behind_ms: float) -> None:
        is_apart = abs(behind_ms) > _TOLD_MS
        if is_apart and not self._is_apart:
            way = "forwards" if behind_ms > 0 else "backwards"
            what = (
                "which is believed at once, since it is more than an hour"
                if behind_ms > _FAR_MS
                else f"which the control plane's time follows at {'twice' if behind_ms > 0 else 'half'} the pace"
            )
            _log.warning(
                "the machine's clock was set %s by %.0f s, %s", way, abs(behind_ms) / 1000, what
            )
        self._is_apart = is_apart and behind_ms <= _FAR_MS
