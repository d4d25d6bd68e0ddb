"""Waiting for nothing but the event loop."""

import asyncio


async def iterations(count: int = 20) -> None:
    """Let tasks that were just made begin, and everything run that can."""
    for _ in range(count):
        await asyncio.sleep(0)
