"""Makes second attempts at requests that take too long.

A few requests take many times longer than most, because of a busy disk or a lost packet, and a second attempt is very
unlikely to encounter the same problem. A request that takes longer than 95% of requests of its kind is therefore
*slow*, and is made again over another connection (adr/0069).

After a front end is replaced, or a NAT forgets a connection, nothing arrives on that connection anymore. TCP takes many
seconds to notice this, and so does any timeout that allows for slow requests. A request without a response after about
a second is therefore *silent*, and is made again over a new connection (adr/0055).

If a request is safe to make again, the only disadvantage is the cost of the second attempt.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from time import perf_counter
from typing import Final, Generic, TypeVar

from lacuna.logstore.objects.latencies import Kind, Latencies

T = TypeVar("T")

#: The reasons for another attempt.
SLOW: Final = "slow"
SILENT: Final = "silent"

#: The second attempts that each successful call earns. This keeps a store that is slow in general from receiving every
#: request twice.
_SHARE: Final = 0.05
#: The number of second attempts at silent requests that are allowed at a time. Slow requests do not use them up.
_RESERVE: Final = 10.0
#: The number of second attempts at slow requests that are allowed at a time, once successful calls have earned them.
_SLOW_BURST: Final = 10.0
#: No request counts as slow before this time. A nearby store needs no second attempts.
_SLOW_AFTER_LEAST_S: Final = 0.005


class Outcome(IntEnum):
    """How an attempt ended, from best to worst."""

    SUCCESS = 0
    #: Any other attempt would be answered in the same way.
    ANSWER = 1
    #: Any other attempt would be answered in the same way, unless another attempt of the same call caused this answer.
    REFUSAL = 2
    #: Another attempt may succeed.
    FAILURE = 3


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """How to make a request over an open connection, and over a new one.

    The request becomes silent after `silent_after` seconds. If `kind` is None, it never counts as slow.
    """

    make: Callable[[], T]
    make_anew: Callable[[], T]
    silent_after: float
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """The attempt that decided the call, and why second attempts were made: SLOW, SILENT, or both."""

    attempt: Future[T]
    reasons: Sequence[str]


class SecondAttempts:
    """Makes calls in at most `threads` threads. Thread-safe. `judge` returns the outcome of a failed attempt."""

    def __init__(self, threads: int, judge: Callable[[BaseException], Outcome]) -> None:
        self.latencies = Latencies()
        self._threads = ThreadPoolExecutor(threads, "s3-request")
        self._judge = judge
        self._lock = threading.Lock()
        self._allowed = _RESERVE

    def call(self, request: Request[T]) -> Ended[T]:
        """Make a request, and repeat it once if it is slow and once if it is silent. Return the attempt that ended
        best.

        A refusal decides the call only once the request is silent. Until then, another attempt may still succeed, and
        may even have caused the refusal.
        """
        started = perf_counter()
        ended = self._raced(request, started)
        if ended.attempt.exception() is None:
            with self._lock:
                self._allowed = min(_RESERVE + _SLOW_BURST, self._allowed + _SHARE)
            if request.kind is not None:
                self.latencies.add(request.kind, perf_counter() - started)
        return ended

    def close(self) -> None:
        """Make no more calls. Calls in progress end by themselves."""
        self._threads.shutdown(wait=False)

    def _raced(self, request: Request[T], started: float) -> Ended[T]:
        reasons: list[str] = []
        attempts = [self._threads.submit(request.make)]
        slow_after = self._slow_after(request.kind)
        if slow_after < request.silent_after:
            if decision := self._decision(attempts, Outcome.ANSWER, started + slow_after):
                return Ended(decision, reasons)
            if self._is_allowed(leaving=_RESERVE):
                attempts.append(self._threads.submit(request.make))
                reasons.append(SLOW)
        if decision := self._decision(attempts, Outcome.ANSWER, started + request.silent_after):
            return Ended(decision, reasons)
        is_refused = self._best(attempts, Outcome.REFUSAL) is not None
        if not is_refused and self._is_allowed():
            attempts.append(self._threads.submit(request.make_anew))
            reasons.append(SILENT)
        decision = self._decision(attempts, Outcome.REFUSAL)
        assert decision is not None
        return Ended(decision, reasons)

    def _slow_after(self, kind: Kind | None) -> float:
        seconds = None if kind is None else self.latencies.percentile_95(kind)
        return inf if seconds is None else max(seconds, _SLOW_AFTER_LEAST_S)

    def _is_allowed(self, leaving: float = 0.0) -> bool:
        with self._lock:
            if self._allowed < leaving + 1:
                return False
            self._allowed -= 1
            return True

    def _decision(
        self, attempts: Sequence[Future[T]], worst: Outcome, deadline: float | None = None
    ) -> Future[T] | None:
        """Wait for the attempt that decides the call, and return it, or None if the deadline passes first."""
        while (best := self._best(attempts, worst)) is None:
            under_way = {each for each in attempts if not each.done()}
            timeout = None if deadline is None else max(deadline - perf_counter(), 0.0)
            done, _ = wait(under_way, timeout, FIRST_COMPLETED)
            if not done:
                return None
        return best

    def _best(self, attempts: Sequence[Future[T]], worst: Outcome) -> Future[T] | None:
        """Return the best attempt so far, or None if it is worse than `worst` and others are in progress."""
        ended = [each for each in attempts if each.done()]
        best = min(ended, key=self._outcome, default=None)
        if best is None or len(ended) == len(attempts) or self._outcome(best) <= worst:
            return best
        return None

    def _outcome(self, attempt: Future[T]) -> Outcome:
        error = attempt.exception()
        return Outcome.SUCCESS if error is None else self._judge(error)
