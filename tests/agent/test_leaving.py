"""A stopping agent hands its clients over to others before its connections close (S2, S3, S12, S26)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from tests.clients.batch import batch
from tests.clients.probing import Target
from tests.clients.wire import ClosedError, Fields
from tests.simulation.stage import CommitLink, Stage, StagedAgent, staged

#: Simulated seconds: until a client that is told immediately has left, between two heartbeats in a classic group and in
#: a consumer group, and the longest wait for a client.
SOON, HEARTBEAT, CONSUMER_HEARTBEAT, LONGEST = 1.5, 3.0, 5.0, 10.0
OFFSETS = {"group_id": "g", "generation_id_or_member_epoch": 1, "member_id": "m"}


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged(agents=2)


class Leaving:
    """An agent of the stage that is stopping."""

    def __init__(self, stage: Stage, host: StagedAgent) -> None:
        process = host.process
        assert process is not None
        self._stage = stage
        self._began = stage.loop.time()
        self.work: asyncio.Task[None] = process.start(host.running.stop())
        stage.until(lambda: host.running.server.is_handing_over or self.work.done())

    def seconds(self) -> float:
        """Wait until the agent has stopped, and return how long that took."""
        self._stage.until(self.work.done)
        self.work.result()
        return self._stage.loop.time() - self._began


def leaders(target: Target, topic: str) -> set[str]:
    """Return the leaders' hosts, according to this agent's Metadata."""
    answer = target.call("metadata", 12, topics=[{"topic_id": None, "name": topic}])
    hosts = {broker["node_id"]: broker["host"] for broker in answer["brokers"]}
    return {
        hosts[partition["leader_id"]]
        for found in answer["topics"]
        for partition in found["partitions"]
    }


def heartbeat(target: Target) -> str:
    answer = target.call("heartbeat", 4, group_id="g", generation_id=1, member_id="m")
    return ErrorCode(answer["error_code"]).name


def test_what_is_asked_now_goes_to_the_other_agent_and_what_was_asked_before_ends(
    stage: Stage,
) -> None:
    one, two = stage.targets()
    topic = one.topic(partitions=8)
    assert leaders(two, topic) == {"agent-1", "agent-2"}
    old = CommitLink(stage, stage.agents[0])
    old.is_cut = True
    before = one.later(lambda each: each.verdict(topic, batch([b"before"])))
    old.wait_for_try()
    leaving = Leaving(stage, stage.agents[0])
    now = stage.agents[0].target()
    assert now.verdict(topic, batch([b"now"])) == "NOT_LEADER_OR_FOLLOWER"
    assert now.fetch(topic, 0)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert heartbeat(now) == "NOT_COORDINATOR"
    # Whichever agent it asks, it is sent to the other one.
    assert leaders(now, topic) == leaders(two, topic) == {"agent-2"}
    assert two.verdict(topic, batch([b"now"])) == "NONE"
    assert not leaving.work.done()
    old.is_cut = False
    assert before.result() == "NONE"
    leaving.seconds()
    assert stage.agents[1].target().fetch(topic, 0)["high_watermark"] == 2
    assert not {*stage.control.state().hidden_leases}, "the lease has ended"


def test_who_was_told_is_not_waited_for(stage: Stage) -> None:
    one = stage.agents[0].target()
    topic = one.topic()
    assert heartbeat(one) == "UNKNOWN_MEMBER_ID"
    leaving = Leaving(stage, stage.agents[0])
    assert one.verdict(topic, batch([b"now"])) == "NOT_LEADER_OR_FOLLOWER"
    assert leaving.seconds() < SOON
    with pytest.raises(ClosedError):
        one.verdict(topic, batch([b"now"]))


def test_a_member_is_waited_for_until_its_heartbeat(stage: Stage) -> None:
    """S26: the member then finds its new coordinator immediately, instead of connecting here again."""
    one = stage.agents[0].target()
    assert heartbeat(one) == "UNKNOWN_MEMBER_ID"
    leaving = Leaving(stage, stage.agents[0])
    stage.advance(0.8 * HEARTBEAT)
    assert not leaving.work.done()
    assert heartbeat(one) == "NOT_COORDINATOR"
    assert leaving.seconds() < 0.8 * HEARTBEAT + SOON


def consumer_heartbeat(target: Target, member_id: str, topic: str = "") -> Fields:
    """Send a heartbeat, which joins the group if a topic is given, and return the answer."""
    joining = {
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    }
    fields = joining if topic else {"member_epoch": 1}
    return target.call("consumer_group_heartbeat", 1, group_id="g", member_id=member_id, **fields)


def set_interval(target: Target, seconds: float) -> None:
    config = {
        "name": "consumer.heartbeat.interval.ms",
        "config_operation": 0,
        "value": f"{seconds * 1000:.0f}",
    }
    group = {"resource_type": 32, "resource_name": "g", "configs": [config]}
    (answer,) = target.call("incremental_alter_configs", 1, resources=[group])["responses"]
    assert answer["error_code"] == 0


@pytest.mark.parametrize("interval", [CONSUMER_HEARTBEAT, 8.0])
def test_a_member_of_a_consumer_group_is_waited_for_as_long_as_it_was_told(
    stage: Stage, interval: float
) -> None:
    """S26: it sends heartbeats less often, and commits offsets over the same connection."""
    one = stage.agents[0].target()
    topic = one.topic()
    set_interval(one, interval)
    joined = consumer_heartbeat(one, "m", topic)
    assert joined["heartbeat_interval_ms"] == interval * 1000
    assert one.call("offset_commit", 9, **OFFSETS, topics=[])["topics"] == []
    leaving = Leaving(stage, stage.agents[0])
    stage.advance(interval)
    assert not leaving.work.done()
    told = consumer_heartbeat(one, "m")
    assert told["error_code"] == ErrorCode.NOT_COORDINATOR
    assert leaving.seconds() < interval + SOON


def test_a_member_that_was_told_no_interval_is_waited_for_as_long_as_is_usual(
    stage: Stage,
) -> None:
    one = stage.agents[0].target()
    assert consumer_heartbeat(one, "m")["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
    leaving = Leaving(stage, stage.agents[0])
    stage.advance(CONSUMER_HEARTBEAT)
    assert not leaving.work.done()
    assert leaving.seconds() < CONSUMER_HEARTBEAT + SOON


def test_a_member_that_is_heard_less_often_than_the_wait_lasts_is_cut_off(stage: Stage) -> None:
    one = stage.agents[0].target()
    topic = one.topic()
    set_interval(one, 15.0)
    consumer_heartbeat(one, "m", topic)
    assert LONGEST <= Leaving(stage, stage.agents[0]).seconds() < LONGEST + 1


def test_who_does_not_go_is_cut_off_in_the_end(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    one = stage.agents[0].target()
    topic = one.topic()
    leaving = Leaving(stage, stage.agents[0])
    while not leaving.work.done():
        assert one.verdict(topic, batch([b"now"])) == "NOT_LEADER_OR_FOLLOWER"
        stage.advance(0.5)
    assert LONGEST <= leaving.seconds() < LONGEST + 1
    assert "did not move to other agents within 10000 ms: 1" in caplog.text


def test_records_for_which_nobody_waits_are_kept(stage: Stage) -> None:
    """S2: with acks=0, there is no answer that could send the producer elsewhere."""
    one = stage.agents[0].target()
    topic = one.topic()
    leaving = Leaving(stage, stage.agents[0])
    one.later(lambda each: each.produce(topic, batch([b"kept"]), acks=0))
    leaving.seconds()
    assert stage.agents[1].target().fetch(topic, 0)["high_watermark"] == 1


def test_the_only_agent_sends_nobody_away(stage: Stage) -> None:
    Leaving(stage, stage.agents[1]).seconds()
    one = stage.agents[0].target()
    topic = one.topic()
    old = CommitLink(stage, stage.agents[0])
    before = one.later(lambda each: each.verdict(topic, batch([b"before"])))
    old.wait_for_try()
    leaving = Leaving(stage, stage.agents[0])
    assert leaving.seconds() < 0.1
    assert before.result() == "NONE"


def test_without_a_control_plane_it_stops_all_the_same(stage: Stage) -> None:
    stage.control.kill(back_after=60)
    # As long as the control plane's client tries to return the lease.
    assert Leaving(stage, stage.agents[0]).seconds() < 11


def test_a_new_leader_is_told_too(stage: Stage) -> None:
    """No journal records which agents are leaving, so an agent announces this again in each session."""
    one, two = stage.targets()
    topic = one.topic(partitions=8)
    old = CommitLink(stage, stage.agents[0])
    old.is_cut = True
    before = one.later(lambda each: each.verdict(topic, batch([b"before"])))
    old.wait_for_try()
    leaving = Leaving(stage, stage.agents[0])
    stage.control.kill(back_after=0.1)
    stage.advance(0.5)
    assert leaders(two, topic) == {"agent-2"}
    old.is_cut = False
    assert before.result() == "NONE"
    leaving.seconds()
