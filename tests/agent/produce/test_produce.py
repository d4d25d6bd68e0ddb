"""Produce with a real control plane and a store that can fail: S2, S10, S11, S12."""

import asyncio
import threading
from collections.abc import Sequence
from typing import ClassVar

import pytest
from crc32c import crc32c

from lacuna.agent.api import MalformedRequest
from lacuna.agent.apis import k00_produce as api
from lacuna.agent.clock import SystemWallClock
from lacuna.agent.fetch.answers import READ_UNCOMMITTED
from lacuna.agent.lease import NO_LEASE
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.hot import MAX_HOT_BYTES
from lacuna.controlplane.v1.cluster_pb2 import AlterTopicConfigs, ConfigChange
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted
from lacuna.logstore.objects import Part
from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.segments.paths import parse_segment_key
from lacuna.wire.messages.produce import (
    PRODUCE_RESPONSE,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.agent.fetch.log import (
    TIME,
    Log,
    TestStore,
    batches_of,
    call_of,
    make_batch,
    open_log,
    produce_request,
    records_of,
)
from tests.doubles.clock import iterations, until

NOT_LEADER, STORAGE, CORRUPT, TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP = 6, 56, 2, 10, 87, 32


async def test_s2_an_answer_means_that_the_object_is_there_and_committed() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        log.store.gate = threading.Event()
        produce = asyncio.ensure_future(log.produce(make_batch(b"a", b"b")))
        await asyncio.sleep(0.03)
        assert not produce.done()
        log.store.gate.set()
        answer = await produce
        assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 0, 0)
        assert answer.log_append_time_ms == -1
        assert log.store.metrics.puts == 1
        assert (await log.produce(make_batch(b"c"))).base_offset == 2


