"""S11, S12: which batches wait behind one that is recompressed or checked in a thread."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lacuna.agent.produce import service
from lacuna.agent.produce.buffer import MOST_OF_FLUSH, PendingBatch
from lacuna.agent.produce.check import check_batch
from lacuna.agent.produce.recompress import recompressed
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.records.layout import Codec
from lacuna.wire.messages.produce import PartitionProduceResponse
from tests.agent.fetch.log import Log, make_batch, open_log, produce_request, records_of
from tests.doubles.clock import iterations


class Held:
    """Recompression that begins and then waits; `began` counts its calls."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.began = threading.Semaphore(0)
        self.may_end = threading.Event()
        patch.setattr("lacuna.agent.produce.recompress.recompressed", self.recompress)

    def recompress(self, *given: Any) -> bytes:
        self.began.release()
        assert self.may_end.wait(60)
        return recompressed(*given)

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.began.acquire, timeout=60)


@asynccontextmanager
async def holding(patch: pytest.MonkeyPatch, **configs: str) -> AsyncIterator[tuple[Log, Held]]:
    """A topic "z" with two partitions and zstd compression, with recompression on hold."""
    held = Held(patch)
    async with open_log() as log:
        await log.create_topic("z", 2, compression_type="zstd", **configs)
        try:
            yield log, held
        finally:
            held.may_end.set()


def begun(sending: Awaitable[PartitionProduceResponse]) -> asyncio.Future[PartitionProduceResponse]:
    return asyncio.ensure_future(sending)


async def test_nobody_else_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other topics, partitions and producers do not wait, nor do other batches of the same request."""
    async with holding(monkeypatch) as (log, held):
        slow, quick = await log.writer(), await log.writer()
        batches = {
            ("z", 0): slow.batch(b"slow", codec=Codec.GZIP),
            ("z", 1): slow.batch(b"beside", partition=1, codec=Codec.ZSTD),
        }
        sent = asyncio.ensure_future(log.send(produce_request(batches)))
        await held.has_begun()
        assert log.produce_service.lanes.waiting == 1
        assert (await quick.send(b"same partition", codec=Codec.ZSTD)).base_offset == 0
        assert (await slow.send(b"other", partition=1, codec=Codec.ZSTD)).base_offset == 1
        assert (await log.produce(make_batch(b"plain", codec=Codec.ZSTD))).base_offset == 1
        await log.create_topic("t")
        assert (await slow.send(b"other topic")).error_code == 0
        assert not sent.done()
        held.may_end.set()
        answers = [topic.partition_responses[0] for topic in (await sent).responses]
        assert [each.base_offset for each in answers] == [2, 0]
        assert log.produce_service.lanes.waiting == 0


async def test_two_are_compressed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with holding(monkeypatch) as (log, held):
        writers = [await log.writer() for _ in range(3)]
        sent = [begun(each.send(b"x", codec=Codec.GZIP)) for each in writers]
        await held.has_begun()
        await held.has_begun()
        assert not held.began.acquire(blocking=False)
        held.may_end.set()
        assert {each.base_offset for each in await asyncio.gather(*sent)} == {0, 1, 2}


async def test_a_request_that_waits_in_two_lanes_goes_on_after_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with holding(monkeypatch) as (log, held):
        writer = await log.writer()
        first = begun(writer.send(b"0", codec=Codec.GZIP))
        second = begun(writer.send(b"0", partition=1, codec=Codec.GZIP))
        await held.has_begun()
        await held.has_begun()
        both = {
            ("z", index): writer.batch(b"1", partition=index, codec=Codec.ZSTD)
            for index in range(2)
        }
        third = asyncio.ensure_future(log.send(produce_request(both)))
        await iterations()
        last = [begun(writer.send(b"2", partition=each, codec=Codec.ZSTD)) for each in range(2)]
        await iterations()
        assert not third.done()
        assert not any(each.done() for each in (first, second, *last))
        held.may_end.set()
        await asyncio.gather(first, second, third, *last)
        for partition in range(2):
            found = records_of(await log.fetch(0, partition=partition))
            assert [value for _, value in found] == [b"0", b"1", b"2"]


async def test_a_partition_that_a_request_names_twice_keeps_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with holding(monkeypatch) as (log, held):
        writer = await log.writer()
        request = produce_request({("z", 0): writer.batch(b"0", codec=Codec.GZIP)})
        again = produce_request({("z", 0): writer.batch(b"1", codec=Codec.ZSTD)})
        request = request._replace(topic_data=[*request.topic_data, *again.topic_data])
        sent = asyncio.ensure_future(log.send(request))
        await held.has_begun()
        await iterations()
        held.may_end.set()
        answers = [topic.partition_responses[0] for topic in (await sent).responses]
        assert [each.base_offset for each in answers] == [0, 1]


async def test_who_gives_up_lets_those_behind_go_on_in_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A closed connection cancels its requests, including the one waiting in the middle."""
    async with holding(monkeypatch) as (log, held):
        plain = [make_batch(b"%d" % number, codec=Codec.GZIP) for number in range(3)]
        sent = [begun(log.produce(batch)) for batch in plain]
        await held.has_begun()
        sent[1].cancel()
        await iterations()
        assert not sent[2].done()
        held.may_end.set()
        assert [(await sent[index]).base_offset for index in (0, 2)] == [0, 1]
        found = records_of(await log.fetch(0))
        assert [value for _, value in found] == [b"0", b"2"]


