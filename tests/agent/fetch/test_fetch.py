"""Fetch with a real control plane: S13 to S18 and S20, and the figures of seeds 001_ and 004_."""

import asyncio

import pytest

from lacuna.agent.apis import k01_fetch as api
from lacuna.agent.apis.k01_fetch import refuse
from lacuna.agent.fetch.answers import READ_COMMITTED, READ_UNCOMMITTED, size_of
from lacuna.agent.fetch.sessions import FINAL_EPOCH
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.records.control import ControlType, read_control_record
from lacuna.logstore.records.layout import Codec
from lacuna.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tests.agent.fetch.log import (
    TestStore,
    batches_of,
    call_of,
    fetch_request,
    make_batch,
    next_offset_of,
    open_log,
    records_of,
)
from tests.doubles.clock import iterations

BIG = bytes(range(256)) * 20


async def test_s13_read_uncommitted_reads_to_the_high_watermark_and_read_committed_to_the_lso() -> (
    None
):
    """001_: only an open transaction holds read_committed back."""
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(b"plain"))
        writer = await log.writer("x")
        await writer.send(b"open")
        await log.produce(make_batch(b"behind"))
        committed = await log.fetch(0)
        assert records_of(committed) == [(0, b"plain")]
        assert (committed.last_stable_offset, committed.high_watermark) == (1, 3)
        uncommitted = await log.fetch(0, isolation=READ_UNCOMMITTED)
        assert records_of(uncommitted) == [(0, b"plain"), (1, b"open"), (2, b"behind")]
        await writer.end(committed=True)
        behind = records_of(await log.fetch(1))
        # The coalesced batch begins before the requested offset: a client skips the excess (S15).
        assert [record for record in behind if record[0]] == [(1, b"open"), (2, b"behind")]


async def test_s13_at_the_end_there_are_zero_bytes_after_max_wait() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        loop = asyncio.get_running_loop()
        begin = loop.time()
        answer = await log.fetch(0, max_wait_ms=60)
        assert loop.time() - begin >= 0.055
        assert (answer.error_code, size_of(answer), answer.records) == (0, 0, ())


@pytest.mark.parametrize("isolation", [READ_COMMITTED, READ_UNCOMMITTED])
async def test_s13_a_waiting_fetch_wakes_as_soon_as_its_bound_moves(isolation: int) -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        fetch = asyncio.ensure_future(log.fetch(0, isolation=isolation, max_wait_ms=600_000))
        await writer.send(b"a")
        if isolation == READ_COMMITTED:
            await asyncio.sleep(0.02)
            assert not fetch.done()
            await writer.end(committed=True)
        answer = await asyncio.wait_for(fetch, 60)
        assert records_of(answer) == [(0, b"a")]


async def test_s13_an_abort_wakes_a_waiting_fetch_and_moves_it_on() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        await writer.send(b"a", b"b")
        fetch = asyncio.ensure_future(log.fetch(0, max_wait_ms=600_000))
        await asyncio.sleep(0)
        await writer.end(committed=False)
        answer = await asyncio.wait_for(fetch, 60)
        assert records_of(answer) == []
        assert next_offset_of(answer) == 2


async def test_s13_min_bytes_are_waited_for() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(b"x" * 100))
        fetch = asyncio.ensure_future(log.fetch(0, min_bytes=5000, max_wait_ms=600_000))
        await asyncio.sleep(0.02)
        assert not fetch.done()
        await log.produce(make_batch(b"y" * 6000))
        assert len(records_of(await asyncio.wait_for(fetch, 60))) == 2


async def test_s13_nobody_waits_for_more_than_the_answer_may_hold() -> None:
    """The bound may come from the client or from the agent."""
    async with open_log(fetch=FetchSettings(max_response_bytes=8192)) as log:
        await log.create_topic("t")
        for _ in range(4):
            await log.produce(make_batch(b"x" * 4000))
        waits = {"min_bytes": 1 << 20, "max_wait_ms": 600_000}
        for max_bytes, count in ((5000, 1), (50 << 20, 2)):
            fetch = log.fetch(0, max_bytes=max_bytes, **waits)
            assert len(records_of(await asyncio.wait_for(fetch, 60))) == count


