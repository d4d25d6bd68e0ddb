"""Second attempts at requests that are not answered.

A front end that is replaced, or a NAT that forgets a connection, leaves connections on which nothing ever arrives. TCP
notices only after many seconds, as does a time-out that allows for slow requests. A second attempt over another
connection costs only a request, as long as the request may be made twice.
"""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: Second attempts at a time, and for each call. A store that is slow for all clients does not get every request twice.
_BURST: Final = 10.0
_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """The call that has ended, and whether there were two."""

    call: Future[T]
    were_two: bool


class SecondAttempts:
    """Makes calls in at most `threads` threads. Thread-safe."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "s3-request")
        self._lock = threading.Lock()
        self._allowed = _BURST

    def call(
        self,
        first: Callable[[], T],
        second: Callable[[], T],
        after: float,
        is_answer: Callable[[BaseException], bool],
    ) -> Ended[T]:
        """Call `first`, and also `second` if the first has not ended after this many seconds. Return what ended first.

        A failure is returned at once if `is_answer` says that the other call cannot do better, otherwise once both have
        failed.
        """
        attempts = {self._threads.submit(first)}
        done, _ = wait(attempts, timeout=after)
        were_two = not done and self._is_allowed()
        if were_two:
            attempts.add(self._threads.submit(second))
        ended = _best(attempts, is_answer)
        if ended.exception() is None:
            with self._lock:
                self._allowed = min(_BURST, self._allowed + _SHARE)
        return Ended(ended, were_two)

    def close(self) -> None:
        """Make no more calls. A call without an answer ends by itself."""
        self._threads.shutdown(wait=False)

    def _is_allowed(self) -> bool:
        with self._lock:
            if self._allowed < 1:
                return False
            self._allowed -= 1
            return True


def _best(attempts: set[Future[T]], is_answer: Callable[[BaseException], bool]) -> Future[T]:
    while True:
        done, attempts = wait(attempts, return_when=FIRST_COMPLETED)
        for each in sorted(done, key=lambda each: each.exception() is not None):
            error = each.exception()
            if error is None or not attempts or is_answer(error):
                return each
