"""Fetched bytes in memory are counted as long as anything refers to them, and their number bounds answers."""

import asyncio

from lacuna.agent.fetch.answers import size_of
from lacuna.agent.fetch.buffers import ByteBudget, LiveBytes, ReadBuffer
from lacuna.agent.fetch.service import SMALLEST_ANSWER_BYTES
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.wire.messages.fetch import PartitionData
from tests.agent.fetch.log import make_batch, open_log
from tests.loop_iterations import iterations


def test_a_buffer_counts_until_its_last_slice_is_gone() -> None:
    live = LiveBytes()
    buffer, other = ReadBuffer(b"x" * 100), ReadBuffer()
    live.watch(buffer, 100)
    live.watch(other, 7)
    part = memoryview(buffer)[10:20][5:]
    del buffer
    assert live.total == 107
    del part
    assert live.total == 7
    del other
    assert live.total == 0


async def test_a_budget_is_for_as_many_as_fit_or_one() -> None:
    budget, doors = ByteBudget(10), {size: asyncio.Event() for size in (25, 4, 20, 5)}
    held: set[int] = set()

    async def hold(size: int) -> None:
        async with budget.held(size):
            held.add(size)
            try:
                await doors[size].wait()
            finally:
                held.remove(size)

    asked = {size: asyncio.ensure_future(hold(size)) for size in doors}
    await iterations()
    assert held == {25}
    doors[25].set()
    await iterations()
    assert held == {4, 5}
    asked[4].cancel()
    doors[5].set()
    await iterations()
    assert held == {20}
    assert budget.used == 20
    doors[20].set()
    await asked[20]
    assert budget.used == 0


async def test_answers_become_smaller_the_more_of_them_wait_for_their_clients() -> None:
    """Each consumer still makes progress."""
    value = bytes(300_000)
    settings = FetchSettings(
        cache_bytes=4096, answer_bytes=8 << 20, max_response_bytes=2 << 20, read_ahead_bytes=0
    )
    async with open_log(fetch=settings) as log:
        await log.create_topic("t")
        for _ in range(12):
            await log.produce(make_batch(value))
        held: list[PartitionData] = []
        sizes = []
        for _ in range(40):
            held.append(await log.fetch(0, partition_max_bytes=1 << 24))
            sizes.append(size_of(held[-1]))
            assert log.fetch_service.cache.outside_bytes >= sum(sizes)
        assert 1 << 20 < sizes[0] <= 2 << 20
        assert sizes == sorted(sizes, reverse=True)
        assert len(value) <= sizes[-1] <= SMALLEST_ANSWER_BYTES + len(value)
        held.clear()
        assert log.fetch_service.cache.outside_bytes < 2 * len(value)
        assert size_of(await log.fetch(0, partition_max_bytes=1 << 24)) == sizes[0]