async def test_append_times_ascend(monkeypatch: pytest.MonkeyPatch) -> None:
    """With LogAppendTime, all batches of a partition wait, since their times are already set."""
    append_time = {"message_timestamp_type": "LogAppendTime"}
    async with holding(monkeypatch, **append_time) as (log, held):
        slow, quick = await log.writer(), await log.writer()
        first = begun(slow.send(b"slow", codec=Codec.GZIP))
        await held.has_begun()
        second = begun(quick.send(b"quick", codec=Codec.ZSTD))
        elsewhere = await quick.send(b"elsewhere", partition=1, codec=Codec.ZSTD)
        assert elsewhere.error_code == 0
        assert not second.done()
        held.may_end.set()
        assert [(await each).base_offset for each in (first, second)] == [0, 1]


MANY = [b"a", b"b", b"c"]


class HeldChecks:
    """A check in a thread that begins and then waits. The event loop's own checks do not wait."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.began = threading.Semaphore(0)
        self.may_end = threading.Event()
        patch.setattr("lacuna.agent.produce.check._FEW_RECORDS", 2)
        patch.setattr(service, "check_batch", self.check)

    def check(self, *given: Any) -> PendingBatch:
        if threading.current_thread() is not threading.main_thread():
            self.began.release()
            assert self.may_end.wait(60)
        return check_batch(*given)

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.began.acquire, timeout=60)


@pytest.mark.parametrize("time", ["CreateTime", "LogAppendTime"])
async def test_s12_only_what_must_stay_behind_a_large_batch_waits_for_its_check(
    monkeypatch: pytest.MonkeyPatch, time: str
) -> None:
    held = HeldChecks(monkeypatch)
    async with open_log() as log:
        await log.create_topic("t", 2, message_timestamp_type=time)
        slow, quick = await log.writer(), await log.writer()
        large = asyncio.ensure_future(log.produce(slow.batch(*MANY)))
        await held.has_begun()
        behind = asyncio.ensure_future(log.produce(slow.batch(b"d")))
        await iterations()
        assert (await log.produce(quick.batch(b"x", partition=1), partition=1)).base_offset == 0
        if time == "CreateTime":
            assert (await log.produce(quick.batch(b"x"))).base_offset == 0
        assert not behind.done()
        held.may_end.set()
        first = (await large).base_offset
        assert first == (time == "CreateTime")
        assert (await behind).base_offset == first + 3
        assert log.produce_service.lanes.waiting == 0


async def test_s11_a_large_batch_is_refused_as_a_small_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The faulty records are listed, and the other batches of the request are kept."""
    async with open_log() as log:
        await log.create_topic("t", 2, cleanup_policy="compact")
        batches = {("t", 0): make_batch(*MANY), ("t", 1): b"no batch"}
        small = await log.send(produce_request(batches))
        HeldChecks(monkeypatch).may_end.set()
        large = await log.send(produce_request(batches))
        assert large == small
        named = large.responses[0].partition_responses[0].record_errors
        assert [each.batch_index for each in named] == [0, 1, 2]


async def test_a_small_batch_of_many_bytes_is_checked_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = HeldChecks(monkeypatch)
    monkeypatch.setattr(service, "FEW_BYTES", 1000)
    async with open_log() as log:
        await log.create_topic("t")
        sending = asyncio.ensure_future(log.produce(make_batch(bytes(2000), codec=Codec.ZSTD)))
        await held.has_begun()
        held.may_end.set()
        assert (await sending).error_code == ErrorCode.NONE
        assert records_of(await log.fetch(0)) == [(0, bytes(2000))]


@pytest.mark.slow
async def test_many_batches_are_flushed_by_several_commits_in_order() -> None:
    """A commit is one decision of the control plane, however many partitions a request names."""
    async with open_log() as log:
        partitions = 2 * MOST_OF_FLUSH
        await log.create_topic("t", partitions)
        batches = {("t", partition): make_batch(b"a") for partition in range(partitions)}
        answer = await log.send(produce_request(batches))
        codes = {
            each.error_code for topic in answer.responses for each in topic.partition_responses
        }
        assert codes == {0}
        assert len(log.store.put_order) == 2
