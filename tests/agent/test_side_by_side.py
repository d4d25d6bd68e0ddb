"""Tasks of one request that run concurrently."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from lacuna.agent.side_by_side import side_by_side


async def test_results_are_in_order_and_no_more_run_at_once_than_may() -> None:
    running: set[int] = set()
    seen = []

    def work(number: int) -> Callable[[], Awaitable[int]]:
        async def run() -> int:
            running.add(number)
            seen.append(len(running))
            await asyncio.sleep(0)
            running.discard(number)
            return number

        return run

    assert await side_by_side([work(number) for number in range(10)], 3) == list(range(10))
    assert max(seen) == 3
    assert await side_by_side([work(7)], 3) == [7]
    assert await side_by_side([], 3) == []


async def test_the_first_error_ends_the_others() -> None:
    cancelled = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await side_by_side([waits, fails, waits], 2)
    await asyncio.sleep(0)
    assert cancelled == [True]