async def test_batches_of_many_partitions_and_requests_share_a_segment() -> None:
    """Frames that arrive together share a flush; later ones share the next."""
    async with open_log() as log:
        await log.create_topic("t", partitions=3)
        sent = [log.produce(make_batch(b"%d" % n), partition=n % 3) for n in range(12)]
        answers = await asyncio.gather(*sent)
        offsets = sorted(answer.base_offset for answer in answers)
        assert offsets == [number // 3 for number in range(12)]
        assert log.store.metrics.puts == 1


async def test_one_request_with_many_partitions_and_a_bad_batch() -> None:
    """S11: a bad batch fails alone."""
    async with open_log() as log:
        await log.create_topic("t", partitions=3)
        broken = bytearray(make_batch(b"bad"))
        broken[-1] ^= 1
        request = produce_request(
            {("t", 0): make_batch(b"a"), ("t", 1): bytes(broken), ("t", 2): make_batch(b"c")}
        )
        response = await log.send(request)
        codes = [topic.partition_responses[0].error_code for topic in response.responses]
        assert codes == [0, CORRUPT, 0]


def bad_batches() -> dict[str, tuple[bytes, int]]:
    """Return invalid batches, with the error that each gets."""
    control = BatchToWrite(
        records=(NewRecord(offset_delta=0, key=b"\0\0\0\1"),),
        is_control=True,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
    ).encode()
    magic1 = bytearray(make_batch(b"x"))
    magic1[16] = 1
    return {
        "nothing": (b"", INVALID_RECORD),
        "two batches": (make_batch(b"a") + make_batch(b"b"), INVALID_RECORD),
        "magic 1": (bytes(magic1), INVALID_RECORD),
        "control": (control, INVALID_RECORD),
        "transaction without producer": (make_batch(b"a", transactional=True), INVALID_RECORD),
        "too large": (make_batch(b"x" * 2000), TOO_LARGE),
        "cut off": (make_batch(b"abc")[:-2], INVALID_RECORD),
    }


@pytest.mark.parametrize("name", bad_batches())
async def test_s11_what_may_not_enter(name: str) -> None:
    records, error_code = bad_batches()[name]
    async with open_log() as log:
        await log.create_topic("t", max_message_bytes="1000")
        answer = await log.produce(records, transactional_id="x")
        assert answer.error_code == error_code
        assert answer.error_message
        assert answer.base_offset == -1
        assert log.store.metrics.puts == 0


async def test_s11_a_changed_config_holds_from_the_next_batch_on() -> None:
    async with open_log() as log:
        await log.create_topic("t", max_message_bytes="1000")
        assert (await log.produce(make_batch(b"x" * 1500))).error_code == TOO_LARGE
        for value, expected in (("2000", 0), ("1000", TOO_LARGE)):
            change = ConfigChange(name="max.message.bytes", value=value)
            command = AlterTopicConfigs(name="t", changes=[change])
            await log.control.call(Command(alter_topic_configs=command))
            assert (await log.produce(make_batch(b"x" * 1500))).error_code == expected


async def test_s11_null_records_and_zstd_below_v7_are_refused() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        topic = TopicProduceData("t", partition_data=[PartitionProduceData(0)])
        request = ProduceRequest(None, -1, 1000, [topic])
        response = await log.send(request, 9)
        assert response.responses[0].partition_responses[0].error_code == INVALID_RECORD
        zstd = make_batch(b"a" * 50, codec=Codec.ZSTD)
        assert (await log.produce(zstd, version=6)).error_code == 76
        assert (await log.produce(zstd, version=7)).error_code == 0


async def test_s11_a_record_at_fault_is_named() -> None:
    """KIP-467: the answer contains the index of the record and the reason."""
    async with open_log() as log:
        await log.create_topic("t")
        answer = await log.produce(_with_wrong_delta())
        assert answer.error_code == INVALID_RECORD
        assert [error.batch_index for error in answer.record_errors] == [1]


async def test_s11_every_record_at_fault_is_named_from_v8_on() -> None:
    """KIP-467: a client that asks for the rejected records gets all of them."""
    async with open_log() as log:
        await log.create_topic("t", cleanup_policy="compact")
        keyless = make_batch(*[b"v"] * 10)
        answer = await log.produce(keyless)
        assert (answer.error_code, answer.base_offset) == (INVALID_RECORD, -1)
        assert [error.batch_index for error in answer.record_errors] == list(range(10))
        assert all(
            "needs a key" in (error.batch_index_error_message or "")
            for error in answer.record_errors
        )
        assert answer.error_message is not None
        assert answer.error_message.endswith("9 more records are invalid")
        assert (await log.produce(keyless, version=7)).record_errors == ()


@pytest.mark.slow
async def test_s11_what_an_answer_names_is_bounded() -> None:
    """A few kB decompress to a million records, but the answer is no larger than the request."""
    async with open_log() as log:
        await log.create_topic("t", cleanup_policy="compact")
        bomb = make_batch(*[b""] * 100_000, codec=Codec.ZSTD, step=0)
        answer = await log.produce(bomb)
        assert answer.error_code == INVALID_RECORD
        assert 0 < len(answer.record_errors) <= max(len(bomb) // 64, 50)
        response = ProduceResponse([TopicProduceResponse("t", partition_responses=[answer])])
        assert len(PRODUCE_RESPONSE.write(response, 9)) <= max(len(bomb), 5000)


async def test_s11_what_all_batches_of_a_request_name_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request may have thousands of batches."""
    monkeypatch.setattr("lacuna.agent.produce.service.MAX_NAMED_RECORDS", 30)
    async with open_log() as log:
        await log.create_topic("t", partitions=2, cleanup_policy="compact")
        bomb = make_batch(*[bytes(64)] * 20)
        request = produce_request({("t", 0): bomb, ("t", 1): bomb})
        answers = [topic.partition_responses[0] for topic in (await log.send(request)).responses]
        assert [answer.error_code for answer in answers] == [INVALID_RECORD] * 2
        named = [len(answer.record_errors) for answer in answers]
        assert named == [20, 10]


def _with_wrong_delta() -> bytes:
    """Return two records, the second with offset delta 2 instead of 1."""
    records = (NewRecord(offset_delta=0, value=b"a"), NewRecord(offset_delta=2, value=b"b"))
    batch = bytearray(BatchToWrite(records=records).encode())
    batch[23:27] = (1).to_bytes(4, "big")
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return bytes(batch)


async def test_s11_log_append_time_is_stored_and_returned_to_duplicates_too() -> None:
    async with open_log() as log:
        await log.create_topic("t", message_timestamp_type="LogAppendTime")
        writer = await log.writer()
        batch = writer.batch(b"a", b"b")
        first = await log.produce(batch)
        assert first.log_append_time_ms > TIME
        again = await log.produce(batch)
        assert again == first
        (read,) = batches_of(await log.fetch(0))
        assert read.header.max_timestamp == first.log_append_time_ms
        assert [record.timestamp for record in read.records()] == [first.log_append_time_ms] * 2


async def test_s11_timestamps_lie_in_the_topics_range() -> None:
    """message.timestamp.before.max.ms and .after.max.ms (an hour by default) apply only with CreateTime."""
    now_ms = SystemWallClock().now_ms()
    ahead, old = make_batch(b"a", timestamp=now_ms + 3_700_000), make_batch(b"o", timestamp=TIME)
    async with open_log() as log:
        await log.create_topic("default")
        assert (await log.produce(old)).error_code == 0
        refused = await log.produce(ahead)
        assert refused.error_code == INVALID_TIMESTAMP
        assert [error.batch_index for error in refused.record_errors] == [0]
        await log.create_topic("wide", message_timestamp_after_max_ms="3900000")
        assert (await log.produce(ahead)).error_code == 0
        await log.create_topic("young", message_timestamp_before_max_ms="60000")
        assert (await log.produce(old)).error_code == INVALID_TIMESTAMP
        assert (await log.produce(make_batch(b"a", timestamp=now_ms))).error_code == 0
        await log.create_topic(
            "arrival",
            message_timestamp_type="LogAppendTime",
            message_timestamp_before_max_ms="0",
            message_timestamp_after_max_ms="0",
        )
        assert (await log.produce(old)).error_code == (await log.produce(ahead)).error_code == 0


async def test_a_header_that_lies_about_its_max_timestamp_is_put_right() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        records = (NewRecord(offset_delta=0, timestamp=TIME, value=b"a"),)
        await log.produce(BatchToWrite(records=records, max_timestamp=TIME + 999).encode())
        (read,) = batches_of(await log.fetch(0))
        assert read.header.max_timestamp == TIME


async def test_s10_a_duplicate_gets_its_first_answer_and_a_gap_its_error() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer()
        first, second = writer.batch(b"a"), writer.batch(b"b")
        third = writer.batch(b"c")
        assert (await log.produce(first)).base_offset == 0
        assert (await log.produce(third)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await log.produce(first)).base_offset == 0
        assert (await log.produce(second)).base_offset == 1
        assert len(records_of(await log.fetch(0))) == 2


async def test_s12_after_a_failed_flush_the_later_batches_of_its_producers_fail_with_it() -> None:
    """Batches of other producers do not fail. Retrying all of them succeeds, because there was never a gap."""
    async with open_log(produce=ProduceSettings(max_flushes=3, flush_bytes=1)) as log:
        await log.create_topic("t")
        writer, other = await log.writer(), await log.writer()
        batches = [writer.batch(b"%d" % number) for number in range(4)]
        log.store.gate = threading.Event()
        log.store.failing_sequences = {1}
        sent = []
        for batch in batches:
            sent.append(asyncio.ensure_future(log.produce(batch)))
            await iterations()
        bystander = asyncio.ensure_future(log.produce(other.batch(b"other")))
        await iterations()
        await asyncio.sleep(0.02)
        log.store.gate.set()
        answers = await asyncio.gather(*sent)
        failed = [answer.error_code for answer in answers]
        assert all(code in (NOT_LEADER, STORAGE) for code in failed)
        assert STORAGE in failed
        assert (await bystander).error_code == 0
        log.store.gate = None
        for number, batch in enumerate(batches):
            assert (await log.produce(batch)).base_offset == number + 1


async def test_s12_a_failed_flush_of_an_old_epoch_does_not_fail_the_next_epochs_batches() -> None:
    """A client was killed with a batch in flight, and its successor has begun; sequences restart with each epoch."""
    async with open_log(produce=ProduceSettings(max_flushes=2, flush_bytes=1)) as log:
        await log.create_topic("t")
        old = await log.writer("x")
        await old.send(b"old")
        log.store.gate = threading.Event()
        log.store.failing_sequences = {2}
        late = asyncio.ensure_future(old.send(b"late"))
        await iterations()
        new = await log.writer("x")
        assert new.producer > old.producer
        sent = []
        for value in (b"first", b"second", b"third"):
            sent.append(asyncio.ensure_future(new.send(value)))
            await iterations()
        log.store.gate.set()
        assert (await late).error_code == STORAGE
        assert [answer.error_code for answer in await asyncio.gather(*sent)] == [0, 0, 0]


@pytest.mark.parametrize("version", [0, 3, 4, 13])
async def test_a_store_that_fails_is_told_by_an_error_that_the_version_knows(version: int) -> None:
    """KIP-112: clients before v4 treat KAFKA_STORAGE_ERROR as fatal."""
    async with open_log() as log:
        await log.create_topic("t")
        log.store.failing_sequences = {1}
        failed = (await log.produce(make_batch(b"a"), version=version)).error_code
        assert failed == (STORAGE if version >= 4 else NOT_LEADER)
        assert (await log.produce(make_batch(b"a"), version=version)).error_code == 0


def hold_first_put(log: Log) -> threading.Event:
    """Let the PUT of the first segment wait until the event is set."""
    may_end, put = threading.Event(), log.store.put

    def held_put(key: str, parts: Sequence[Part]) -> None:
        if parse_segment_key(key)[1].sequence == 1:
            assert may_end.wait(60)
        put(key, parts)

    log.store.put = held_put  # type: ignore[method-assign]
    return may_end


async def test_s12_commits_leave_in_the_order_of_the_buffer_whatever_the_puts_do() -> None:
    """The first PUT is held until the second has completed."""
    async with open_log(produce=ProduceSettings(max_flushes=2, flush_bytes=1)) as log:
        await log.create_topic("t")
        writer = await log.writer()
        first_put = hold_first_put(log)
        first = asyncio.ensure_future(log.produce(writer.batch(b"a")))
        await iterations()
        second = asyncio.ensure_future(log.produce(writer.batch(b"b")))
        await until(lambda: log.store.metrics.puts >= 1, 0.001)
        await iterations()
        assert not second.done()
        first_put.set()
        assert [(await first).base_offset, (await second).base_offset] == [0, 1]


async def test_s12_a_flush_that_fails_by_our_mistake_waits_for_those_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise, the next one would be committed before them, and its producer would have a gap."""
    async with open_log(produce=ProduceSettings(max_flushes=3, flush_bytes=1)) as log:
        await log.create_topic("t")
        writer, other = await log.writer(), await log.writer()
        first_put = hold_first_put(log)
        put = log.store.put

        def broken_put(key: str, parts: Sequence[Part]) -> None:
            if parse_segment_key(key)[1].sequence == 2:
                raise RuntimeError("no ObjectStoreError")
            put(key, parts)

        log.store.put = broken_put  # type: ignore[method-assign]
        sent = []
        for batch in (writer.batch(b"a"), other.batch(b"lost"), writer.batch(b"b")):
            sent.append(asyncio.ensure_future(log.produce(batch)))
            await iterations()
        await until(lambda: log.store.metrics.puts >= 1, 0.001)
        await iterations()
        assert not any(each.done() for each in sent)
        first_put.set()
        first, lost, second = await asyncio.gather(*sent)
        assert [(each.error_code, each.base_offset) for each in (first, second)] == [(0, 0), (0, 1)]
        assert lost.error_code == NOT_LEADER
        assert "unexpected error while flushing" in caplog.text


async def test_s12_a_flush_that_would_overtake_another_is_not_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Flushes wait for each other. One that does not wait commits nothing, and its batches fail."""
    async with open_log(produce=ProduceSettings(max_flushes=2, flush_bytes=1)) as log:
        await log.create_topic("t")
        writer, other = await log.writer(), await log.writer()
        flusher, batch = log.produce_service.flusher, other.batch(b"b")
        first_put = hold_first_put(log)
        first = asyncio.ensure_future(log.produce(writer.batch(b"a")))
        await iterations()
        flusher._last = None
        overtaking = asyncio.ensure_future(log.produce(batch))
        async with asyncio.timeout(60):
            assert (await overtaking).error_code == ErrorCode.REQUEST_TIMED_OUT
        first_put.set()
        assert (await first).base_offset == 0
        assert (await log.produce(batch)).base_offset == 1
    assert "FlushOrderBroken: " in caplog.text
    assert "would overtake an earlier flush" in caplog.text


class LossyControl:
    """A control plane that loses the reply to some commits, or the commits themselves, before or after
    accepting them.
    """

    def __init__(self, log: Log) -> None:
        self._call = log.control.call
        self.lost_replies = 0
        self.is_away = False
        self.commits: list[tuple[int, int]] = []
        log.control.call = self.call  # type: ignore[method-assign]

    async def call(self, command: Command) -> Reply:
        if not command.HasField("commit_segment"):
            return await self._call(command)
        segment = command.commit_segment.segment
        self.commits.append((segment.lease_id, segment.sequence))
        if self.is_away:
            raise ControlPlaneUnavailable("away")
        reply = await self._call(command)
        if self.lost_replies:
            self.lost_replies -= 1
            raise ControlPlaneUnavailable("the reply was lost")
        return reply


async def test_a_little_waits_for_the_commit_before_it_and_much_does_not() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        answers, call = asyncio.Event(), log.control.call

        async def held_call(command: Command) -> Reply:
            reply = await call(command)
            if command.HasField("commit_segment"):
                await answers.wait()
            return reply

        log.control.call = held_call  # type: ignore[method-assign]

        async def puts() -> int:
            await iterations()
            return log.store.metrics.puts

        sent = [asyncio.ensure_future(log.produce(make_batch(b"first")))]
        async with asyncio.timeout(60):
            while await puts() < 1:
                await asyncio.sleep(0.001)
        sent += [asyncio.ensure_future(log.produce(make_batch(b"little"))) for _ in range(3)]
        assert await puts() == 1
        sent.append(asyncio.ensure_future(log.produce(make_batch(bytes(200_000)))))
        async with asyncio.timeout(60):
            while await puts() < 2:
                await asyncio.sleep(0.001)
        answers.set()
        assert [(await each).base_offset for each in sent] == [0, 1, 2, 3, 4]
        assert await puts() == 2


async def test_s12_a_hot_flush_is_sent_behind_one_that_is_refused_and_committed_behind_it() -> None:
    """The second is sent before the first is answered. Both are then put, and committed in order."""
    async with open_log(produce=ProduceSettings(hot_bytes=1 << 16)) as log:
        await log.create_topic("t")
        writer = await log.writer()
        intake, call, commits = (
            log.runtime.state.hot_intake,
            log.control.call,
            list[CommitSegment](),
        )
        answers = asyncio.Event()

        async def held_call(command: Command) -> Reply:
            if not command.HasField("commit_segment"):
                return await call(command)
            commit = command.commit_segment
            commits.append(commit)
            intake.max_bytes = 0 if len(commits) == 1 else MAX_HOT_BYTES
            reply = await call(command)
            await answers.wait()
            return reply

        log.control.call = held_call  # type: ignore[method-assign]
        sent = []
        async with asyncio.timeout(60):
            for number in range(2):
                sent.append(asyncio.ensure_future(log.produce(writer.batch(b"%d" % number))))
                while len(commits) <= number:
                    await asyncio.sleep(0.001)
        assert not any(each.done() for each in sent)
        assert commits[1].follows == commits[0].segment.sequence
        answers.set()
        async with asyncio.timeout(60):
            assert [(await each).base_offset for each in sent] == [0, 1]
        assert [bool(each.hot) for each in commits] == [True, True, False, False]
        assert log.produce_service.flusher.metrics.hot_refused == 1
        assert log.produce_service.flusher.metrics.flushes_failed == 0


async def test_a_lost_commit_reply_is_asked_for_again_with_the_same_segment() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        lossy = LossyControl(log)
        lossy.lost_replies = 2
        answer = await log.produce(make_batch(b"a"))
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert len(lossy.commits) == 3
        assert len(set(lossy.commits)) == 1
        assert len(records_of(await log.fetch(0))) == 1


async def test_a_control_plane_that_stays_away_fails_the_flush_for_a_retry() -> None:
    """REQUEST_TIMED_OUT: the batch may have been stored, and a retry finds out."""
    settings = ProduceSettings(commit_timeout_ms=100)
    async with open_log(produce=settings) as log:
        await log.create_topic("t")
        writer = await log.writer()
        batch = writer.batch(b"a")
        lossy = LossyControl(log)
        lossy.is_away = True
        assert (await log.produce(batch)).error_code == ErrorCode.REQUEST_TIMED_OUT
        lossy.is_away = False
        object.__setattr__(settings, "commit_timeout_ms", 60_000)
        assert (await log.produce(batch)).base_offset == 0


async def test_s12_a_commit_behind_one_that_failed_is_not_sent_again() -> None:
    """A commit between the two may have been resent meanwhile, and then the control plane would accept this one."""
    settings = ProduceSettings(commit_timeout_ms=100, hot_bytes=1 << 16)
    async with open_log(produce=settings) as log:
        await log.create_topic("t")
        writer, other = await log.writer(), await log.writer()
        lossy = LossyControl(log)
        lossy.is_away = True
        first = asyncio.ensure_future(log.produce(writer.batch(b"a")))
        async with asyncio.timeout(60):
            await until(lambda: lossy.commits, 0.001)
            object.__setattr__(settings, "commit_timeout_ms", 60_000)
            second = asyncio.ensure_future(log.produce(writer.batch(b"b")))
            await until(lambda: len(set(lossy.commits)) >= 2, 0.001)
            for each in (first, second):
                assert (await each).error_code == ErrorCode.REQUEST_TIMED_OUT
            failed, tried = set(lossy.commits), len(lossy.commits)
            lossy.is_away = False
            assert (await log.produce(other.batch(b"c"))).base_offset == 0
        assert not failed & set(lossy.commits[tried:])


async def test_an_expired_lease_does_not_deny_what_was_sent_in_an_earlier_session() -> None:
    """The client sent the commit in two sessions; the first time, its lease had not ended yet."""
    async with open_log() as log:
        await log.create_topic("t")
        call = log.control.call

        async def call_twice(command: Command) -> Reply:
            reply = await call(command)
            if command.HasField("commit_segment"):
                assert not reply.segment_committed.error_code
                log.control.cluster.sessions += 1
                expired = SegmentCommitted(error_code=ErrorCode.LEASE_EXPIRED)
                return Reply(segment_committed=expired)
            return reply

        log.control.call = call_twice  # type: ignore[method-assign]
        answer = await log.produce(make_batch(b"a"))
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("hot_bytes", [0, 1 << 16])
async def test_an_expired_lease_fails_the_flush_and_is_given_up(hot_bytes: int) -> None:
    """Clients retry, and no segment id of the old lease is used again."""
    async with open_log(produce=ProduceSettings(hot_bytes=hot_bytes)) as log:
        await log.create_topic("t")
        writer = await log.writer()
        batch = writer.batch(b"a")
        await log.lease.stop_renewing()
        await log.lease.release(1.0)
        log.lease.lease_id = 999
        assert (await log.produce(batch)).error_code == NOT_LEADER
        assert log.lease.lease_id == NO_LEASE
        assert (await log.produce(batch)).error_code == NOT_LEADER
        await log.lease.start(9092)
        assert (await log.produce(batch)).base_offset == 0
        assert len(set(log.store.put_order)) == len(log.store.put_order)


async def test_acks_other_than_minus_1_0_1_are_refused_and_0_is_not_answered() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        assert (await log.produce(make_batch(b"a"), acks=2)).error_code == 21
        call = call_of(12, _Context(log))
        quiet = produce_request({("t", 0): make_batch(b"a")}, acks=0)
        assert await api.handle(call, quiet) is None
        bad = produce_request({("t", 9): make_batch(b"a")}, acks=0)
        with pytest.raises(CommandRefused):
            await api.handle(call, bad)
        with pytest.raises(MalformedRequest):
            api.refuse(call, bad, 3)
        assert len(records_of(await log.fetch(0))) == 1


class _Context:
    def __init__(self, log: Log) -> None:
        self.produce = log.produce_service


async def test_unknown_topics_and_partitions() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        wrong = await log.produce(make_batch(b"a"), partition=1)
        assert wrong.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = TopicProduceData(
            "", bytes(16), [PartitionProduceData(0, memoryview(make_batch(b"a")))]
        )
        request = ProduceRequest(None, -1, 1000, [topic])
        response = await log.send(request, 13)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_s6_a_topic_deleted_with_its_batch_in_flight() -> None:
    """A client that used the name gets an error for it. Before v13, many treat UNKNOWN_TOPIC_ID as fatal."""
    async with open_log() as log:
        topic_id = await log.create_topic("t")
        log.store.gate = threading.Event()
        by_name = asyncio.ensure_future(log.produce(make_batch(b"a")))
        asked = PartitionProduceData(0, memoryview(make_batch(b"a")))
        request = ProduceRequest(None, -1, 1000, [TopicProduceData("", topic_id, [asked])])
        by_id = asyncio.ensure_future(log.send(request, 13))
        await iterations()
        await log.delete_topic()
        await log.create_topic("t")
        log.store.gate.set()
        assert (await by_name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await by_id).responses[0].partition_responses[
            0
        ].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (await log.fetch(0)).high_watermark == 0


async def test_s11_transactional_records_need_the_transactional_id_of_their_producer() -> None:
    """A missing id returns 53, an empty one INVALID_REQUEST, and another producer's INVALID_PRODUCER_ID_MAPPING."""
    async with open_log() as log:
        await log.create_topic("t")
        writer, other = await log.writer("x"), await log.writer("y")
        batch = writer.batch(b"a")
        expected = {
            None: 53,
            "": ErrorCode.INVALID_REQUEST,
            "y": ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "unknown": ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        }
        for transactional_id, error_code in expected.items():
            answer = await log.produce(batch, transactional_id=transactional_id)
            assert answer.error_code == error_code, transactional_id
        together = await asyncio.gather(
            log.produce(other.batch(b"o"), transactional_id="y"),
            log.produce(batch, transactional_id="y"),
            log.produce(batch, transactional_id="x"),
            log.produce(make_batch(b"plain"), transactional_id="unknown"),
        )
        assert log.store.metrics.puts == 3
        codes = [answer.error_code for answer in together]
        assert codes == [0, ErrorCode.INVALID_PRODUCER_ID_MAPPING, 0, 0]


async def test_s3_before_v12_a_partition_must_have_been_added() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        batch = writer.batch(b"a")
        expected = {10: ErrorCode.INVALID_TXN_STATE, 11: ErrorCode.TRANSACTION_ABORTABLE}
        for version, error_code in expected.items():
            early = await log.produce(batch, transactional_id="x", version=version)
            assert early.error_code == error_code
        await writer.add()
        answer = await log.produce(batch, transactional_id="x", version=11)
        assert answer.error_code == 0
        assert len(records_of(await log.fetch(0, isolation=READ_UNCOMMITTED))) == 1


async def test_payload_reaches_the_store_without_a_copy() -> None:
    class Recording(TestStore):
        parts: ClassVar[list[Part]] = []

        def put(self, key: str, parts: Sequence[Part]) -> None:
            self.parts.extend(parts)
            super().put(key, parts)

    store = Recording()
    async with open_log(store=store) as log:
        await log.create_topic("t")
        records = make_batch(b"payload")
        await log.produce(records)
        assert any(isinstance(part, memoryview) and part.obj is records for part in store.parts)


async def test_the_settings_say_what_they_may_be() -> None:
    with pytest.raises(ValueError, match=r"requests\.budget is 0: choose"):
        ProduceSettings(requests_budget=0)
    with pytest.raises(ValueError, match=r"produce\.flush.bytes is 0: choose"):
        ProduceSettings(flush_bytes=0)
