"""Hot segments through an agent: written with their commits, read back, refused, and merged into the bucket."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast
from unittest import mock

import pytest

from lacuna.agent import hot as agent_hot
from lacuna.agent.hot import HotStore, is_hot_key
from lacuna.agent.housekeeping.merging import Merger, MergeSettings
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane import hot as plane_hot
from lacuna.controlplane.journal.journal import HotKey, JournalUnreachable
from lacuna.controlplane.v1.cluster_pb2 import ReleaseLease
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import ConfirmCollection, ReadHot
from lacuna.controlplane.v1.log_pb2 import SegmentId as SegmentIdMessage
from lacuna.controlplane.verbs import housekeeping
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.prices import AMAZON_S3, Prices
from lacuna.logstore.objects.store import (
    DamagedObjectError,
    ObjectNotFoundError,
    RangeRead,
    ShortReadError,
    StoreUnavailableError,
)
from lacuna.logstore.segments import (
    JournalEnd,
    LaterSegment,
    SegmentId,
    find_later,
    open_segment,
    parse_segment_key,
    segment_key,
)
from lacuna.logstore.segments.hot import hot_lease
from lacuna.logstore.segments.paths import MAX_LEASE_ID
from tests.agent.fetch.log import Log, TestStore, open_log, records_of
from tests.doubles.clock import iterations, until
from tests.doubles.journal import MemoryJournal
from tests.doubles.keys import some_keys

HOT = ProduceSettings(hot_bytes=4096)


def keys_in(log: Log) -> list[str]:
    return [info.key for info in log.store.list()]


async def merge(log: Log) -> None:
    """Merge everything that is stable, as an agent does."""
    settings = MergeSettings(min_age_ms=0)
    store = HotStore(log.store, log.control)
    with ThreadPoolExecutor(1) as executor:
        merger = Merger(log.control, store, log.lease, executor, settings, store.holding)
        assert await merger.run_once() is not None


async def test_a_small_flush_waits_for_nothing_and_is_in_the_journal_alone() -> None:
    """A flush written with a PUT would wait for an hour, since PUTs cost money."""
    journal, store = MemoryJournal("cluster"), TestStore()
    store.metrics.prices = AMAZON_S3
    costly = replace(HOT, requests_budget=1, flush_burst=1, longest_flush_wait_ms=3_600_000)
    async with open_log(store=store, produce=costly, journal=journal) as log:
        await log.create_topic("t")
        writer = await log.writer("id")
        for value in (b"a", b"b"):
            assert (await writer.send(value)).error_code == 0
        await writer.end(committed=True)
        assert records_of(await log.fetch(0)) == [(0, b"a"), (1, b"b")]
        assert keys_in(log) == []
        assert len(journal.hot) == 2
        assert log.produce_service.flusher.metrics.hot_flushes == 2


async def test_another_agent_reads_it_from_the_control_plane() -> None:
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        await (await log.writer()).send(b"a")
        (lease_id, sequence), size = next(iter(log.runtime._journal.hot.items()))
        key = segment_key(log.lease.cluster_id, SegmentId(lease_id, sequence))
        other = HotStore(log.store, log.control)
        async with other.holding([key, "cluster.json"]):
            whole = other.get_all(key)
            assert len(whole) == other.size(key) == size
            assert whole == other.get_up_to(key, 0, size + 1)
            assert whole == log.produce_service.flusher._hot.get_all(key)
            buffer = bytearray(6)
            reads = [RangeRead(key, 2, 8, [(3, 2, 0), (6, 4, 2)])]
            assert other.get_into(reads, buffer) == [None]
            assert buffer == whole[3:5] + whole[6:10]
            with pytest.raises(
                ShortReadError, match=f"only 1 of the 9 bytes at position {size - 1}"
            ):
                other.get(key, size - 1, 9)


async def test_no_segment_of_an_answer_takes_the_place_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one is cached until the first is read."""
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        writer = await log.writer()
        for value in (b"a", b"b"):
            await writer.send(value)
        sizes, hot = log.runtime._journal.hot, log.runtime._hot
        first, second = sizes
        monkeypatch.setattr(plane_hot, "_CACHE_BYTES", max(sizes.values()))
        hot._keep(second, hot._cache[second])
        assert [*hot._cache] == [second]
        keys = [segment_key(log.lease.cluster_id, SegmentId(*each)) for each in (first, second)]
        other = HotStore(log.store, log.control)
        async with other.holding(keys):
            assert [other.size(key) for key in keys] == [*sizes.values()]


