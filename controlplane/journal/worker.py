"""One thread that does blocking work in order and hands results to futures of the event loop."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """A thread with a queue, which its caller bounds: a journal has one append under way."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[
            tuple[Callable[[], Any], asyncio.AbstractEventLoop, asyncio.Future[Any]] | None
        ] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """Runs `job` after all earlier ones; the future gets its result or exception."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((job, loop, future))
        return future

    def stop(self) -> None:
        """Ends the thread behind the jobs that are queued, and waits for it."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, loop, future = item
            try:
                result = job()
            except BaseException as error:
                _hand_over(loop, future, None, error)
            else:
                _hand_over(loop, future, result, None)


def _hand_over(
    loop: asyncio.AbstractEventLoop,
    future: "asyncio.Future[Any]",
    result: object,
    error: BaseException | None,
) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
