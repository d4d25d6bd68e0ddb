"""The cache (bounded and write-through, with shared reads and verified bytes) and coalescing (S18, S19)."""

import asyncio
import logging
import random
import threading

import pytest

from lacuna.agent.fetch import coalescing, gather
from lacuna.agent.fetch.answers import READ_COMMITTED, READ_UNCOMMITTED, size_of
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.fetch.stretch import Load
from lacuna.logstore.records.layout import Codec
from tests.agent.fetch.log import (
    TIME,
    Log,
    TestStore,
    batches_of,
    make_batch,
    next_offset_of,
    open_log,
    records_of,
)
from tests.doubles.clock import iterations, until
from tests.seeds import seeds

BIG = bytes(range(256)) * 20


def loads(log: Log) -> list[Load]:
    """Return everything in the cache."""
    cache = log.fetch_service.cache
    return [*cache._loads, *cache._finished]


def in_order(log: Log) -> list[Load]:
    """Return the loads of a log with one partition, in the order of their offsets."""
    return sorted(loads(log), key=lambda load: load.stretches[0].pieces.base_offsets[0])


def forget(log: Log) -> None:
    """Empty the cache, as in an agent that has just started."""
    cache = log.fetch_service.cache
    for load in loads(log):
        cache._forget(load)
    assert cache.metrics.bytes_now == 0
    assert len(cache._produced) == len(cache._coalesced) == len(cache._fresh) == 0


async def test_what_was_read_is_not_read_again() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(BIG))
        first = await log.fetch(0)
        reads = log.store.metrics.gets
        assert reads == 1
        assert b"".join((await log.fetch(0)).records or ()) == b"".join(first.records or ())
        assert log.store.metrics.gets == reads


async def test_fetches_at_the_same_time_share_a_read() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(BIG))
        answers = await asyncio.gather(*(log.fetch(0) for _ in range(8)))
        assert all(records_of(answer) for answer in answers)
        assert log.store.metrics.gets == 1


async def test_a_cancelled_fetch_does_not_take_the_read_from_others() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(BIG))
        gate, get = threading.Event(), log.store.get

        def held_get(key: str, position: int, size: int) -> bytearray:
            assert gate.wait(60)
            return get(key, position, size)

        log.store.get = held_get  # type: ignore[method-assign]
        first, second = (asyncio.ensure_future(log.fetch(0)) for _ in range(2))
        await asyncio.sleep(0.01)
        first.cancel()
        gate.set()
        assert records_of(await second)
        assert log.store.metrics.gets == 1


async def test_what_a_read_under_way_brings_is_found_beside_its_neighbours() -> None:
    """A second consumer reads the pieces on both sides, and its own read ends later."""
    async with open_log(fetch=FetchSettings(read_ahead_bytes=0)) as log:
        await log.create_topic("t")
        size = len(make_batch(BIG))
        keys: list[str] = []
        for _ in range(5):
            await log.produce(make_batch(BIG))
            keys += {each.key for each in log.store.list()}.difference(keys)
        in_the_middle, begun = keys[-3:-1], threading.Event()
        gates, get = [threading.Event(), threading.Event()], log.store.get

        def held_get(key: str, position: int, size: int) -> bytearray:
            begun.set()
            assert gates[key not in in_the_middle].wait(60)
            return get(key, position, size)

        log.store.get = held_get  # type: ignore[method-assign]
        middle = asyncio.ensure_future(log.fetch(2, partition_max_bytes=2 * size))
        assert await asyncio.to_thread(begun.wait, 60)
        whole = asyncio.ensure_future(log.fetch(0))
        await iterations()
        gates[0].set()
        assert len(records_of(await middle)) == 2
        gates[1].set()
        assert len(records_of(await whole)) == 5
        assert log.store.metrics.gets == 5
        await log.fetch(0)
        assert log.store.metrics.gets == 5


