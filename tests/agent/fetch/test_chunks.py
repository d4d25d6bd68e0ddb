"""The chunks that an agent reads for its zone: sizes of reads, shared reads, and bounds (adr/0039)."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lacuna.agent.fetch import chunks
from lacuna.agent.fetch.chunks import ChunkCache, ChunkId, ChunksBusyError
from lacuna.logstore.objects.memory import MemoryStore
from lacuna.logstore.objects.store import ObjectNotFoundError, ShortReadError
from lacuna.testing.faults import FaultyStore
from tests.loop_iterations import iterations

CHUNK = 1600
BEYOND = CHUNK // 8
OBJECT = bytes(range(256)) * 20
FIRST, SECOND = ChunkId(1, 1, 0), ChunkId(1, 1, 1)


class Kept:
    """A cache of the chunks of one object, with its reads and reported sizes."""

    def __init__(
        self, executor: ThreadPoolExecutor, max_bytes: int = 1 << 20, max_reads: int = 4
    ) -> None:
        self.store = FaultyStore(MemoryStore())
        self.store.put("k", [OBJECT])
        self.sizes: list[int] = []
        self.chunks = ChunkCache(
            self.store,
            executor,
            chunk_bytes=CHUNK,
            max_bytes=max_bytes,
            max_reads=max_reads,
            on_size=self.sizes.append,
        )

    async def get(self, position: int, size: int) -> None:
        """Read a range, whose bytes must be those of the object."""
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


async def test_what_is_kept_and_what_is_being_read_are_bounded(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor, max_bytes=2 * (CHUNK + BEYOND))
    hold = kept.store.hold("get")
    asked = [asyncio.ensure_future(kept.get(CHUNK * number, CHUNK // 2)) for number in range(3)]
    await asyncio.to_thread(hold.wait_until_reached)
    await iterations()
    assert kept.chunks.bytes_reading == 2 * (CHUNK + BEYOND)
    hold.release()
    await asyncio.gather(*asked)
    assert kept.chunks.bytes_reading == 0
    assert CHUNK < kept.chunks.bytes_now <= 2 * (CHUNK + BEYOND)
    kept.chunks.clear()
    assert kept.chunks.bytes_now == kept.sizes[-1] == 0


async def test_what_nobody_waits_for_any_more_is_not_read(executor: ThreadPoolExecutor) -> None:
    kept = Kept(executor, max_reads=1)
    hold = kept.store.hold("get")
    first = asyncio.ensure_future(kept.get(0, 10))
    await asyncio.to_thread(hold.wait_until_reached)
    asked = [asyncio.ensure_future(kept.get(CHUNK + start, 10)) for start in (0, 0, 2)]
    await iterations()
    asked[0].cancel()
    asked[2].cancel()
    await iterations()
    again = asyncio.ensure_future(kept.get(CHUNK + 2, 10))
    hold.release()
    await asyncio.gather(first, asked[1], again)
    # One of the two that wanted the same is left; and what was given up is begun anew.
    assert kept.gets == 3


async def test_no_more_reads_are_begun_than_can_wait(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_MOST_FLIGHTS", 2)
    kept = Kept(executor)
    hold = kept.store.hold("get")
    asked = [asyncio.ensure_future(kept.get(CHUNK * number, 10)) for number in range(2)]
    await asyncio.to_thread(hold.wait_until_reached)
    with pytest.raises(ChunksBusyError):
        await kept.get(2 * CHUNK, 10)
    asked.append(asyncio.ensure_future(kept.get(5, 5)))
    await iterations()
    hold.release()
    await asyncio.gather(*asked)
    await kept.get(2 * CHUNK, 10)
    assert kept.gets == 3


async def test_after_all_is_forgotten_chunks_are_read_whole_again(
    executor: ThreadPoolExecutor,
) -> None:
    kept = Kept(executor, max_bytes=CHUNK + BEYOND)
    await kept.get(0, CHUNK // 16)  # is forgotten at once, as it does not fit
    kept.chunks.clear()
    before = kept.bytes_read
    await kept.get(CHUNK, CHUNK // 16)
    assert kept.bytes_read - before == CHUNK + BEYOND


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