async def test_a_large_flush_goes_to_the_bucket() -> None:
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        await (await log.writer()).send(bytes(5000))
        assert len(keys_in(log)) == 1
        assert not log.runtime._journal.hot


async def test_what_arrives_during_a_slow_put_becomes_hot() -> None:
    """It is committed after the flush in the PUT, without waiting to become too large for a hot segment."""
    store = TestStore()
    store.gate = threading.Event()
    async with open_log(store=store, produce=replace(HOT, hot_bytes=200_000)) as log:
        await log.create_topic("t")
        flusher = log.produce_service.flusher
        slow = asyncio.create_task((await log.writer()).send(bytes(300_000)))
        await until(lambda: flusher._flights)
        quick = asyncio.create_task((await log.writer()).send(bytes(150_000)))
        await until(lambda: len(flusher._flights) >= 2)
        assert [flight.is_hot for flight in flusher._flights] == [False, True]
        assert not quick.done()
        store.gate.set()
        assert [(await each).base_offset for each in (slow, quick)] == [0, 1]
        assert len(log.runtime._journal.hot) == 1


async def test_readers_leave_room_for_what_waits_for_its_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may hold more than the bound, in which case nothing else is kept."""
    monkeypatch.setattr(agent_hot, "_KEPT_BYTES", 0)
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        assert (await (await log.writer()).send(b"a")).error_code == 0
        assert keys_in(log) == []
        assert records_of(await log.fetch(0)) == [(0, b"a")]


@pytest.mark.parametrize(
    ("prices", "is_shared", "expected"),
    [
        (None, False, 1 << 17),
        (None, True, 1 << 17),
        (AMAZON_S3, False, 0),
        (AMAZON_S3, True, 1 << 19),
    ],
)
async def test_by_default_it_is_as_large_as_the_journal_is_durable(
    prices: Prices | None, is_shared: bool, expected: int
) -> None:
    """A journal on one disk takes no records that belong in a bucket."""
    async with open_log() as log:
        flusher = log.produce_service.flusher
        flusher.hot._settings = ProduceSettings()
        log.store.metrics.sent.prices = prices
        log.lease.is_journal_shared = is_shared
        assert flusher.hot.most_bytes == expected
        assert flusher.hot.is_journal_as_durable == (expected > 0)


async def test_what_the_control_plane_does_not_take_goes_to_the_bucket() -> None:
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        writer = await log.writer()
        log.runtime.state.hot_intake.max_bytes = 0
        for value in (b"a", b"b"):
            assert (await writer.send(value)).error_code == 0
        metrics = log.produce_service.flusher.metrics
        # The control plane is not asked again for a second.
        assert (metrics.hot_refused, metrics.hot_flushes) == (1, 0)
        assert len(keys_in(log)) == 2
        assert records_of(await log.fetch(0)) == [(0, b"a"), (1, b"b")]


async def copy_now(log: Log) -> None:
    """Do what the timer does."""
    copies = log.produce_service.flusher.copies
    copies._begin()
    assert copies._timer is None
    assert copies._putting is not None
    await copies._putting


async def test_the_newest_is_copied_to_the_bucket_now_and_then_and_at_the_end() -> None:
    """A restored journal is older than the copy, which contains the position that the journal had reached."""
    store = TestStore()
    async with open_log(store=store, produce=HOT) as log:
        await log.create_topic("t")
        writer = await log.writer()
        position = log.control.journal_position
        for value in (b"a", b"b", b"c"):
            await writer.send(value)
        assert keys_in(log) == []
        await copy_now(log)
        (key,) = keys_in(log)
        segment = max(log.runtime._journal.hot)
        assert parse_segment_key(key)[1] == SegmentId(*segment)
        assert open_segment(store, key).journal_position > position
        lease_id = log.lease.lease_id
        end = JournalEnd(position, lease_id + 1, {lease_id: 0})
        found = LaterSegment(key, SegmentId(lease_id, segment[1]), log.control.journal_position - 1)
        assert find_later(store, log.lease.cluster_id, end) == found
        await writer.send(b"d")
    copies = log.produce_service.flusher.copies
    assert (copies.copied, copies.failed) == (2, 0)
    assert len([*store.list()]) == 2


async def test_a_copy_that_fails_is_counted_and_a_later_one_is_put() -> None:
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        writer = await log.writer()
        log.store.failing_sequences = {1}
        for value in (b"a", b"b"):
            await writer.send(value)
            await copy_now(log)
        copies = log.produce_service.flusher.copies
        assert (copies.copied, copies.failed) == (1, 1)
        (key,) = keys_in(log)
        assert parse_segment_key(key)[1].sequence == 2


async def test_an_agent_that_is_killed_copies_nothing_more() -> None:
    store = TestStore()
    async with open_log(store=store, produce=HOT) as log:
        await log.create_topic("t")
        copies = log.produce_service.flusher.copies
        await (await log.writer()).send(b"a")
        assert copies._timer is not None
        copies.abort()
        assert copies._timer.cancelled()
        copies._timer = None
        store.gate = threading.Event()
        copies._begin()
        await asyncio.sleep(0)
        copies.abort()
        assert copies._putting is not None
        with pytest.raises(asyncio.CancelledError):
            await copies._putting
        await (await log.writer()).send(b"b")
        assert copies._timer is None
        copies._newest = None


async def test_what_a_job_has_copied_counts_as_a_copy() -> None:
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        await (await log.writer()).send(b"a")
        ((segment, data),) = (
            await log.runtime._journal.read_hot([*log.runtime._journal.hot])
        ).items()
        log.store.put(segment_key(log.lease.cluster_id, SegmentId(*segment)), [data])
        await copy_now(log)
        assert log.produce_service.flusher.copies.copied == 1


async def test_copies_of_many_processes_share_one_pace() -> None:
    async with open_log(produce=HOT) as log:
        copies, loop = log.produce_service.flusher.copies, asyncio.get_running_loop()
        waits = []
        for processes in (0, 1, 3, 6, 100):
            log.control.cluster.agent_processes = processes
            copies.committed(SegmentId(hot_lease(1), 1), b"a")
            assert copies._timer is not None
            waits.append(round(copies._timer.when() - loop.time()))
            copies._timer.cancel()
            copies._timer = None
        copies._newest = None
        assert waits == [10, 10, 30, 60, 60]


async def test_a_copy_under_a_lease_that_ended_is_collected() -> None:
    """An agent that was suspended puts the copy after the sweep, so the lease is swept again."""
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        await (await log.writer()).send(b"a")
        lease_id, state = log.lease.lease_id, log.runtime.state
        await log.control.call(Command(release_lease=ReleaseLease(lease_id=lease_id)))
        swept = Command(confirm_collection=ConfirmCollection(swept_lease_ids=[lease_id]))
        with mock.patch.object(housekeeping, "COLLECTION_GRACE_MS", 0):
            await log.control.call(swept)
        assert lease_id not in state.ended_leases
        await copy_now(log)
        assert len(keys_in(log)) == 1
        assert lease_id in state.ended_leases


async def test_merging_moves_it_to_the_bucket_without_what_was_aborted() -> None:
    journal = MemoryJournal("cluster")
    async with open_log(produce=HOT, journal=journal) as log:
        await log.create_topic("t")
        writer = await log.writer("id")
        for number in range(6):
            await writer.send(b"%d" % number)
            await writer.end(committed=number % 2 == 0)
        await merge(log)
        (key,) = keys_in(log)
        assert not is_hot_key(key)
        wanted = [(number, b"%d" % number) for number in (0, 2, 4)]
        assert records_of(await log.fetch(0)) == wanted
        state, hot = log.runtime.state, log.runtime._hot
        now_ms = log.runtime.now_ms()
        hot.drop_some(state, now_ms, decided=1, durable=1)
        assert hot._dropping is None, "fetches that were planned before may still read it"
        hot.drop_some(state, now_ms + 60_000, decided=2, durable=1)
        assert hot._dropping is None, "the swap may not be durable yet"
        hot.drop_some(state, now_ms + 60_000, decided=3, durable=2)
        while hot._dropping is not None:
            await hot._dropping
        assert not journal.hot
        assert hot.kept_bytes == 0
        log.fetch_service.cache._loads.clear()
        assert records_of(await log.fetch(0)) == wanted


async def test_a_tick_examines_a_few_and_the_next_one_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The duration of a tick does not grow with the journal, and segments that could not be dropped come up again."""
    examined: list[int] = []

    def is_due(key: HotKey, *_: object) -> bool:
        examined.append(key[1])
        return key[1] == 4

    async def refuse(_keys: object) -> None:
        raise JournalUnreachable("the test says so")

    monkeypatch.setattr(plane_hot, "_SEGMENTS_A_TICK", 3)
    monkeypatch.setattr(plane_hot, "_is_due", is_due)
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        writer = await log.writer()
        for number in range(5):
            await writer.send(b"%d" % number)
        hot = log.runtime._hot
        assert log.runtime._timer is not None
        log.runtime._timer.cancel()  # no ticks except the test's
        examined.clear()
        journal = cast(MemoryJournal, log.runtime._journal)
        with monkeypatch.context() as broken:
            broken.setattr(journal, "drop_hot", refuse)
            for _ in range(2):
                hot.drop_some(log.runtime.state, 0, decided=1, durable=1)
            assert hot._dropping is not None
            await hot._dropping
        assert sorted(examined[:5]) == [1, 2, 3, 4, 5]
        assert len(examined) == 6
        while 4 in (sequence for _, sequence in journal.hot):
            hot.drop_some(log.runtime.state, 0, decided=1, durable=1)
            await asyncio.gather(*filter(None, [hot._dropping]))
        assert len(hot._rounds) == 4
        assert hot.kept_bytes == sum(journal.hot.values())


