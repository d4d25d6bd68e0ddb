"""Runs many small tasks of one request concurrently, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def side_by_side(works: Sequence[Callable[[], Awaitable[T]]], most: int) -> list[T]:
    """Return the results of the tasks in their order; at most `most` of them run at once.

    The first error is raised, and the other tasks are cancelled.
    """
    if len(works) == 1:
        return [await works[0]()]
    results: dict[int, T] = {}
    rest = iter(enumerate(works))

    async def worker() -> None:
        for index, work in rest:
            results[index] = await work()

    workers = [asyncio.ensure_future(worker()) for _ in range(min(most, len(works)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
    return [results[index] for index in range(len(works))]