async def test_the_bound_in_bytes_holds_and_the_oldest_leave() -> None:
    async with open_log(fetch=FetchSettings(cache_bytes=20_000, read_ahead_bytes=0)) as log:
        await log.create_topic("t")
        for _ in range(10):
            await log.produce(make_batch(BIG))
        cache = log.fetch_service.cache
        for offset in range(10):
            await log.fetch(offset, partition_max_bytes=1)
            assert cache.metrics.bytes_now <= 20_000
            assert cache.metrics.bytes_now == sum(load.size for load in loads(log))
        reads = log.store.metrics.gets
        await log.fetch(9, partition_max_bytes=1)
        assert log.store.metrics.gets == reads
        await log.fetch(0, partition_max_bytes=1)
        assert log.store.metrics.gets == reads + 1


@pytest.mark.parametrize(("gap", "is_kept"), [(0, True), (1 << 20, False)])
async def test_what_one_consumer_reads_leaves_the_cache_to_what_several_do(
    gap: int, is_kept: bool
) -> None:
    """This applies if reading it again is cheap; otherwise, the least recently used loads are evicted first."""
    settings = FetchSettings(cache_bytes=80_000, read_ahead_bytes=0)
    async with open_log(store=TestStore(gap), fetch=settings) as log:
        await log.create_topic("t")
        for _ in range(20):
            await log.produce(make_batch(BIG))
        cache = log.fetch_service.cache
        for _ in range(3):
            await log.fetch(0, partition_max_bytes=1)
        for offset in range(1, 20):
            await log.fetch(offset, partition_max_bytes=1)
            assert sum(load.size for load in cache._finished) == cache._finished_bytes
            assert cache.metrics.bytes_now == sum(load.size for load in loads(log))
        # The last one, and those that fit into an eighth.
        assert len(cache._finished) == (2 if is_kept else 0)
        assert (len(cache._loads) == 1) is is_kept
        reads = log.store.metrics.gets
        await log.fetch(19, partition_max_bytes=1)
        assert log.store.metrics.gets == reads
        await log.fetch(0, partition_max_bytes=1)
        assert (log.store.metrics.gets == reads) is is_kept


async def test_more_than_the_cache_holds_is_served_all_the_same() -> None:
    async with open_log(fetch=FetchSettings(cache_bytes=4096)) as log:
        await log.create_topic("t")
        for _ in range(3):
            await log.produce(make_batch(BIG))
        assert len(records_of(await log.fetch(0))) == 3


async def test_a_consumer_that_tails_does_not_read_the_store() -> None:
    """Batches from a flush are kept for consumers that are waiting for them."""
    async with open_log() as log:
        await log.create_topic("t")
        offset = 0
        for number in range(5):
            fetch = asyncio.ensure_future(log.fetch(offset, max_wait_ms=600_000))
            await iterations()
            await asyncio.gather(log.produce(make_batch(BIG)), log.produce(make_batch(b"small")))
            answer = await fetch
            assert len(records_of(answer)) == 2
            offset = next_offset_of(answer)
            assert offset == 2 * number + 2
        assert log.store.metrics.gets == 0
        assert log.fetch_service.cache.metrics.written_through == 5


async def test_what_nobody_tails_is_not_kept() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(BIG))
        assert log.fetch_service.cache.metrics.bytes_now == 0


async def test_what_comes_next_is_read_ahead() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        for _ in range(6):
            await log.produce(make_batch(BIG))
        await log.fetch(0, partition_max_bytes=1)
        await until(lambda: log.store.metrics.gets >= 6, 0.001)
        for offset in range(1, 6):
            assert records_of(await log.fetch(offset, partition_max_bytes=1))
        assert log.store.metrics.gets == 6


