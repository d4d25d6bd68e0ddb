"""Tests that agents continue with their last known state while no control plane leads (S3, S7, S26, adr/0034)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lacuna.agent.trust import READ_ON_SECONDS
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import LEASE_DURATION_MS
from tests.clients.batch import batch
from tests.clients.probes_consumer_groups import Member
from tests.clients.probes_groups import Member as ClassicMember
from tests.clients.probing import Target, error_of
from tests.simulation.stage import COMMITTED, UNCOMMITTED, Stage, StagedAgent, staged

LEASE_SECONDS = LEASE_DURATION_MS / 1000
#: After this many seconds, nothing that agents know is trusted any longer.
UNTRUSTED = 1.2 * LEASE_SECONDS


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged(agents=2)


def fetched(target: Target, topic: str, offset: int, **options: Any) -> str | int:
    """Return the high watermark if the answer contains records, otherwise its error or EMPTY."""
    found = target.fetch(topic, offset, max_wait_ms=100, min_bytes=1, **options)
    if found["error_code"]:
        return ErrorCode(found["error_code"]).name
    return int(found["high_watermark"]) if found["records"] else "EMPTY"


@pytest.mark.slow
def test_s7_what_is_there_is_read_on(stage: Stage) -> None:
    """For the length of a lease, the end offset is reported as well. After that, another leader may know more."""
    one = stage.agents[0].target()
    topic = one.topic()
    for value in (b"a", b"b"):
        assert one.verdict(topic, batch([value])) == "NONE"
    assert fetched(one, topic, 0) == 2
    stage.control.kill(back_after=60)
    killed = stage.loop.time()
    assert fetched(one, topic, 0) == 2
    assert fetched(one, topic, 2) == "EMPTY"
    assert stage.loop.time() < killed + 1
    stage.advance(UNTRUSTED)
    for isolation in (COMMITTED, UNCOMMITTED):
        assert fetched(one, topic, 0, isolation=isolation) == 2
        assert fetched(one, topic, 1, isolation=isolation) == 2
        assert fetched(one, topic, 2, isolation=isolation) == "KAFKA_STORAGE_ERROR"
    again = stage.agents[0].target()
    assert fetched(again, topic, 0) == 2
    assert fetched(again, topic, 2) == "KAFKA_STORAGE_ERROR"
    stage.until(lambda: fetched(again, topic, 2) == "EMPTY")
    assert one.verdict(topic, batch([b"c"])) == "NONE"
    assert fetched(one, topic, 2) == 3


@pytest.mark.slow
def test_s7_nothing_is_denied_that_others_may_know(stage: Stage) -> None:
    one = stage.agents[0].target()
    topic, unread = one.topic(), one.topic()
    assert one.verdict(topic, batch([b"a"])) == "NONE"
    assert fetched(one, topic, 0) == 1
    stage.control.kill(back_after=60)
    stage.advance(UNTRUSTED)
    assert fetched(one, topic, 7) == "KAFKA_STORAGE_ERROR", "no OFFSET_OUT_OF_RANGE"
    assert fetched(one, unread, 0) == "KAFKA_STORAGE_ERROR", "nobody has read it here before"
    assert fetched(one, "created-meanwhile", 0) == "KAFKA_STORAGE_ERROR"
    assert one.list_offset(topic, -1)["error_code"] == ErrorCode.LEADER_NOT_AVAILABLE
    stage.until(lambda: fetched(one, topic, 7) == "OFFSET_OUT_OF_RANGE")


@pytest.mark.slow
def test_what_is_there_is_not_read_for_ever(stage: Stage) -> None:
    """Deleted records must disappear eventually, even if an agent does not learn of the deletion."""
    one = stage.agents[0].target()
    topic = one.topic()
    assert one.verdict(topic, batch([b"a"])) == "NONE"
    assert fetched(one, topic, 0) == 1
    stage.control.kill(back_after=2 * READ_ON_SECONDS)
    stage.advance(0.9 * READ_ON_SECONDS)
    assert fetched(one, topic, 0) == 1
    stage.advance(0.2 * READ_ON_SECONDS)
    assert fetched(one, topic, 0) == "KAFKA_STORAGE_ERROR"


def beat(member: Member, **changed: Any) -> str:
    """Return the error of a heartbeat, even one after which clients retry."""
    answer = member.t.call("consumer_group_heartbeat", 1, **member.fields(**changed))
    return error_of(answer)


@pytest.mark.slow
def test_s26_members_stay_in_their_groups(stage: Stage) -> None:
    """No session ends while no control plane leads, and each session starts over afterwards."""
    one = stage.agents[0].target()
    topic = one.topic()
    member, consumer = ClassicMember(one, "classic"), Member(one, "consumer", [topic])
    member.join_alone(session_timeout_ms=10_000)
    assert consumer.beat()[0] == consumer.epoch > 0
    stage.control.kill(back_after=60)
    for _ in range(10):
        began = stage.loop.time()
        assert (member.heartbeat(), beat(consumer)) == ("NONE", "NONE")
        assert stage.loop.time() < began + 8
        stage.advance(3)
    # What only the control plane can decide is not answered here.
    refused = "COORDINATOR_NOT_AVAILABLE"
    assert member.heartbeat(generation_id=7) == refused
    assert member.heartbeat(member_id="nobody") == refused
    assert beat(consumer, subscribed_topic_names=["other"]) == refused
    stage.until(lambda: member.heartbeat(generation_id=7) == "ILLEGAL_GENERATION")
    stage.advance(3)
    assert (member.heartbeat(), beat(consumer)) == ("NONE", "NONE")


def cut_off(stage: Stage, host: StagedAgent, seconds: float) -> None:
    """Disconnect an agent from the control plane. Both notice immediately."""
    network = stage.around.network
    assert host.process is not None
    for link in network.links_of(host.process):
        if stage.control.name in {end.process.name for end in link.ends}:
            network.break_link(link)
    network.cut(stage.control.name, host.name, seconds)


@pytest.mark.slow
def test_s3_an_agent_that_alone_is_cut_off_sends_its_clients_to_the_others(stage: Stage) -> None:
    one, two = stage.targets()
    topic = one.topic(partitions=8)
    member = ClassicMember(one, "classic")
    member.join_alone(session_timeout_ms=10_000)
    assert one.verdict(topic, batch([b"a"])) == "NONE"
    assert fetched(one, topic, 0) == 1
    assert leaders(one, topic) == {"agent-1", "agent-2"}
    waiting = stage.agents[0].target()
    cut_off(stage, stage.agents[0], 60)
    late = waiting.later(lambda each: each.verdict(topic, batch([b"b"])))
    stage.until(lambda: leaders(one, topic) == {"agent-2"}, within=4)
    assert leaders(two, topic) == {"agent-2"}
    assert one.verdict(topic, batch([b"b"])) == "NOT_LEADER_OR_FOLLOWER"
    assert fetched(one, topic, 0) == "NOT_LEADER_OR_FOLLOWER"
    assert member.heartbeat() == "NOT_COORDINATOR"
    assert two.verdict(topic, batch([b"b"])) == "NONE"
    assert late.result() != "NONE", "it is not done late"
    stage.until(lambda: leaders(two, topic) == {"agent-1", "agent-2"}, within=90)
    assert leaders(stage.agents[0].target(), topic) == {"agent-1", "agent-2"}
    assert fetched(stage.agents[0].target(), topic, 1) == 2


@pytest.mark.slow
def test_agents_that_are_all_cut_off_keep_their_clients(stage: Stage) -> None:
    one = stage.agents[0].target()
    topic = one.topic(partitions=8)
    stage.control.kill(back_after=60)
    stage.advance(UNTRUSTED)
    assert leaders(one, topic) == {"agent-1", "agent-2"}
    stage.until(lambda: one.verdict(topic, batch([b"a"])) == "NONE", within=70)


def leaders(target: Target, topic: str) -> set[str]:
    """Return the hosts that are leaders according to this agent's Metadata."""
    answer = target.call("metadata", 12, topics=[{"topic_id": None, "name": topic}])
    hosts = {broker["node_id"]: broker["host"] for broker in answer["brokers"]}
    return {
        hosts[partition["leader_id"]]
        for found in answer["topics"]
        for partition in found["partitions"]
    }
