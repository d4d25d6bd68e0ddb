"""Coroutines that begin at once: a request that never waits needs no task and no turn of the loop."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final

_ENDED: Final = object()


def start(work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None] | None":
    """Run `work` up to where it first waits; the task that goes on from there, None where it ended.

    What `work` raises before that is raised here. Up to there `asyncio.current_task()` is that of the caller, or
    none, so it must not open an `asyncio.timeout` before it first waits.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_go_on(work, awaited), name=name)


@coroutine
def _go_on(work: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """The rest of `work`, for a task: first what it waits for already."""
    while True:
        try:
            value = yield awaited
        except BaseException as error:
            awaited = _step(work.throw, error)
        else:
            awaited = _step(work.send, value)
        if awaited is _ENDED:
            return


def _step(step: Callable[[Any], Any], given: Any) -> Any:
    """What is awaited next."""
    try:
        return step(given)
    except StopIteration:
        return _ENDED
