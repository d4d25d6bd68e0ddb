"""Agents in a zone read the bucket once, and each reads alone if another one fails (adr/0039)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from lacuna.agent.fetch import chunks, peer_requests
from lacuna.agent.fetch.settings import FetchSettings
from lacuna.agent.fetch.shared import SharedReads
from lacuna.logstore.objects.store import StoreUnavailableError
from lacuna.logstore.records.batch import read_batches
from lacuna.logstore.segments.paths import segments_prefix
from tests.clients.batch import batch
from tests.simulation.stage import PARTS, Stage, StagedAgent, staged

SEGMENTS = 24
#: How long an agent waits for another one, and a time longer than a few messages and store reads take.
PATIENCE = FetchSettings().zone_patience_ms / 1000
A_WHILE = 0.3
SHARING = dataclasses.replace(PARTS, fetch=FetchSettings(zone_reads="on", read_ahead_bytes=0))


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged(agents=3, parts=SHARING)


@pytest.fixture
def topic(stage: Stage) -> str:
    return written(stage)


def written(stage: Stage) -> str:
    """Return a topic with one segment per value, written by the first agent and not read yet."""
    target, name = stage.agents[0].target(), stage.create_topic()
    for number in range(SEGMENTS):
        assert target.verdict(name, batch((b"%d" % number,))) == "NONE"
    stage.until(lambda: all(end(stage, each, name) == SEGMENTS for each in stage.agents))
    return name


def end(stage: Stage, agent: StagedAgent, topic: str) -> int:
    del stage
    offset: int = agent.target().list_offset(topic, -1)["offset"]
    return offset


def node_id(agent: StagedAgent) -> int:
    return agent.running.context.lease.node_id


def doubted(agent: StagedAgent) -> set[int]:
    """Return the nodes that the agent currently does not ask."""
    return set(shared(agent)._zone._doubted)


def shared(agent: StagedAgent) -> SharedReads:
    found = agent.running.context.fetch.shared
    assert found is not None
    return found


def values(agent: StagedAgent, topic: str, offset: int = 0) -> list[bytes]:
    """Fetch from an agent, and return the values in its answer."""
    return in_answer(agent.target().fetch(topic, offset, min_bytes=1))


def in_answer(row: dict[str, object]) -> list[bytes]:
    assert row["error_code"] == 0
    records = row["records"]
    assert isinstance(records, bytes | bytearray | memoryview)
    return [
        record.value or b"" for each in read_batches(bytes(records)) for record in each.records()
    ]


ALL = [b"%d" % number for number in range(SEGMENTS)]


def gets(stage: Stage) -> int:
    return stage.around.bucket.objects.metrics.gets


def test_the_agents_of_a_zone_read_each_segment_once(stage: Stage, topic: str) -> None:
    before = gets(stage)
    for agent in stage.agents:
        assert values(agent, topic) == ALL
    assert gets(stage) - before == SEGMENTS
    # An owner answers from its own chunks without asking others; two thirds of all ranges are given and taken.
    given = sum(shared(agent).metrics.given for agent in stage.agents)
    taken = sum(shared(agent).metrics.taken for agent in stage.agents)
    assert given == taken == 2 * SEGMENTS
    assert min(shared(agent).metrics.given for agent in stage.agents) > 0


def test_those_who_ask_at_once_share_a_read(stage: Stage, topic: str) -> None:
    before = gets(stage)
    asked = [agent.target().later(lambda each: each.fetch(topic, 0)) for agent in stage.agents]
    assert [in_answer(each.result()) for each in asked] == [ALL] * 3
    assert gets(stage) - before == SEGMENTS


def test_without_the_setting_each_agent_reads_for_itself() -> None:
    for stage in staged(agents=3):
        topic, before = written(stage), gets(stage)
        for agent in stage.agents:
            assert agent.running.context.fetch.shared is None
            assert values(agent, topic) == ALL
        assert gets(stage) - before == 3 * SEGMENTS


def test_who_is_alone_keeps_nothing_for_others() -> None:
    for stage in staged(agents=1, parts=SHARING):
        topic, before = written(stage), gets(stage)
        (agent,) = stage.agents
        assert values(agent, topic) == ALL
        assert gets(stage) - before == SEGMENTS
        assert shared(agent).chunks.reads == 0


def test_zones_do_not_share() -> None:
    for stage in staged(agents=2, parts=SHARING):
        topic, before = written(stage), gets(stage)
        one, other = stage.agents
        shared(other)._zone.name = "elsewhere"
        for agent in (one, other):
            for peer in agent.running.context.control.cluster.agents:
                if peer.node_id == other.running.context.lease.node_id:
                    peer.zone = "elsewhere"
            assert values(agent, topic) == ALL
        assert gets(stage) - before == 2 * SEGMENTS


def test_what_an_owner_has_and_nobody_asks_for_any_more_is_dropped(
    stage: Stage, topic: str
) -> None:
    one, *others = stage.agents
    assert values(one, topic) == ALL
    assert shared(one).chunks.bytes_now > 0
    for agent in others:
        agent.retire()
    stage.until(lambda: len(one.running.context.control.cluster.agents) == 1)
    target = one.target()
    assert target.verdict(topic, batch((b"last",))) == "NONE"
    assert values(one, topic, SEGMENTS) == [b"last"]
    assert shared(one).chunks.bytes_now == 0


def test_an_owner_that_dies_while_it_reads_is_not_waited_for(stage: Stage, topic: str) -> None:
    one, two, _ = stage.agents
    hold = stage.store.hold("get", of=two)
    answer = one.target().later(lambda each: each.fetch(topic, 0))
    hold.wait_until_reached()
    began = stage.loop.time()
    two.kill(back_after=60)
    assert in_answer(answer.result()) == ALL
    assert stage.loop.time() - began < A_WHILE


def test_the_share_of_a_dead_owner_moves_to_the_others(stage: Stage, topic: str) -> None:
    one, two, three = stage.agents
    two.kill(back_after=60)
    stage.advance(A_WHILE)
    before = gets(stage)
    assert values(one, topic) == values(three, topic) == ALL
    assert gets(stage) - before == SEGMENTS


def test_an_owner_that_cannot_be_reached_is_waited_for_once(stage: Stage, topic: str) -> None:
    one, two, three = stage.agents
    for other in (two, three):
        stage.around.network.cut(one.name, other.name, 10.0)
    began = stage.loop.time()
    assert values(one, topic) == ALL
    waited = stage.loop.time() - began
    assert PATIENCE <= waited < PATIENCE + A_WHILE
    forget(one)
    began = stage.loop.time()
    assert values(one, topic) == ALL
    assert stage.loop.time() - began < A_WHILE


def test_an_owner_that_is_slow_is_waited_for_as_long_as_is_allowed(
    stage: Stage, topic: str
) -> None:
    one, two, _ = stage.agents
    hold = stage.store.hold("get", of=two)
    began = stage.loop.time()
    assert values(one, topic) == ALL
    assert PATIENCE <= stage.loop.time() - began < PATIENCE + A_WHILE
    hold.release()


def test_an_owner_that_is_stopped_is_not_asked_any_more(stage: Stage, topic: str) -> None:
    one, two, _ = stage.agents
    two.stop(back_after=60)
    stage.until(lambda: len(one.running.context.control.cluster.agents) == 2)
    assert values(one, topic) == ALL
    assert shared(one).metrics.missed == 0


def test_wrong_bytes_of_an_owner_are_found_and_read_again(
    stage: Stage, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The last byte is part of a record, which a checksum covers.
    real = stage.store.get_up_to, stage.store.get
    one = stage.agents[0]

    def flipped(key: str, position: int, size: int) -> bytearray:
        data = real[1](key, position, size)
        data[-1] ^= 1
        return data

    before = gets(stage)
    for agent in stage.agents:
        shared(agent).chunks._store = mock.Mock(get=flipped, get_up_to=flipped)
    assert values(one, topic) == ALL
    assert shared(one).metrics.damaged == SEGMENTS
    assert gets(stage) - before == 2 * SEGMENTS
    for giver in (
        "in this agent's copy",
        "when agent 2 at agent-2:9092 sent",
        "when agent 3 at agent-3:9092",
    ):
        assert f"were damaged {giver}" in caplog.text


@pytest.mark.slow
def test_damage_in_the_bucket_is_nobodys_in_the_zone(
    stage: Stage, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    objects, one = stage.around.bucket.objects, stage.agents[0]
    cluster_id = one.running.context.control.cluster.cluster_id
    for found in list(objects.list(segments_prefix(cluster_id))):
        data = objects.get_all(found.key)
        data[64] ^= 1  # in the batch, which follows the segment's header
        objects.delete([found.key])
        objects.put(found.key, [data])
    before = gets(stage)
    row = one.target().fetch(topic, 0)
    assert row["error_code"] == 2
    # Each range is read for the zone and once more, and then only once more, since its chunk is kept.
    assert gets(stage) - before == 2 * SEGMENTS
    row = one.target().fetch(topic, 0)
    assert row["error_code"] == 2
    assert gets(stage) - before == 3 * SEGMENTS
    assert shared(one).metrics.damaged == 0
    assert "were damaged" not in caplog.text


def test_an_owner_whose_store_fails_says_so_and_who_reads_itself_reads_once(
    stage: Stage, topic: str
) -> None:
    one = stage.agents[0]
    failing = mock.Mock(side_effect=StoreUnavailableError("it fails, as told"))
    for agent in stage.agents:
        shared(agent).chunks._store = mock.Mock(get=failing, get_up_to=failing)
    began, before = stage.loop.time(), gets(stage)
    one.target().fetch(topic, 0)
    assert stage.loop.time() - began < A_WHILE
    asked = shared(one).metrics.missed
    assert 0 < asked < SEGMENTS
    assert failing.call_count == SEGMENTS
    assert gets(stage) - before == asked


def test_an_owner_that_has_too_much_to_do_refuses(
    stage: Stage, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_MOST_FLIGHTS", 0)
    one = stage.agents[0]
    assert values(one, topic) == ALL
    refused = sum(shared(agent).metrics.refused for agent in stage.agents)
    assert refused == shared(one).metrics.missed > 0


def test_an_agent_waits_for_a_chunk_of_its_own_no_longer_than_for_others(
    stage: Stage, topic: str
) -> None:
    for agent in stage.agents:
        shared(agent).chunks._free_reads = asyncio.Semaphore(0)
    one = stage.agents[0]
    began, before = stage.loop.time(), gets(stage)
    assert values(one, topic) == ALL
    assert PATIENCE <= stage.loop.time() - began < PATIENCE + A_WHILE
    assert gets(stage) - before == SEGMENTS
    # No client waits for these any longer, so they are not read; the others learn of it a moment later.
    stage.until(lambda: not any(shared(agent).chunks._flights for agent in stage.agents))
    assert stage.loop.time() - began < PATIENCE + 2 * A_WHILE


def test_a_silent_agent_costs_the_others_nothing(
    stage: Stage, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_requests, "_MOST_REQUESTS", 1)
    one, two, three = stage.agents
    hold = stage.store.hold("get", of=two)
    assert values(one, topic) == ALL
    assert doubted(one) == {node_id(two)}
    assert shared(one).metrics.taken == shared(three).metrics.given > 1
    hold.release()


def test_an_agent_is_not_blamed_for_the_queue_of_who_asks(
    stage: Stage, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_requests, "_MOST_REQUESTS", 1)
    one, two, _ = stage.agents
    first = stage.store.hold("get", of=two)
    answer = one.target().later(lambda each: each.fetch(topic, 0))
    first.wait_until_reached()
    stage.advance(0.7 * PATIENCE)
    first.release()
    given = shared(two).metrics.given
    stage.until(lambda: shared(two).metrics.given > given)
    second = stage.store.hold("get", of=two)
    stage.advance(0.4 * PATIENCE)
    assert second.is_reached()
    assert shared(one).metrics.missed > 1
    assert doubted(one) == set()
    second.release()
    assert in_answer(answer.result()) == ALL
    assert doubted(one) == set()


def test_ranges_under_way_from_others_are_bounded(stage: Stage, topic: str) -> None:
    one = stage.agents[0]
    requests = shared(one)._zone._requests
    requests._room._limit = 1  # so that each one has to wait for the previous one
    seen = []
    real = requests._exchange

    async def exchange(*arguments: Any) -> memoryview:
        seen.append(requests.bytes_under_way)
        return await real(*arguments)

    with mock.patch.object(requests, "_exchange", exchange):
        assert values(one, topic) == ALL
    assert len(seen) == shared(one).metrics.taken > 1
    assert max(seen) <= max(len(batch((value,))) for value in ALL)
    assert shared(one).outside_bytes == 0


def test_what_was_just_written_is_not_asked_for(stage: Stage) -> None:
    """The writing agent has it, if a consumer waits for it there."""
    name, before = stage.create_topic(), gets(stage)
    one = stage.agents[0]
    waiting = one.target().later(lambda each: each.fetch(name, 0, max_wait_ms=30_000, min_bytes=1))
    stage.advance(A_WHILE)
    assert one.target().verdict(name, batch((b"v",))) == "NONE"
    assert in_answer(waiting.result()) == [b"v"]
    assert gets(stage) == before


def forget(agent: StagedAgent) -> None:
    """Remove previous reads from the cache."""
    cache = agent.running.context.fetch.cache
    cache.reserve(1 << 40)
    cache.reserve(0)
