"""Fetch sessions (KIP-227, S21): what is asked once, answered when it changes, and bounded."""

import asyncio
import threading

import pytest

from lacuna.agent.fetch.answers import READ_COMMITTED, READ_UNCOMMITTED
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.wire.messages.fetch import FetchResponse, ForgottenTopic
from tests.agent.fetch.log import Log, fetch_request, make_batch, open_log, records_of


def answered(response: FetchResponse) -> list[int]:
    """The partitions of an answer."""
    return [part.partition_index for topic in response.responses for part in topic.partitions]


async def begin(log: Log, partitions: int = 3, **options: int) -> FetchResponse:
    """A full fetch that asks for a session."""
    offsets = {(log.topic, partition): 0 for partition in range(partitions)}
    request = fetch_request(offsets, session_epoch=0, forgotten=(), **options)
    return await log.ask(request)


async def test_s21_a_full_fetch_answers_all_and_an_incremental_one_what_changed() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=3)
        full = await begin(log)
        assert full.session_id > 0
        assert answered(full) == [0, 1, 2]
        follow = fetch_request({}, session_id=full.session_id, session_epoch=1)
        assert answered(await log.ask(follow)) == []
        await log.produce(make_batch(b"a"), partition=1)
        follow = fetch_request({}, session_id=full.session_id, session_epoch=2)
        changed = await log.ask(follow)
        assert answered(changed) == [1]
        assert records_of(changed.responses[0].partitions[0]) == [(0, b"a")]
        on = fetch_request({("t", 1): 1}, session_id=full.session_id, session_epoch=3)
        assert answered(await log.ask(on)) == []


async def test_s21_what_was_not_taken_is_sent_again() -> None:
    """The client did not move its offset, so the records stay due."""
    async with open_log() as log:
        await log.create_topic("t")
        full = await begin(log, partitions=1)
        await log.produce(make_batch(b"a"))
        for epoch in (1, 2):
            again = fetch_request({}, session_id=full.session_id, session_epoch=epoch)
            response = await log.ask(again)
            assert records_of(response.responses[0].partitions[0]) == [(0, b"a")]


async def test_s21_each_fetch_of_a_session_has_its_own_isolation_level() -> None:
    """As in Kafka; librdkafka's and Java's consumers never change theirs."""
    async with open_log() as log:
        await log.create_topic("t")
        await (await log.writer("x")).send(b"a")
        full = await begin(log, partitions=1)
        assert records_of(full.responses[0].partitions[0]) == []
        for epoch, isolation, expected in (
            (1, READ_COMMITTED, []),
            (2, READ_UNCOMMITTED, [0]),
            (3, READ_COMMITTED, []),
        ):
            follow = fetch_request(
                {}, session_id=full.session_id, session_epoch=epoch, isolation=isolation
            )
            assert answered(await log.ask(follow)) == expected


async def test_s21_a_waiting_session_wakes_for_any_of_its_partitions() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=3)
        full = await begin(log)
        waiting = asyncio.ensure_future(
            log.ask(
                fetch_request({}, session_id=full.session_id, session_epoch=1, max_wait_ms=600_000)
            )
        )
        await asyncio.sleep(0.01)
        await log.produce(make_batch(b"a"), partition=2)
        assert answered(await asyncio.wait_for(waiting, 60)) == [2]


@pytest.mark.parametrize("ends_by", ["records", "time", "the agent's end"])
async def test_fetches_of_one_session_at_once_all_end(ends_by: str) -> None:
    """Of a client that has sent the next one over another connection, say after a timeout of its own."""
    async with open_log() as log:
        await log.create_topic("t")
        full = await begin(log, partitions=1)
        wait_ms = 50 if ends_by == "time" else 600_000
        waiting = [
            asyncio.ensure_future(
                log.ask(
                    fetch_request(
                        {}, session_id=full.session_id, session_epoch=epoch, max_wait_ms=wait_ms
                    )
                )
            )
            for epoch in (1, 2, 3)
        ]
        await asyncio.sleep(0.01)
        if ends_by == "records":
            await log.produce(make_batch(b"a"))
        elif ends_by != "time":
            log.fetch_service.end_waits()
        responses = await asyncio.wait_for(asyncio.gather(*waiting), 60)
        found = [0] if ends_by == "records" else []
        assert [answered(each) for each in responses] == [found] * 3


async def test_what_one_fetch_forgets_while_another_reads_it_is_still_answered() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=2)
        full = await begin(log, partitions=2)
        await log.produce(make_batch(b"a"))
        gate, reads, get = threading.Event(), threading.Event(), log.store.get

        def held_get(key: str, position: int, size: int) -> bytearray:
            reads.set()
            gate.wait(60)
            return get(key, position, size)

        log.store.get = held_get  # type: ignore[method-assign]
        reading = asyncio.ensure_future(
            log.ask(fetch_request({}, session_id=full.session_id, session_epoch=1))
        )
        while not reads.is_set():
            await asyncio.sleep(0.001)
        less = fetch_request(
            {},
            session_id=full.session_id,
            session_epoch=2,
            forgotten=[ForgottenTopic("t", b"", [0])],
        )
        assert answered(await log.ask(less)) == []
        gate.set()
        assert answered(await reading) == [0]
        view = log.control.partition(log.topic_id, 0)
        assert len(view._listeners) == 0


