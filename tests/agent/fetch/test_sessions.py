"""Fetch sessions (KIP-227, S21): partitions are requested once and returned when they change, within bounds."""

import asyncio
import threading
from random import Random

import pytest

from lacuna.agent.fetch.answers import READ_COMMITTED, READ_UNCOMMITTED
from lacuna.agent.fetch.sessions import EVICTION_SECONDS, FetchSessions
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.fetch import FetchRequest, FetchResponse, ForgottenTopic
from tests.agent.fetch.log import Log, fetch_request, make_batch, open_log, records_of
from tests.doubles.clock import iterations, until


def answered(response: FetchResponse) -> list[int]:
    """Return the partitions in an answer."""
    return [part.partition_index for topic in response.responses for part in topic.partitions]


async def begin(log: Log, partitions: int = 3, **options: int) -> FetchResponse:
    """Send a full fetch that requests a session."""
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
    """The client did not advance its offset, so the records are still due."""
    async with open_log() as log:
        await log.create_topic("t")
        full = await begin(log, partitions=1)
        await log.produce(make_batch(b"a"))
        for epoch in (1, 2):
            again = fetch_request({}, session_id=full.session_id, session_epoch=epoch)
            response = await log.ask(again)
            assert records_of(response.responses[0].partitions[0]) == [(0, b"a")]


async def test_s21_a_partition_out_of_range_hides_no_news_of_the_others() -> None:
    """The bounds of the other partitions are in this answer, or in the next one."""
    async with open_log() as log:
        await log.create_topic("t", partitions=3)
        full = await begin(log)
        await (await log.writer("x")).send(b"a")
        wrong = fetch_request({("t", 2): 99}, session_id=full.session_id, session_epoch=1)
        (topic,) = (await log.ask(wrong)).responses
        bounds = [(part.partition_index, part.high_watermark) for part in topic.partitions]
        assert sorted(bounds) == [(0, 1), (2, -1)]
        right = fetch_request({("t", 2): 0}, session_id=full.session_id, session_epoch=2)
        assert answered(await log.ask(right)) == [2]


async def test_s21_each_fetch_of_a_session_has_its_own_isolation_level() -> None:
    """As in Kafka. The consumers of librdkafka and Java never change theirs."""
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
        await iterations()
        await log.produce(make_batch(b"a"), partition=2)
        assert answered(await asyncio.wait_for(waiting, 60)) == [2]


@pytest.mark.parametrize("ends_by", ["records", "time", "the agent's end"])
async def test_fetches_of_one_session_at_once_all_end(ends_by: str) -> None:
    """A client may send the next fetch over another connection, for example after its own timeout."""
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
        await iterations()
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
            assert gate.wait(60)
            return get(key, position, size)

        log.store.get = held_get  # type: ignore[method-assign]
        reading = asyncio.ensure_future(
            log.ask(fetch_request({}, session_id=full.session_id, session_epoch=1))
        )
        await until(reads.is_set, 0.001)
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
        assert not view.is_in_use


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


def opening(partitions: int) -> FetchRequest:
    """Return a full fetch of this many partitions that requests a session."""
    return fetch_request({("t", partition): 0 for partition in range(partitions)}, session_epoch=0)


async def opened(sessions: FetchSessions, partitions: int, now: float) -> int:
    """Return the id of the session that such a fetch gets, or 0 if it gets none."""
    opened = await sessions.open(opening(partitions), 12, now)
    return opened.session.session_id if opened.session is not None else 0


async def go_on(sessions: FetchSessions, session_id: int, epoch: int, now: float) -> int:
    """Return the error code of a session's next fetch."""
    follow = fetch_request({}, session_id=session_id, session_epoch=epoch)
    return (await sessions.open(follow, 12, now)).error_code


async def test_s21_beyond_the_bound_a_fetch_gets_no_session_and_no_other_ends() -> None:
    """As in Kafka: consumers beyond the bound fetch in full, and no other consumer loses its session."""
    async with open_log(fetch=FetchSettings(max_sessions=2)) as log:
        await log.create_topic("t", partitions=1)
        sessions = [(await begin(log, partitions=1)).session_id for _ in range(5)]
        assert [session_id > 0 for session_id in sessions] == [True, True, False, False, False]
        for epoch in (1, 2):
            for session_id in sessions[:2]:
                again = fetch_request({}, session_id=session_id, session_epoch=epoch)
                assert (await log.ask(again)).error_code == 0
        view = log.control.partition(log.topic_id, 0)
        assert view.is_in_use
        log.fetch_service.sessions.close()
        assert not view.is_in_use


async def test_s21_a_session_that_fell_silent_makes_room_after_two_minutes() -> None:
    sessions = FetchSessions(2, 1000, Random(1).randint)
    silent, busy = await opened(sessions, 5, 0.0), await opened(sessions, 5, 1.0)
    assert await go_on(sessions, busy, 1, 100.0) == 0
    assert await opened(sessions, 1, EVICTION_SECONDS) == 0
    assert await opened(sessions, 1, EVICTION_SECONDS + 0.1) > 0
    assert await go_on(sessions, silent, 1, 121.0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert await go_on(sessions, busy, 2, 121.0) == 0
    assert sessions.evicted == 1


async def test_s21_a_larger_session_takes_the_place_of_a_smaller_one_that_is_two_minutes_old() -> (
    None
):
    sessions = FetchSessions(2, 1000, Random(1).randint)
    small, large = await opened(sessions, 2, 0.0), await opened(sessions, 9, 0.0)
    for epoch, now in enumerate((60.0, 119.0, 121.0), 1):
        assert (
            await go_on(sessions, small, epoch, now)
            == await go_on(sessions, large, epoch, now)
            == 0
        )
    assert await opened(sessions, 2, 121.0) == 0
    assert await opened(sessions, 3, 121.0) > 0
    assert await go_on(sessions, small, 4, 121.0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert await go_on(sessions, large, 4, 121.0) == 0


async def test_the_partitions_of_all_sessions_are_bounded_together() -> None:
    """A session that is too large is not created, and none can grow beyond the bound."""
    sessions = FetchSessions(1000, 5, Random(1).randint)
    first, second = await opened(sessions, 3, 0.0), await opened(sessions, 2, 0.0)
    assert (first > 0, second > 0) == (True, True)
    assert [await opened(sessions, partitions, 1.0) for partitions in (1, 3, 6)] == [0, 0, 0]
    offsets = {("t", partition): 0 for partition in range(4)}
    more = fetch_request(offsets, session_id=second, session_epoch=1)
    assert (await sessions.open(more, 12, 1.0)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 1
    assert await go_on(sessions, first, 1, 1.0) == 0
    assert await opened(sessions, 2, 1.0) > 0


async def test_s21_a_fetch_that_waits_in_a_session_that_ends_is_woken_all_the_same() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=1)
        full = await begin(log, partitions=1)
        session = fetch_request(
            {}, session_id=full.session_id, session_epoch=1, max_wait_ms=600_000
        )
        waiting = asyncio.ensure_future(log.ask(session))
        view = log.control.partition(log.topic_id, 0)
        await iterations()
        log.fetch_service.sessions.close()
        await log.produce(make_batch(b"a"))
        assert answered(await asyncio.wait_for(waiting, 60)) == [0]
        assert not view.is_in_use


async def test_a_fetch_without_a_session_leaves_no_listener_behind() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=1)
        await log.fetch(0, max_wait_ms=10)
        waiting = asyncio.ensure_future(log.fetch(0, max_wait_ms=600_000))
        await iterations()
        view = log.control.partition(log.topic_id, 0)
        assert view.is_in_use
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not view.is_in_use


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
