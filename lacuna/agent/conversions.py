"""Runs conversions of old message sets in threads, at most MAX_CONVERSIONS at once.

Converting a megabyte takes 1 ms in the compiled kernel, 4 ms with snappy or lz4, and 50 ms with gzip. In the event
loop, this would delay other clients. The data is also in memory several times, which the number of threads bounds. The
kernel and the codecs release the GIL, so clients with current formats never wait for a conversion.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

MAX_CONVERSIONS: Final = 2

T = TypeVar("T")

# The threads start with the first conversions. All agents of the process share them.
_executor: Final = ThreadPoolExecutor(MAX_CONVERSIONS, "message-sets")


async def convert(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run `function` in a conversion thread, and return its result or raise its error."""
    call = partial(function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_executor, call)
