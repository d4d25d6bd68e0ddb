"""Memory for fetched records is counted and bounded, and reused only once nothing refers to it."""

import asyncio
import random

import pytest

from lacuna.agent.fetch.answers import size_of
from lacuna.agent.fetch.buffers import ByteBudget, LiveBytes, ReadBuffer
from lacuna.agent.fetch.memory import ReadMemory
from lacuna.agent.fetch.service import SMALLEST_ANSWER_BYTES
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.wire.messages.fetch import PartitionData
from tests.agent.fetch.log import make_batch, open_log
from tests.doubles.clock import iterations

KIBIBYTE = 1024
PART = 256 * KIBIBYTE


def test_a_part_is_free_again_with_its_last_slice() -> None:
    memory, live = ReadMemory(4 * PART), LiveBytes()
    part = memory.take(PART - 5)
    live.watch(part.obj, len(part))
    assert (part.format, part.readonly, len(part)) == ("B", False, PART - 5)
    part[-3:] = b"end"
    end = part[100:][-3:]
    del part
    assert memory.free_bytes == 3 * PART
    others = [memory.take(PART) for _ in range(3)]
    for other in others:
        other[:] = b"x" * PART
    assert bytes(end) == b"end"
    assert live.total == PART - 5
    del end
    assert memory.free_bytes == PART
    assert live.total == 0


def test_freed_neighbours_are_one_range() -> None:
    memory = ReadMemory(4 * PART)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 0, 2]):
        parts: list[memoryview | None] = [memory.take(PART) for _ in range(4)]
        for at in order:
            parts[at] = None
            assert memory.free_bytes % PART == 0
        whole = memory.take(4 * PART)
        assert memory.free_bytes == 0
        del whole
    assert memory.free_bytes == 4 * PART


@pytest.mark.parametrize("size", [0, 1, 100 * KIBIBYTE, 2 * PART + 1])
def test_what_is_small_or_finds_no_room_is_not_in_the_region(size: int) -> None:
    memory, live = ReadMemory(2 * PART), LiveBytes()
    part = memory.take(size)
    live.watch(part.obj, size)
    assert len(part) == size
    assert memory.free_bytes == 2 * PART
    del part
    assert live.total == 0


@pytest.mark.slow
def test_no_two_parts_ever_share_a_byte() -> None:
    memory, source = ReadMemory(8 * PART), random.Random(1)
    held: dict[int, memoryview] = {}
    for number in range(400):
        part = memory.take(source.randrange(PART // 2, 3 * PART))
        part[:] = bytes([number % 251]) * len(part)
        held[number] = part
        del part
        for gone in source.sample(sorted(held), len(held) // 3):
            del held[gone]
        for other, bytes_of in held.items():
            assert bytes_of.tobytes().count(other % 251) == len(bytes_of)
    held.clear()
    del bytes_of
    assert memory.free_bytes == 8 * PART


async def test_answers_outlive_the_eviction_of_what_they_hold() -> None:
    settings = FetchSettings(cache_bytes=4 * PART, read_ahead_bytes=0)
    async with open_log(fetch=settings) as log:
        await log.create_topic("t")
        values = [bytes([number]) * PART for number in range(20)]
        for value in values:
            await log.produce(make_batch(value))
        answers = [await log.fetch(offset, partition_max_bytes=1) for offset in range(20)]
        for value, answer in zip(values, answers, strict=True):
            assert value in b"".join(bytes(each) for each in answer.records or ())


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
