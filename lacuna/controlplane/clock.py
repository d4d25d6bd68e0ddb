"""The control plane's source of time, and the steady time derived from it."""

import asyncio
import logging
import time
from math import inf
from typing import Final, Protocol

_log = logging.getLogger("lacuna.controlplane")

#: If the time differs from the clocks by more than this, it is in doubt.
_FAR_MS: Final = 3_600_000
#: How long clocks must be far ahead before they are believed, unless there was an outage, and for how long nothing is
#: deleted based on age afterwards.
_STANDS_MS: Final = 60_000
_SETTLES_MS: Final = 600_000
#: How long a clock is considered after its last report, how often all clocks are compared, and how many are remembered.
_REMEMBERED_MS: Final = 60_000
_JUDGED_MS: Final = 1_000
_MOST_WITNESSES: Final = 1_000
#: The one witness that is not an agent: the date in the object store's responses.
STORE: Final = "store"
#: The longest part of an outage by which leases and transactions are extended.
_OUTAGE_MS: Final = 120_000
_TOLD_MS: Final = 1_000

# On Linux, the monotonic clock stops while the machine is suspended.
_SINCE_START: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """A source of the time in milliseconds since 1970, and a way to wait on the same clock."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970. It can jump forward or backward."""
        ...

    def passed_ms(self) -> float:
        """Return the milliseconds since a fixed but arbitrary time, on a clock that cannot be set."""
        ...

    async def sleep(self, duration_ms: int) -> None:
        """Wait until `duration_ms` have passed on this clock."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def passed_ms(self) -> float:
        """Return the milliseconds since the machine started, including time in suspension."""
        return time.clock_gettime_ns(_SINCE_START) / 1_000_000

    async def sleep(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)


class SteadyTime:
    """A clock's time, with its jumps smoothed out. After a jump, it runs at half to twice the real pace until it agrees
    with the clock.

    Leases, transactions, pins and the grace period of collection end at times stored in the journal. If the time jumped
    forward, they would all end immediately; if it stood still after a jump backward, none would end. After an outage of
    all control planes, the time resumes slightly behind the clock, since no lease could be renewed and no transaction
    could end during the outage.

    Times in the journal cannot be undone. A clock that is more than an hour ahead is therefore believed only when the
    cluster's other clocks agree (`hear`). Until then, the time is in doubt (`is_doubtful`), and nothing may be deleted
    based on age.
    """

    def __init__(self, clock: Clock, last_ms: int) -> None:
        """Begin no earlier than `last_ms`, the last time in the journal, or 0 if there is none."""
        self._clock = clock
        self._passed_ms = clock.passed_ms()
        self._witnesses = Witnesses()
        now_ms = clock.now_ms()
        # The length of the outage is unknown, since there may have been nothing to decide after the last record.
        is_near = now_ms <= last_ms + _FAR_MS
        outage_ms = _OUTAGE_MS if is_near else now_ms
        self._now_ms = float(max(last_ms, now_ms - outage_ms) if last_ms else now_ms)
        self._is_apart = abs(now_ms - self._now_ms) > _TOLD_MS
        #: Since when the clocks have been far ahead (`Clock.passed_ms`), or None if they are not.
        self._ahead_since_ms: float | None = None if is_near or not last_ms else -inf
        self._settles_ms = -inf
        self._leap_ms = 0.0
        self.is_doubtful = False
        self.apart_ms = 0.0
        """How far the clocks are ahead of this time, or behind it if that is negative."""

    def hear(self, witness: int | str, now_ms: int) -> None:
        """Record the time of another clock: an agent's, identified by its node id, or the object store's (`STORE`)."""
        self._witnesses.hear(witness, now_ms - self._clock.passed_ms(), self._clock.passed_ms())

    def take_leap(self) -> int:
        """Return how many milliseconds the time has jumped forward since the last call; normally 0."""
        if not self._leap_ms:
            return 0
        leap_ms, self._leap_ms = self._leap_ms, 0.0
        return int(leap_ms)

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970, which never decreases."""
        passed_ms = self._clock.passed_ms()
        duration_ms = passed_ms - self._passed_ms
        self._passed_ms = passed_ms
        clock_ms = self._clock.now_ms()
        others_ms = self._witnesses.agreed(passed_ms)
        true_ms: float = clock_ms
        if others_ms is not None and clock_ms - others_ms > _FAR_MS:
            true_ms = others_ms
        behind_ms = true_ms - self._now_ms
        if behind_ms > _FAR_MS and others_ms is not None and self._stands(passed_ms):
            self._leap(behind_ms, passed_ms)
        else:
            self._tell(clock_ms - self._now_ms - duration_ms)
            self._now_ms += min(max(behind_ms, duration_ms / 2), duration_ms * 2)
        self.apart_ms = true_ms - self._now_ms
        if self.apart_ms <= _FAR_MS:
            self._ahead_since_ms = None
        self._doubt(passed_ms)
        return int(self._now_ms)

    def _stands(self, passed_ms: float) -> bool:
        """Whether the clocks have been far ahead for long enough to rule out that an operator mistyped a time."""
        if self._ahead_since_ms is None:
            self._ahead_since_ms = passed_ms
        return passed_ms - self._ahead_since_ms >= _STANDS_MS

    def _leap(self, behind_ms: float, passed_ms: float) -> None:
        self._now_ms += behind_ms
        self._leap_ms += behind_ms
        self._settles_ms = passed_ms + _SETTLES_MS
        self._is_apart = False
        _log.warning(
            "the cluster's time was moved forward by %.0f s to match the clocks, which agree with each "
            "other; for the next %d "
            "min, nothing is deleted based on age",
            behind_ms / 1000,
            _SETTLES_MS // 60_000,
        )

    def _doubt(self, passed_ms: float) -> None:
        is_apart = abs(self.apart_ms) > _FAR_MS
        was_doubtful, self.is_doubtful = self.is_doubtful, is_apart or passed_ms < self._settles_ms
        if self.is_doubtful and not was_doubtful and is_apart:
            _log.warning(
                "the time is in doubt: %s %.0f s %s the control plane's time, so nothing is deleted based on age. If "
                "the clocks of all machines are right, stop the control planes and run `lacuna controlplane set-time`",
                "this machine's clock is" if self._witnesses.is_empty else "the clocks are",
                abs(self.apart_ms) / 1000,
                "ahead of" if self.apart_ms > 0 else "behind",
            )
        elif was_doubtful and not self.is_doubtful:
            _log.warning("the time is no longer in doubt")

    def _tell(self, behind_ms: float) -> None:
        is_apart = abs(behind_ms) > _TOLD_MS
        if is_apart and not self._is_apart:
            _log.warning(
                "the machine's clock was set %s by %.0f s; the control plane's time follows it "
                "at %s the pace",
                "forwards" if behind_ms > 0 else "backwards",
                abs(behind_ms) / 1000,
                "twice" if behind_ms > 0 else "half",
            )
        self._is_apart = is_apart