async def test_a_read_after_it_was_dropped_finds_no_object() -> None:
    async with open_log(produce=HOT) as log:
        key = segment_key(log.lease.cluster_id, SegmentId(hot_lease(1), 1))
        store = HotStore(log.store, log.control)
        async with store.holding([key]):
            with pytest.raises(ObjectNotFoundError):
                store.get_all(key)
            (outcome,) = store.get_into([RangeRead(key, 0, 1, [(0, 1, 0)])], bytearray(1))
            assert isinstance(outcome, ObjectNotFoundError)
        store.delete([key])


async def test_without_a_control_plane_a_read_says_so() -> None:
    async with open_log(produce=HOT) as log:
        key = segment_key(log.lease.cluster_id, SegmentId(hot_lease(1), 1))
        store = HotStore(log.store, log.control)
        await log.runtime.close()
        with pytest.raises(StoreUnavailableError, match="is not held by its reader"):
            store.get_all(key)
        async with store.holding([key]):
            with pytest.raises(
                StoreUnavailableError, match="could not be read from the control plane"
            ):
                store.get_all(key)


async def test_a_read_does_not_wait_for_the_append_of_a_later_commit() -> None:
    """Its answer contains only durable records. An append to a bucket takes as long as a PUT."""
    journal = MemoryJournal("cluster")
    async with open_log(produce=HOT, journal=journal) as log:
        await log.create_topic("t")
        writer = await log.writer()
        await writer.send(b"a")
        ((lease_id, sequence),) = journal.hot
        journal.is_held = True
        later = asyncio.create_task(writer.send(b"b"))
        await until(lambda: log.runtime._appender._running is not None)
        segments = [SegmentIdMessage(lease_id=lease_id, sequence=sequence)]
        read = asyncio.create_task(log.control.call(Command(read_hot=ReadHot(segments=segments))))
        await iterations()
        is_answered, is_later_durable = read.done(), later.done()
        journal.is_held = False
        journal.release()
        assert (is_answered, is_later_durable) == (True, False)
        assert b"a" in read.result().hot_read.segments[0].data
        await later