async def test_s14_001_an_aborted_a_plain_and_a_committed_producer() -> None:
    """The figures of 001_: the records read are plain and committed, in order, at true offsets."""
    async with open_log() as log:
        await log.create_topic("t")
        aborted, committed = await log.writer("aborted"), await log.writer("committed")
        await aborted.send(b"a0", b"a1")
        await log.produce(make_batch(b"p2"))
        await committed.send(b"c3", b"c4")
        await aborted.send(b"a5")
        await aborted.end(committed=False)
        assert records_of(await log.fetch(0)) == [(2, b"p2")]
        await committed.end(committed=True)
        answer = await log.fetch(0)
        assert records_of(answer) == [(2, b"p2"), (3, b"c3"), (4, b"c4")]
        assert next_offset_of(answer) == 6
        everything = await log.fetch(0, isolation=READ_UNCOMMITTED)
        assert [offset for offset, _ in records_of(everything)] == [0, 1, 2, 3, 4, 5]


async def test_s17_004_aborted_records_at_offsets_0_to_10_and_the_next_fetch_is_at_11() -> None:
    """004_: no record is left, so one synthetic control record from producer 0 moves the client on."""
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        await writer.send(*[b"r%d" % number for number in range(11)])
        await writer.end(committed=False)
        reads = log.store.metrics.gets
        answer = await log.fetch(0)
        (batch,) = batches_of(answer)
        header = batch.header
        assert (header.base_offset, header.last_offset, header.next_offset) == (0, 10, 11)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (0, 0, -1)
        assert header.is_control
        assert header.is_transactional
        assert header.codec is Codec.NONE
        (record,) = batch.records()
        assert record.offset == 10
        control = read_control_record(record)
        assert control.type_number == ControlType.COMMIT
        assert log.store.metrics.gets == reads
        assert size_of(answer) < 200
        again = await log.fetch(11)
        assert (again.error_code, size_of(again), again.high_watermark) == (0, 0, 11)


async def test_s15_the_first_batch_may_begin_before_the_asked_offset() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(*[BIG + b"%d" % number for number in range(4)]))
        await log.produce(make_batch(BIG))
        answer = await log.fetch(2)
        assert batches_of(answer)[0].header.base_offset == 0
        assert batches_of(await log.fetch(4))[0].header.base_offset == 4


async def test_s15_one_batch_is_given_even_where_it_is_larger_than_the_limits() -> None:
    """KIP-74: the first batch in the answer is always returned; the others obey the limits."""
    async with open_log() as log:
        await log.create_topic("t")
        for _ in range(4):
            await log.produce(make_batch(BIG))
        one = await log.fetch(0, partition_max_bytes=1, max_bytes=1)
        assert [offset for offset, _ in records_of(one)] == [0]
        size = size_of(one)
        two = await log.fetch(1, partition_max_bytes=2 * size + 10)
        assert [offset for offset, _ in records_of(two)] == [1, 2]


async def test_s16_a_hole_between_records_is_jumped_and_the_one_behind_them_closed() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        await log.produce(make_batch(BIG))
        await writer.send(b"1", b"2")
        await log.produce(make_batch(BIG))
        await writer.send(b"4")
        await writer.end(committed=False)
        answer = await log.fetch(0)
        assert [offset for offset, _ in records_of(answer)] == [0, 3]
        filler = batches_of(answer)[-1].header
        assert filler.is_control
        assert (filler.base_offset, filler.next_offset) == (4, 5)


async def test_s16_an_answer_that_the_limit_cuts_stays_within_it() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        await log.produce(make_batch(BIG))
        await writer.send(b"1")
        await writer.end(committed=False)
        await log.produce(make_batch(BIG))
        size = size_of(await log.fetch(0, partition_max_bytes=1))
        tight = await log.fetch(0, partition_max_bytes=size)
        assert (size_of(tight), next_offset_of(tight)) == (size, 1)
        roomy = await log.fetch(0, partition_max_bytes=size + 200)
        assert [batch.header.is_control for batch in batches_of(roomy)] == [False, True]
        assert next_offset_of(roomy) == 2


async def test_s17_asked_in_the_middle_of_a_hole() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        await writer.send(*[b"r"] * 10)
        await writer.end(committed=False)
        (batch,) = batches_of(await log.fetch(7))
        assert (batch.header.base_offset, batch.header.next_offset) == (7, 10)


