"""An agent that is stopped hands its clients over to the others before its connections close (S2, S3, S12, S26)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from tests.clients.batch import batch
from tests.clients.probing import Target
from tests.clients.wire import ClosedError
from tests.simulation.stage import CommitLink, Stage, StagedAgent, staged

#: Simulated seconds in which a client that is told at once has gone, those between two heartbeats, and those of the
#: longest wait for a client.
SOON, HEARTBEAT, LONGEST = 1.5, 3.0, 10.0


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged(agents=2)


class Leaving:
    """An agent of the stage that is being stopped."""

    def __init__(self, stage: Stage, host: StagedAgent) -> None:
        process = host.process
        assert process is not None
        self._stage = stage
        self._began = stage.loop.time()
        self.work: asyncio.Task[None] = process.start(host.running.stop())
        stage.until(lambda: host.running.server.is_handing_over or self.work.done())

    def seconds(self) -> float:
        """How long the stop took; waits for its end."""
        self._stage.until(self.work.done)
        self.work.result()
        return self._stage.loop.time() - self._began


def leaders(target: Target, topic: str) -> set[str]:
    """The hosts that lead, by what this agent's Metadata says."""
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
    """S26: it looks for its coordinator at once then, instead of connecting here again."""
    one = stage.agents[0].target()
    assert heartbeat(one) == "UNKNOWN_MEMBER_ID"
    leaving = Leaving(stage, stage.agents[0])
    stage.advance(0.8 * HEARTBEAT)
    assert not leaving.work.done()
    assert heartbeat(one) == "NOT_COORDINATOR"
    assert leaving.seconds() < 0.8 * HEARTBEAT + SOON


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
    assert "have not gone to other agents within 10000 ms: 1" in caplog.text


def test_records_for_which_nobody_waits_are_kept(stage: Stage) -> None:
    """S2: with acks=0 there is no answer that could send the producer elsewhere."""
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
    # As long as the client of the control plane tries to give the lease back.
    assert Leaving(stage, stage.agents[0]).seconds() < 11


def test_a_new_leader_is_told_too(stage: Stage) -> None:
    """Which agents are leaving is in no journal; an agent says so again over each session."""
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