async def test_reading_ahead_costs_few_requests_where_they_are_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Committed records in one object, with holes between them, take a single read."""
    monkeypatch.setattr(TestStore, "reads_at_once", 16)
    async with open_log(store=TestStore(1 << 20)) as log:
        await log.create_topic("t")
        writers = [await log.writer(f"x{number}") for number in range(12)]
        await asyncio.gather(*(writer.send(BIG) for writer in writers))
        for number, writer in enumerate(writers):
            await writer.end(committed=number % 2 == 0)
        assert log.store.metrics.puts == 1
        await log.fetch(0, partition_max_bytes=1)
        for offset in range(2, 12, 2):
            assert records_of(await log.fetch(offset, partition_max_bytes=1))
        assert log.store.metrics.gets == 2


async def test_a_charged_window_moves_by_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fetch moves the window by one extent, which alone does not justify a request. Only the first fetch waits."""
    monkeypatch.setattr(TestStore, "reads_at_once", 16)
    ahead, size = 8, len(make_batch(BIG))
    settings = FetchSettings(read_ahead_bytes=ahead * size // 2)
    async with open_log(store=TestStore(1 << 20), fetch=settings) as log:
        await log.create_topic("t")
        writers = [await log.writer(f"x{number}") for number in range(25)]
        await asyncio.gather(*(writer.send(BIG) for writer in writers))
        for writer in writers:
            await writer.end(committed=True)
        assert log.store.metrics.puts == 1
        for offset in range(25):
            assert len(records_of(await log.fetch(offset, partition_max_bytes=1))) == 1
            await log.fetch_service.cache.close()
        first, *others, _ = (len(load.stretches[0].pieces) for load in in_order(log))
        assert first == 1
        assert min(others) >= ahead // 2


async def test_changed_bytes_are_an_error_that_names_the_object_and_never_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(BIG))
        (key,) = log.store.put_order
        payload, modified = log.store._objects[key]
        place = payload.index(BIG) + 100
        changed = payload[:place] + b"\xff" + payload[place + 1 :]
        log.store._objects[key] = (changed, modified)
        with caplog.at_level(logging.ERROR):
            answer = await log.fetch(0)
        assert (answer.error_code, size_of(answer)) == (2, 0)
        assert key in caplog.text
        assert "bytes at" in caplog.text
        log.store._objects[key] = (payload, modified)
        assert records_of(await log.fetch(0))


async def test_a_truncated_object_is_corrupt_too() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(BIG))
        (key,) = log.store.put_order
        payload, modified = log.store._objects[key]
        log.store._objects[key] = (payload[:200], modified)
        assert (await log.fetch(0)).error_code == 2


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("value", [b"small", BIG])
async def test_s3_up_to_a_bad_object_records_are_served_and_at_it_an_error(
    is_changed: bool, value: bytes
) -> None:
    """The answer has no bytes from the bad object; if empty, it has an error, without which clients would loop."""
    async with open_log() as log:
        await log.create_topic("t")
        for _ in range(4):
            await log.produce(make_batch(value))
        key = log.store.put_order[2]
        payload, modified = log.store._objects[key]
        bad = payload.replace(value, b"c" + value[1:]) if is_changed else payload[:50]
        log.store._objects[key] = (bad, modified)
        for offset in (0, 1, 0):
            answer = await log.fetch(offset)
            found = [record for record in records_of(answer) if record[0] >= offset]
            assert found == [(at, value) for at in range(offset, 2)]
            assert next_offset_of(answer) == 2
        answer = await log.fetch(2)
        assert (answer.error_code, size_of(answer)) == (2, 0)
        assert records_of(await log.fetch(3)) == [(3, value)]


async def test_a_collected_object_makes_the_fetch_plan_again_once() -> None:
    """The replacements for the extents have arrived by the time of the confirming read."""
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(BIG))
        (key,) = log.store.put_order
        moved = log.store._objects[key]
        log.store.delete([key])
        call, calls = log.control.call, 0

        async def restoring(command: object) -> object:
            nonlocal calls
            calls += 1
            log.store._objects[key] = moved
            return await call(command)  # type: ignore[arg-type]

        log.control.call = restoring  # type: ignore[method-assign, assignment]
        assert records_of(await log.fetch(0))
        assert calls == 1


