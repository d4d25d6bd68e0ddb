"""Where message sets are converted: off the loop, since it takes a while, and few at once.

A megabyte takes a millisecond in the compiled kernel, four with snappy or lz4 and fifty with gzip, in each of which
the loop could serve others; and it is in memory several times over. Threads bound both: the kernel and the codecs
hold no lock of Python's, and whoever serves clients of today waits for none of it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

MAX_CONVERSIONS: Final = 2

T = TypeVar("T")

# Threads start with the first conversion and serve every agent of the process.
_executor: Final = ThreadPoolExecutor(MAX_CONVERSIONS, "message-sets")


async def convert(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """The function's result; raises what it raises."""
    call = partial(function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_executor, call)
