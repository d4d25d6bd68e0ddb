"""A thread that runs blocking jobs in order, and passes their results to futures of the event loop."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


def do_nothing() -> None:
    """The default action after a job."""


class _Submitted(NamedTuple):
    job: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    then: Callable[[], None]


class Worker:
    """A thread with a queue of jobs. The caller limits the queue: a journal has only one append in progress."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Submitted | None] = SimpleQueue()
        self._waiting = 0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether no job is queued or running, as far as the event loop knows."""
        return not self._waiting

    def submit(
        self, job: Callable[[], T], then: Callable[[], None] = do_nothing
    ) -> "asyncio.Future[T]":
        """Run `job` after all earlier jobs, and return a future for its result or exception.

        If the job succeeds, `then` runs in the event loop before the future is done, even if the future has been
        cancelled.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting += 1
        self._jobs.put(_Submitted(job, loop, future, then))
        return future

    def stop(self) -> None:
        """Let the thread finish the queued jobs, and wait until it ends."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            try:
                result = item.job()
            except BaseException as error:
                self._hand_over(item, None, error)
            else:
                self._hand_over(item, result, None)

    def _hand_over(self, item: _Submitted, result: object, error: BaseException | None) -> None:
        if not item.loop.is_closed():
            item.loop.call_soon_threadsafe(self._settle, item, result, error)

    def _settle(self, item: _Submitted, result: object, error: BaseException | None) -> None:
        self._waiting -= 1
        if error is None:
            item.then()
        future = item.future
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
