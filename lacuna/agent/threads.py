"""Threads for work that would block the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

MAX_CONVERSIONS: Final = 2

T = TypeVar("T")

# The threads start with the first conversions. All agents of the process share them.
_conversions: Final = ThreadPoolExecutor(MAX_CONVERSIONS, "message-sets")


class Threads(ThreadPoolExecutor):
    """An executor whose first thread starts immediately, while an error can still be reported.

    More threads start as needed. If one cannot start because the system is short of memory or processes, the running
    threads also do its work, whereas Python's executor would raise an error and leave the work in its queue.
    """

    def __init__(self, most: int, name: str) -> None:
        """Create an executor with at most `most` threads. Raises RuntimeError if no thread can start."""
        super().__init__(most, name)
        self.submit(_nothing)

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise


def _nothing() -> None:
    """Do nothing. Submitted so that a thread starts."""


async def convert(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Convert message sets of old clients in one of MAX_CONVERSIONS threads, and return the result or raise the error.

    Converting a megabyte takes 1 ms in the compiled kernel, 4 ms with snappy or lz4, and 50 ms with gzip. In the event
    loop, this would delay other clients. Each conversion also holds the data in memory several times, so the number of
    threads bounds the memory. The kernel and the codecs release the GIL, so clients with current formats never wait for
    a conversion.
    """
    call = partial(function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_conversions, call)