@pytest.mark.parametrize("gap", [0, 1 << 20])
async def test_s18_aborted_payload_is_not_read(gap: int) -> None:
    """GETs read only the bytes of the live extents. With a read_gap, smaller holes are read too."""
    async with open_log(store=TestStore(gap)) as log:
        await log.create_topic("t")
        writers = [await log.writer(f"x{number}") for number in range(4)]
        live = 0
        for round_number in range(6):
            plain = make_batch(BIG + b"%d" % round_number)
            live += len(plain)
            await asyncio.gather(*(writer.send(BIG) for writer in writers), log.produce(plain))
        for writer in writers:
            await writer.end(committed=False)
        before = log.store.metrics.bytes_read
        answer = await log.fetch(0)
        assert len(records_of(answer)) == 6
        read = log.store.metrics.bytes_read - before
        assert read == live


async def test_s18_live_ranges_nearer_than_the_read_gap_are_one_read() -> None:
    async with open_log(store=TestStore(1 << 20)) as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        log.store.gate = None
        await asyncio.gather(
            log.produce(make_batch(BIG)), writer.send(BIG), log.produce(make_batch(BIG))
        )
        await writer.end(committed=False)
        assert log.store.metrics.puts == 1
        answer = await log.fetch(0)
        assert [offset for offset, _ in records_of(answer)] == [0, 2]
        assert log.store.metrics.gets == 1


async def test_s20_a_passed_through_batch_keeps_its_bytes_but_offset_and_epoch() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(b"first" + BIG))
        writer = await log.writer("x")
        sent = writer.batch(BIG, b"1", b"2", codec=Codec.LZ4)
        await log.produce(sent, transactional_id="x")
        await writer.end(committed=True)
        answer = await log.fetch(1)
        got = b"".join(answer.records or ())
        assert got[8:12] + got[16:] == sent[8:12] + sent[16:]
        assert got[:8] == (1).to_bytes(8, "big")
        assert got[12:16] == bytes(4)


async def test_s7_out_of_range_is_answered_after_a_confirming_read() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(b"a"))
        await log.produce(make_batch(b"b"))
        await log.delete_records(1)
        for offset in (0, 3):
            answer = await log.fetch(offset, max_wait_ms=5000)
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert answer.log_start_offset == -1
        assert records_of(await log.fetch(1)) == [(1, b"b")]


async def test_s7_a_stale_view_does_not_make_a_client_reset() -> None:
    """The view lags behind what the client has seen at another agent; the confirming read corrects this."""
    async with open_log() as log:
        await log.create_topic("t")
        await log.produce(make_batch(b"a"))
        assert records_of(await log.fetch(0))
        view = log.control.partition(log.topic_id, 0)
        confirm = log.control.call
        confirmed = 0

        async def call(command: object) -> object:
            nonlocal confirmed
            confirmed += 1
            view.high_watermark = 1
            return await confirm(command)  # type: ignore[arg-type]

        view.high_watermark = view.last_stable_offset = 0
        log.control.call = call  # type: ignore[method-assign, assignment]
        answer = await log.fetch(1)
        assert (answer.error_code, size_of(answer), confirmed) == (0, 0, 1)