async def test_encrypted_objects_are_encrypted_in_the_journal_too() -> None:
    journal = MemoryJournal("cluster")
    secret = b"a secret of a user"
    async with open_log(
        produce=HOT, journal=journal, over=lambda store: EncryptedStore(store, some_keys())
    ) as log:
        await log.create_topic("t")
        await (await log.writer()).send(secret)
        assert records_of(await log.fetch(0)) == [(0, secret)]
        (data,) = (await journal.read_hot([*journal.hot])).values()
        assert secret not in data


async def test_a_copy_in_the_bucket_is_read_where_the_journal_fails() -> None:
    """A job has put it there. The journal has dropped one segment, and its copy of the other is damaged."""
    async with open_log(produce=HOT) as log:
        await log.create_topic("t")
        await (await log.writer()).send(b"a")
        lease_id, sequence = next(iter(log.runtime._journal.hot))
        ids = [SegmentId(lease_id, sequence), SegmentId(lease_id, sequence + 1)]
        keys = [segment_key(log.lease.cluster_id, each) for each in ids]
        log.runtime._hot._cache.clear()
        cast(MemoryJournal, log.runtime._journal).damaged = {(lease_id, sequence)}
        store = HotStore(log.store, log.control)
        async with store.holding(keys):
            with pytest.raises(DamagedObjectError, match="its bytes in the journal"):
                store.get_all(keys[0])
            with pytest.raises(ObjectNotFoundError):
                store.get_all(keys[1])
            for key in keys:
                log.store.put(key, [key.encode()])
                assert store.get_all(key) == key.encode()
        store.delete(keys)
        assert keys_in(log) == []


