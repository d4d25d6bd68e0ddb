"""Runs many small tasks for one request concurrently, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def side_by_side(works: Sequence[Callable[[], Awaitable[T]]], most: int) -> list[T]:
    """Run the tasks, at most `most` of them at a time, and return their results in order.

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
