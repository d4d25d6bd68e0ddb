"""S11, S12: a batch with a slow check is checked in a thread, and keeps its place."""

import asyncio
import threading
from typing import Any

import pytest

from lacuna.agent.produce import service
from lacuna.agent.produce.buffer import MOST_OF_FLUSH, PendingBatch
from lacuna.agent.produce.check import check_batch
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.records.layout import Codec
from tests.agent.fetch.log import make_batch, open_log, produce_request, records_of
from tests.loop_iterations import iterations

MANY = [b"a", b"b", b"c"]


class Held:
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
    held = Held(monkeypatch)
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
        Held(monkeypatch).may_end.set()
        large = await log.send(produce_request(batches))
        assert large == small
        named = large.responses[0].partition_responses[0].record_errors
        assert [each.batch_index for each in named] == [0, 1, 2]


async def test_a_small_batch_of_many_bytes_is_checked_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held(monkeypatch)
    monkeypatch.setattr(service, "FEW_BYTES", 1000)
    async with open_log() as log:
        await log.create_topic("t")
        sending = asyncio.ensure_future(log.produce(make_batch(bytes(2000), codec=Codec.ZSTD)))
        await held.has_begun()
        held.may_end.set()
        assert (await sending).error_code == ErrorCode.NONE
        assert records_of(await log.fetch(0)) == [(0, bytes(2000))]


async def test_many_batches_are_flushed_by_several_commits_in_order() -> None:
    """A commit is one decision of the control plane, however many partitions a request names."""
    async with open_log(produce=ProduceSettings(flush_interval_ms=60_000)) as log:
        partitions = 2 * MOST_OF_FLUSH
        await log.create_topic("t", partitions)
        batches = {("t", partition): make_batch(b"a") for partition in range(partitions)}
        answer = await log.send(produce_request(batches))
        codes = {
            each.error_code for topic in answer.responses for each in topic.partition_responses
        }
        assert codes == {0}
        assert len(log.store.put_order) == 2