async def test_what_readers_hold_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else is evicted, the least recently used first."""
    monkeypatch.setattr("lacuna.agent.hot._KEPT_BYTES", 10)
    async with open_log(produce=HOT) as log:
        store = HotStore(log.store, log.control)
        keys = [segment_key("c", SegmentId(hot_lease(1), number)) for number in range(4)]
        store.put(keys[0], [bytes(6)])
        async with store.holding(keys[:1]):
            for key in keys[1:]:
                store.put(key, [bytes(4), bytes(1)])
            assert store.size(keys[0]) == 6
            assert ([*store._held], [*store._free]) == (keys[:1], [])
            store.put(keys[3], [bytes(4)])
            assert ([*store._held], [*store._free]) == (keys[:1], [keys[3]])
        assert [*store._free] == [keys[3], keys[0]]
        store.put(keys[1], [bytes(1)])
        assert [*store._free] == [keys[0], keys[1]]
        assert store._kept_bytes == 7


def test_keys_say_which_segments_are_hot() -> None:
    for lease_id in (0, 1, 2**61, MAX_LEASE_ID >> 1):
        assert not is_hot_key(segment_key("c", SegmentId(lease_id, 5)))
        assert is_hot_key(segment_key("c", SegmentId(hot_lease(lease_id), 5)))
    assert not is_hot_key("cluster.json")
