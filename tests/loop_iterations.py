"""Waits only for the event loop."""

import asyncio


async def iterations(count: int = 20) -> None:
    """Let new tasks begin, and run everything that is ready."""
    for _ in range(count):
        await asyncio.sleep(0)
