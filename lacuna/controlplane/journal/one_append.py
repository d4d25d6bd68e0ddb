"""The current append of a journal whose appends run in the event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from lacuna.controlplane.journal.journal import JournalError


class OneAppend:
    """Runs at most one append at a time, as a separate task that continues even if no caller waits for it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[int] | None = None

    def begin(self, append: Callable[[], Coroutine[Any, Any, int]]) -> "asyncio.Future[int]":
        """Start `append`, and return a future for its position. Raises JournalError if an append is in progress."""
        if self._task is not None:
            raise JournalError("an append is already in progress: wait for it first")
        appended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(append())
        self._task.add_done_callback(partial(self._settle, appended))
        return appended

    def _settle(self, appended: "asyncio.Future[int]", task: "asyncio.Task[int]") -> None:
        self._task = None
        # The error is always retrieved; otherwise, asyncio would log that it was never retrieved.
        error = None if task.cancelled() else task.exception()
        if appended.done():
            return
        if task.cancelled():
            appended.cancel()
        elif error is not None:
            appended.set_exception(error)
        else:
            appended.set_result(task.result())

    async def finish(self) -> None:
        """Wait until no append is in progress."""
        if self._task is not None:
            await asyncio.wait([self._task])
