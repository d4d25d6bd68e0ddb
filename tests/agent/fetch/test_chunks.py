"""The chunks that an agent reads for its zone: how much is read at once, shared reads, bounds (adr/0039)."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lacuna.agent.fetch.chunks import ChunkCache, ChunkId
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import ObjectNotFoundError, ShortReadError
from lacuna.testing.faults import FaultyStore

CHUNK = 1600
BEYOND = CHUNK // 8
OBJECT = bytes(range(256)) * 20
FIRST, SECOND = ChunkId(1, 1, 0), ChunkId(1, 1, 1)


class Kept:
    """A cache of the chunks of one object, and what it has read and said."""

    def __init__(self, executor: ThreadPoolExecutor, max_bytes: int = 1 << 20) -> None:
        self.store = FaultyStore(MemoryStore())
        self.store.put("k", [OBJECT])
        self.sizes: list[int] = []
        self.chunks = ChunkCache(
            self.store,
            executor,
            chunk_bytes=CHUNK,
            max_bytes=max_bytes,
            max_reads=4,
            on_size=self.sizes.append,
        )

    async def get(self, position: int, size: int) -> None:
        """Reads a range, whose bytes must be those of the object."""
        chunk = ChunkId(1, 1, position // CHUNK)
        found = await self.chunks.get(chunk, "k", position, size)
        assert found == OBJECT[position : position + size]
        assert found.readonly

    @property
    def bytes_read(self) -> int:
        return self.store.metrics.bytes_read

    @property
    def gets(self) -> int:
        return self.store.metrics.gets


@pytest.fixture
async def executor() -> AsyncIterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as found:
        yield found


async def test_one_small_range_is_read_alone(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor)
    await kept.get(10, 20)
    await kept.get(12, 5)
    assert (kept.gets, kept.bytes_read) == (1, 20)


async def test_a_second_range_reads_the_chunk_and_what_a_piece_may_have_beyond(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor)
    await kept.get(10, 20)
    await kept.get(CHUNK - 30, 40)
    assert (kept.gets, kept.bytes_read) == (2, 20 + CHUNK + BEYOND)
    for position in range(0, CHUNK, 50):
        await kept.get(position, BEYOND)
    assert kept.gets == 2
    assert kept.sizes[-1] == kept.chunks.bytes_now < CHUNK + BEYOND + 1000


async def test_a_long_range_reads_the_chunk_at_once(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor)
    await kept.get(CHUNK, CHUNK // 16)
    await kept.get(2 * CHUNK - 5, 10)
    assert kept.gets == 1


async def test_the_last_chunk_ends_with_the_object(executor: ThreadPoolExecutor) -> None:
    kept, last = Kept(executor), len(OBJECT) // CHUNK * CHUNK
    await kept.get(last, len(OBJECT) - last)
    assert kept.bytes_read == len(OBJECT) - last
    with pytest.raises(ShortReadError):
        await kept.get(len(OBJECT) - 5, 10)


async def test_those_who_ask_at_once_share_a_read_and_may_be_cancelled(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor)
    hold = kept.store.hold("get")
    asked = [asyncio.ensure_future(kept.get(200 * number, 150)) for number in range(4)]
    await asyncio.to_thread(hold.wait_until_reached)
    asked[0].cancel()
    hold.release()
    await asyncio.gather(*asked[1:])
    assert asked[0].cancelled()
    assert kept.gets == 1


async def test_an_error_is_everybodys_and_is_not_kept(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor)
    for _ in range(2):
        with pytest.raises(ObjectNotFoundError):
            await kept.chunks.get(FIRST, "none", 0, 10)
    assert kept.chunks.bytes_now == 0
    await kept.get(0, 10)


async def test_what_is_kept_is_bounded_and_what_is_outside_is_counted(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor, max_bytes=2 * CHUNK)
    held = await kept.chunks.get(FIRST, "k", 0, CHUNK)
    await kept.get(CHUNK, CHUNK)
    assert kept.chunks.bytes_now <= 2 * CHUNK
    assert kept.chunks.outside_bytes > CHUNK // 2
    del held
    assert kept.chunks.outside_bytes == 0
    kept.chunks.clear()
    assert kept.chunks.bytes_now == kept.sizes[-1] == 0


async def test_without_room_for_whole_chunks_they_are_not_read(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor, max_bytes=CHUNK)
    await kept.get(0, CHUNK // 16)  # is forgotten at once, as it does not fit
    before = kept.bytes_read
    await kept.get(0, CHUNK // 16)
    assert kept.bytes_read - before == CHUNK // 16


async def test_a_chunk_that_is_forgotten_is_read_again(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor)
    await kept.get(CHUNK, 200)
    kept.chunks.forget(FIRST)
    await kept.get(CHUNK, 200)
    assert kept.gets == 1
    kept.chunks.forget(SECOND)
    assert kept.chunks.bytes_now == 0
    await kept.get(CHUNK, 200)
    assert kept.gets == 2