class Witnesses:
    """The clocks of agents and of the object store, each as its lead over `Clock.passed_ms`."""

    def __init__(self) -> None:
        self._heard: dict[int | str, tuple[float, float]] = {}
        self._judged_ms = -inf
        self._agreed: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no other clock has been heard from recently."""
        return not self._heard

    def hear(self, witness: int | str, ahead_ms: float, passed_ms: float) -> None:
        """Remember the time of a clock, and compare all clocks again at the next query."""
        self._heard.pop(witness, None)
        self._heard[witness] = (ahead_ms, passed_ms)
        if len(self._heard) > _MOST_WITNESSES:
            del self._heard[next(iter(self._heard))]
        self._judged_ms = -inf

    def agreed(self, passed_ms: float) -> float | None:
        """Return a time that the store and most agents have reached, or None if none has been heard from recently."""
        if passed_ms >= self._judged_ms + _JUDGED_MS:
            self._judged_ms = passed_ms
            self._agreed = self._judge(passed_ms)
        return None if self._agreed is None else self._agreed + passed_ms

    def _judge(self, passed_ms: float) -> float | None:
        oldest_ms = passed_ms - _REMEMBERED_MS
        self._heard = {name: each for name, each in self._heard.items() if each[1] >= oldest_ms}
        agents = sorted(ahead_ms for name, (ahead_ms, _) in self._heard.items() if name != STORE)
        told = [self._heard[STORE][0]] if STORE in self._heard else []
        if agents:
            told.append(agents[(len(agents) - 1) // 2])
        return min(told, default=None)
