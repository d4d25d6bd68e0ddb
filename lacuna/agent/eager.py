"""Starts coroutines at once: a request that never waits needs no task and no iteration of the event loop.

And counts the time that one takes of the event loop, for quotas.
"""

import asyncio
from collections.abc import Coroutine, Generator
from time import perf_counter
from typing import Any


def start(work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None] | None":
    """Run `work` until it first waits; return a task for the rest, or None if it has finished.

    An exception that `work` raises before it first waits is raised here. Until then `asyncio.current_task()` is the
    caller's task, or None, so `work` must not enter an `asyncio.timeout` before it first waits.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_Rest(work, awaited), name=name)


class _Rest(Coroutine[Any, Any, None]):
    """The rest of `work`, for a task. Its first step yields what `work` waits for already.

    It is a class because tasks do not accept generators from Python 3.12 on, and because wrapping one in an
    `async def` takes half a microsecond more.
    """

    __slots__ = ("_awaited", "_has_begun", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._work = work
        self._awaited = awaited
        self._has_begun = False

    def send(self, value: Any) -> Any:
        """Run to the next wait, and return what is awaited there."""
        if self._has_begun:
            return self._work.send(value)
        self._has_begun = True
        awaited, self._awaited = self._awaited, None
        return awaited

    def throw(self, *raised: Any) -> Any:
        """Raise an error or a cancellation in `work`, possibly before the first `send`; return what is awaited next."""
        self._has_begun = True
        self._awaited = None
        return self._work.throw(*raised)

    def close(self) -> None:
        """Close `work`."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        """Raise NotImplementedError: tasks call `send` instead."""
        raise NotImplementedError("only a task goes on with the rest of a coroutine")


class Timed(Coroutine[Any, Any, None]):
    """`work`, and how many seconds of the event loop its steps take; the time in which it waits is not counted."""

    __slots__ = ("_began", "_taken", "_work")

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._began = 0.0
        self._taken = 0.0

    def take(self) -> float:
        """Return the seconds since this was last asked; `work` may ask it too."""
        now = perf_counter()
        taken, self._taken, self._began = self._taken + now - self._began, 0.0, now
        return taken

    def take_rest(self) -> float:
        """Return the seconds since this was last asked, after the last step."""
        taken, self._taken = self._taken, 0.0
        return taken

    def send(self, value: Any) -> Any:
        """Run to the next wait, and return what is awaited there."""
        self._began = perf_counter()
        try:
            return self._work.send(value)
        finally:
            self._taken += perf_counter() - self._began

    def throw(self, *raised: Any) -> Any:
        """Raise an error or a cancellation in `work`; return what is awaited next."""
        self._began = perf_counter()
        try:
            return self._work.throw(*raised)
        finally:
            self._taken += perf_counter() - self._began

    def close(self) -> None:
        """Close `work`."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        """Raise NotImplementedError: tasks call `send` instead."""
        raise NotImplementedError("only a task counts its time")