async def test_an_object_that_stays_away_is_a_storage_error() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(BIG))
        log.store.delete(log.store.put_order)
        answer = await log.fetch(0, max_wait_ms=1000)
        assert (answer.error_code, size_of(answer)) == (56, 0)


async def test_s19_small_batches_are_coalesced_once_with_holes_and_without_producers() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        kept, dropped = await log.writer("kept"), await log.writer("dropped")
        for number in range(20):
            await kept.send(b"k%d" % number)
            await dropped.send(b"d%d" % number)
        await kept.end(committed=True)
        await dropped.end(committed=False)
        answer = await log.fetch(0)
        records = records_of(answer)
        assert records == [(2 * number, b"k%d" % number) for number in range(20)]
        assert len(batches_of(answer)) == 2
        batch = batches_of(answer)[0]
        header = batch.header
        assert (header.producer_id, header.is_transactional) == (-1, False)
        assert (header.base_offset, header.last_offset, header.record_count) == (0, 38, 20)
        assert [record.timestamp for record in batch.records()] == [TIME] * 20
        assert log.fetch_service.cache.metrics.coalesced == 1
        again = await log.fetch(0)
        assert answer.records is not None
        assert again.records is not None
        assert again.records[0].obj is answer.records[0].obj  # type: ignore[union-attr]
        assert log.fetch_service.cache.metrics.coalesced == 1


async def test_s19_coalesced_or_not_a_reader_sees_the_same_records() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        codecs = [Codec.NONE, Codec.LZ4, Codec.GZIP]
        for number in range(12):
            values = [b"%d-%d" % (number, index) for index in range(number % 3 + 1)]
            await log.produce(make_batch(*values, codec=codecs[number % 3]))
            if number % 4 == 0:
                await log.produce(make_batch(BIG, timestamp=TIME + number))
        everything = records_of(await log.fetch(0))
        assert [offset for offset, _ in everything] == list(range(len(everything)))
        for offset in range(len(everything)):
            tail = [record for record in records_of(await log.fetch(offset)) if record[0] >= offset]
            assert tail == everything[offset:]


async def test_s15_a_small_limit_gets_whole_batches_as_they_were_produced() -> None:
    """KIP-74: as many as fit, whether or not they were coalesced for another answer."""
    async with open_log() as log:
        await log.create_topic("t")
        sizes = [len(make_batch(b"x" * 1000))] * 5
        for _ in sizes:
            await log.produce(make_batch(b"x" * 1000))
        assert len(batches_of(await log.fetch(0))) == 1
        for count in (1, 2, 4):
            limit = sum(sizes[:count]) + 10
            for limits in ({"partition_max_bytes": limit}, {"max_bytes": limit}):
                answer = await log.fetch(0, **limits)
                assert (size_of(answer), len(batches_of(answer))) == (sum(sizes[:count]), count)


async def test_s15_a_batch_that_coalescing_made_larger_than_the_limit_is_not_sent() -> None:
    """The batch compresses well alone, but not when coalesced with uncompressed batches."""
    async with open_log() as log:
        await log.create_topic("t")
        large = make_batch(bytes(300_000), codec=Codec.GZIP)
        for number in range(9):
            await log.produce(make_batch(b"%d" % number))
        await log.produce(large)
        limit = 200_000
        assert [offset for offset, _ in records_of(await log.fetch(0, max_bytes=limit))] == [
            *range(9)
        ]
        answer = await log.fetch(9, max_bytes=limit)
        assert (size_of(answer), records_of(answer)) == (len(large), [(9, bytes(300_000))])


async def test_s19_log_append_times_stay_apart() -> None:
    async with open_log() as log:
        await log.create_topic("t", message_timestamp_type="LogAppendTime")
        times = []
        for number in range(3):
            times.append((await log.produce(make_batch(b"%d" % number))).log_append_time_ms)
            await asyncio.sleep(0.003)
        batches = batches_of(await log.fetch(0))
        assert [batch.header.max_timestamp for batch in batches] == times
        assert len(set(times)) == 3


