"""A thread that runs blocking jobs in order and passes their results to futures of the event loop."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """A thread with a queue of jobs. The caller bounds the queue: a journal has only one append under way."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[
            tuple[Callable[[], Any], asyncio.AbstractEventLoop, asyncio.Future[Any]] | None
        ] = SimpleQueue()
        self._waiting = 0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether no job is queued or running, as far as the event loop knows."""
        return not self._waiting

    def submit(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Run `job` after all earlier jobs; return a future of its result or exception."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting += 1
        self._jobs.put((job, loop, future))
        return future

    def stop(self) -> None:
        """Let the thread finish the queued jobs, and wait for it to end."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, loop, future = item
            try:
                result = job()
            except BaseException as error:
                self._hand_over(loop, future, None, error)
            else:
                self._hand_over(loop, future, result, None)

    def _hand_over(
        self,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Any]",
        result: object,
        error: BaseException | None,
    ) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._settle, future, result, error)

    def _settle(
        self, future: "asyncio.Future[Any]", result: object, error: BaseException | None
    ) -> None:
        self._waiting -= 1
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