async def test_s21_forgotten_partitions_are_not_answered_and_none_left_ends_the_session() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=2)
        full = await begin(log, partitions=2)
        for partition in (0, 1):
            await log.produce(make_batch(b"a"), partition=partition)
        less = fetch_request(
            {},
            session_id=full.session_id,
            session_epoch=1,
            forgotten=[ForgottenTopic("t", b"", [0])],
        )
        assert answered(await log.ask(less)) == [1]
        none = fetch_request(
            {},
            session_id=full.session_id,
            session_epoch=2,
            forgotten=[ForgottenTopic("t", b"", [1])],
        )
        assert (await log.ask(none)).session_id == 0
        assert len(log.fetch_service.sessions) == 0


async def test_s21_wrong_sessions_and_epochs_have_their_errors() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=1)
        full = await begin(log, partitions=1)
        fetch, session_id = log.ask, full.session_id
        unknown = await fetch(fetch_request({}, session_id=session_id + 1, session_epoch=1))
        assert (unknown.error_code, unknown.session_id, unknown.responses) == (70, 0, ())
        skipped = await fetch(fetch_request({}, session_id=session_id, session_epoch=5))
        assert skipped.error_code == 71
        by_id = await fetch(fetch_request({}, session_id=session_id, session_epoch=1), 13)
        assert by_id.error_code == 106
        closed = await fetch(fetch_request({("t", 0): 0}, session_id=session_id, session_epoch=-1))
        assert (closed.session_id, answered(closed)) == (0, [0])
        ended = await fetch(fetch_request({}, session_id=session_id, session_epoch=1))
        assert ended.error_code == 70


async def test_sessions_are_bounded_and_their_listeners_leave_with_them() -> None:
    async with open_log(fetch=FetchSettings(max_sessions=2)) as log:
        await log.create_topic("t", partitions=1)
        opened = [await begin(log, partitions=1) for _ in range(5)]
        assert len(log.fetch_service.sessions) == 2
        view = log.control.partition(log.topic_id, 0)
        assert len(view._listeners) == 2
        first = fetch_request({}, session_id=opened[0].session_id, session_epoch=1)
        assert (await log.ask(first)).error_code == 70
        log.fetch_service.sessions.close()
        assert len(view._listeners) == 0


async def test_the_partitions_of_all_sessions_are_bounded_together() -> None:
    """The oldest session makes room; one that is too large by itself is none, and one cannot grow so."""
    async with open_log(fetch=FetchSettings(max_session_partitions=5)) as log:
        await log.create_topic("t", partitions=6)
        first, second = await begin(log, partitions=3), await begin(log, partitions=2)
        sessions, fetch = log.fetch_service.sessions, log.ask
        assert len(sessions) == 2
        third = await begin(log, partitions=3)
        assert len(sessions) == 2
        gone = await fetch(fetch_request({}, session_id=first.session_id, session_epoch=1))
        assert gone.error_code == 70
        large = await begin(log, partitions=6)
        assert (large.session_id, answered(large)) == (0, [0, 1, 2, 3, 4, 5])
        assert len(sessions) == 2
        more = {("t", partition): 0 for partition in range(6)}
        grown = await fetch(fetch_request(more, session_id=third.session_id, session_epoch=1))
        assert grown.error_code == 70
        assert len(sessions) == 0
        for partition in range(6):
            assert not log.control.partition(log.topic_id, partition)._listeners
        assert (await begin(log, partitions=5)).session_id not in (0, second.session_id)


async def test_a_fetch_without_a_session_leaves_no_listener_behind() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=1)
        await log.fetch(0, max_wait_ms=10)
        waiting = asyncio.ensure_future(log.fetch(0, max_wait_ms=600_000))
        await asyncio.sleep(0.01)
        view = log.control.partition(log.topic_id, 0)
        assert len(view._listeners) == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(view._listeners) == 0


async def test_the_partitions_that_were_served_come_last_next_time() -> None:
    """KIP-74: with room for one batch, two full partitions take turns."""
    async with open_log() as log:
        await log.create_topic("t", partitions=2)
        for partition in (0, 1):
            for _ in range(3):
                await log.produce(make_batch(b"x" * 5000), partition=partition)
        first = await begin(log, partitions=2, max_bytes=1)
        served = [part.partition_index for part in first.responses[0].partitions if part.records]
        offsets = {0: 0, 1: 0}
        for epoch in range(1, 5):
            offsets[served[-1]] += 1
            asked = fetch_request(
                {("t", served[-1]): offsets[served[-1]]},
                session_id=first.session_id,
                session_epoch=epoch,
                max_bytes=1,
            )
            response = await log.ask(asked)
            served += [
                part.partition_index for part in response.responses[0].partitions if part.records
            ]
        assert served == [0, 1, 0, 1, 0]


async def test_a_poll_of_many_idle_partitions_looks_at_those_that_moved_only() -> None:
    """The cost of a fetch does not grow with the idle partitions of its session."""
    async with open_log() as log:
        await log.create_topic("t", partitions=200)
        full = await begin(log, partitions=200)
        await log.produce(make_batch(b"a"), partition=150)
        session = log.fetch_service.sessions._sessions[full.session_id]
        assert [interest.partition for interest in session.watch.dirty] == [150]