async def test_read_uncommitted_and_read_committed_do_not_share_what_was_coalesced() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        await log.produce(make_batch(b"0"))
        await writer.send(b"1")
        await log.produce(make_batch(b"2"))
        await writer.end(committed=False)
        committed, everything = [(0, b"0"), (2, b"2")], [(0, b"0"), (1, b"1"), (2, b"2")]
        for _ in range(2):
            assert records_of(await log.fetch(0)) == committed
            assert records_of(await log.fetch(0, isolation=READ_UNCOMMITTED)) == everything
        cache = log.fetch_service.cache
        assert cache.metrics.bytes_now == sum(load.size for load in loads(log))
        forget(log)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4, 12))
async def test_s19_whoever_reads_what_others_coalesced_misses_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coalesced batches span extents, and plans begin, end and break off anywhere in them."""
    monkeypatch.setattr(coalescing, "COALESCED_BATCH_BYTES", 700)
    monkeypatch.setattr(coalescing, "COALESCE_SOURCE_BYTES", 3000)
    monkeypatch.setattr(gather, "SMALLEST_COALESCED_ANSWER", 1000)
    source = random.Random(seed)
    async with open_log(fetch=FetchSettings(cache_bytes=1 << 20, read_ahead_bytes=4096)) as log:
        await log.create_topic("t")
        kept, dropped = await log.writer("kept"), await log.writer("dropped")
        everything: list[tuple[int, bytes]] = []
        committed: list[tuple[int, bytes]] = []
        for number in range(120):
            values = [b"%d-%d" % (number, index) for index in range(source.randint(1, 4))]
            is_kept = source.random() < 0.8
            records = [(len(everything) + index, value) for index, value in enumerate(values)]
            everything += records
            committed += records * is_kept
            await (kept if is_kept else dropped).send(*values)
        await kept.end(committed=True)
        await dropped.end(committed=False)
        for _ in range(60):
            isolation = source.choice((READ_COMMITTED, READ_UNCOMMITTED))
            wanted = committed if isolation == READ_COMMITTED else everything
            offset = first = source.randrange(len(everything))
            limit = source.randint(200, 9000)
            read: list[tuple[int, bytes | None]] = []
            for _ in range(source.randint(1, 30)):
                if offset == len(everything):
                    break
                answer = await log.fetch(offset, isolation=isolation, partition_max_bytes=limit)
                read += [record for record in records_of(answer) if record[0] >= offset]
                assert next_offset_of(answer) > offset
                offset = next_offset_of(answer)
            assert read == [record for record in wanted if first <= record[0] < offset]


async def test_s20_zstd_passes_to_versions_older_than_it() -> None:
    """KIP-110 names v10, but since 4.0 Kafka sends it from v4 on, and clients of these versions read it."""
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(BIG, codec=Codec.ZSTD))
        answers = [await log.fetch(0, version=version) for version in (4, 9, 10)]
        assert [[value for _, value in records_of(answer)] for answer in answers] == [[BIG]] * 3


async def test_the_same_from_a_store_with_a_gap_and_one_without() -> None:
    for gap in (0, 100, 1 << 20):
        async with open_log(store=TestStore(gap)) as log:
            await log.create_topic("t")
            writer = await log.writer("x")
            for number in range(8):
                await asyncio.gather(
                    log.produce(make_batch(BIG + b"%d" % number)), writer.send(BIG)
                )
            await writer.end(committed=False)
            first = records_of(await log.fetch(0))
            assert len(first) == 8
            forget(log)
            assert records_of(await log.fetch(0)) == first


def test_the_settings_say_what_they_may_be() -> None:
    with pytest.raises(ValueError, match=r"fetch\.cache.bytes is 1: choose"):
        FetchSettings(cache_bytes=1)
    with pytest.raises(ValueError, match=r"fetch\.max.reads is 0: choose"):
        FetchSettings(max_reads=0)
    with pytest.raises(ValueError, match=r"fetch\.read.ahead.bytes is -1: choose"):
        FetchSettings(read_ahead_bytes=-1)
