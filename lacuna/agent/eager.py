"""Starts coroutines immediately, so a request that never waits needs neither a task nor an event loop iteration.

For quotas, it also measures the event loop time that a coroutine takes.
"""

import asyncio
from collections.abc import Coroutine, Generator
from time import perf_counter
from typing import Any


def start(work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None] | None":
    """Run `work` until its first wait, and return a task for the rest of it, or None if it has finished.

    An exception before the first wait is raised here. Until that wait, `asyncio.current_task()` is the caller's task or
    None, so `work` must not enter an `asyncio.timeout` before it.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_Rest(work, awaited), name=name)


class _Rest(Coroutine[Any, Any, None]):
    """The rest of `work`, as a coroutine for a task. Its first step yields the future that `work` is already waiting
    for.

    This is a class because tasks do not accept generators from Python 3.12 on, and because wrapping a generator in an
    `async def` takes another half microsecond.
    """

    __slots__ = ("_awaited", "_has_begun", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._work = work
        self._awaited = awaited
        self._has_begun = False

    def send(self, value: Any) -> Any:
        if self._has_begun:
            return self._work.send(value)
        self._has_begun = True
        awaited, self._awaited = self._awaited, None
        return awaited

    def throw(self, *raised: Any) -> Any:
        self._has_begun = True
        self._awaited = None
        return self._work.throw(*raised)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError("only a task can run the rest of a coroutine")


class Timed(Coroutine[Any, Any, None]):
    """Runs `work`, and measures the seconds of event loop time that its steps take, excluding its waits."""

    __slots__ = ("_began", "_taken", "_work")

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._began = 0.0
        self._taken = 0.0

    def take(self) -> float:
        """Return the seconds measured since the last call. `work` may call this method itself."""
        now = perf_counter()
        taken, self._taken, self._began = self._taken + now - self._began, 0.0, now
        return taken

    def take_rest(self) -> float:
        """Return the seconds measured since the last call, once `work` has ended."""
        taken, self._taken = self._taken, 0.0
        return taken

    def send(self, value: Any) -> Any:
        self._began = perf_counter()
        try:
            return self._work.send(value)
        finally:
            self._taken += perf_counter() - self._began

    def throw(self, *raised: Any) -> Any:
        self._began = perf_counter()
        try:
            return self._work.throw(*raised)
        finally:
            self._taken += perf_counter() - self._began

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError("only a task measures its time")