async def test_unknown_topics_partitions_and_epochs() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        unknown = await log.fetch(0, partition=3, max_wait_ms=5000)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await log.fetch(0, leader_epoch=0)).error_code == 0
        ahead = await log.fetch(0, leader_epoch=1)
        assert ahead.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        log.topic = "nothing"
        assert (await log.fetch(0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("unknown", [("t", 3), ("nothing", 0)], ids=["partition", "topic"])
async def test_s13_an_unknown_partition_does_not_end_the_wait_for_another(
    unknown: tuple[str, int],
) -> None:
    """As in Kafka: its error comes with the records of the other partition; alone, it is returned immediately."""
    async with open_log() as log:
        await log.create_topic("t")
        alone = await log.ask(fetch_request({unknown: 0}, max_wait_ms=600_000))
        assert alone.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        both = fetch_request({("t", 0): 0, unknown: 0}, max_wait_ms=600_000)
        fetch = asyncio.ensure_future(log.ask(both))
        await iterations()
        assert not fetch.done()
        await log.produce(make_batch(b"a"))
        answers = (await asyncio.wait_for(fetch, 60)).responses
        parts = [part for topic in answers for part in topic.partitions]
        assert [part.error_code for part in parts] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert records_of(parts[0]) == [(0, b"a")]


async def test_a_fetch_of_more_partitions_than_there_are_views_keeps_those_it_has() -> None:
    """Otherwise, its views would evict each other, and the fetch would never end."""
    async with open_log(max_views=10) as log:
        await log.create_topic("t", partitions=25)
        await log.produce(make_batch(b"a"), partition=24)
        everything = {("t", partition): 0 for partition in range(25)}
        for epoch in (-1, 0):
            request = fetch_request(everything, max_wait_ms=600_000, session_epoch=epoch)
            response = await asyncio.wait_for(log.ask(request), 60)
            (topic,) = response.responses
            assert len(topic.partitions) == 25
            assert records_of(topic.partitions[24]) == [(0, b"a")]
            subscribed = len(log.control._subscriptions.keys())
            assert subscribed == (25 if response.session_id else 10)


async def test_s6_a_deleted_topic_ends_a_waiting_fetch() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        fetch = asyncio.ensure_future(log.fetch(0, max_wait_ms=600_000))
        await asyncio.sleep(0.01)
        await log.delete_topic()
        answer = await asyncio.wait_for(fetch, 60)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_s6_topics_by_id_and_ids_that_are_not_known() -> None:
    """KIP-516: v13 and later name topics by id; an unknown id has its own error."""
    async with open_log() as log:
        topic_id = await log.create_topic("t")
        await log.produce(make_batch(b"a"))

        async def by_id(wanted: bytes, partition: int = 0) -> PartitionData:
            asked = FetchTopic("", wanted, [FetchPartition(partition, partition_max_bytes=1 << 20)])
            request = fetch_request({})._replace(topics=[asked])
            (topic,) = (await log.ask(request, 13)).responses
            assert topic.topic_id == wanted
            return topic.partitions[0]

        assert records_of(await by_id(topic_id)) == [(0, b"a")]
        unknown = await by_id(topic_id, partition=5)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await by_id(bytes(16))).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        await log.delete_topic()
        assert (await by_id(topic_id)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_fetch_that_cannot_be_served_fails_for_every_partition() -> None:
    request = fetch_request({("t", 0): 0, ("t", 3): 0})
    response = api.refuse(call_of(12), request, api.API.unavailable)
    assert [
        (part.partition_index, part.error_code) for part in response.responses[0].partitions
    ] == [
        (0, 56),
        (3, 56),
    ]
    assert response.session_id == 0


@pytest.mark.slow
async def test_s18_a_hundred_thousand_aborted_records_are_one_small_answer_and_no_read() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("x")
        for _ in range(100):
            await writer.send(*[b"x" * 10] * 1000)
        await writer.end(committed=False)
        answer = await log.fetch(0)
        assert (answer.high_watermark, answer.last_stable_offset) == (100_000, 100_000)
        assert next_offset_of(answer) == 100_000
        assert size_of(answer) < 200
        assert records_of(answer) == []
        assert log.store.metrics.gets == 0


def request(session_id: int, session_epoch: int, topics: list[FetchTopic]) -> FetchRequest:
    """Return a read_committed fetch for these topics."""
    return FetchRequest(
        isolation_level=1, session_id=session_id, session_epoch=session_epoch, topics=topics
    )


def test_an_incremental_fetch_is_sent_back_to_a_full_one() -> None:
    """S21: after an empty answer, the client would retry immediately, without end."""
    answer = refuse(call_of(12), request(7, 3, []), 56)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer.responses == ()


def test_a_full_fetch_fails_partition_by_partition() -> None:
    """The client backs off from each partition."""
    topic = FetchTopic("t", bytes(16), [FetchPartition(0), FetchPartition(1, fetch_offset=5)])
    answer = refuse(call_of(12), request(0, FINAL_EPOCH, [topic]), 56)
    assert answer.error_code == 0
    assert [(p.partition_index, p.error_code) for p in answer.responses[0].partitions] == [
        (0, 56),
        (1, 56),
    ]
