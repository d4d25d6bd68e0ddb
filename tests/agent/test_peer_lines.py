"""An agent notices at once that another one has died (S3, S26, adr/0018)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lacuna.controlplane.state.settings import SESSION_GRACE_MS
from tests.clients.probing import Target
from tests.simulation.stage import Stage, staged

#: Less than the control plane takes, and more than a connection.
AT_ONCE = 0.2 * SESSION_GRACE_MS / 1000


@pytest.fixture
def stage() -> Iterator[Stage]:
    yield from staged(agents=2)


def metadata(target: Target, topic: str) -> dict[str, Any]:
    return target.call("metadata", 12, topics=[{"topic_id": None, "name": topic}])


def leaders(target: Target, topic: str) -> set[int]:
    """Return the nodes that lead, according to this agent's Metadata."""
    (found,) = metadata(target, topic)["topics"]
    return {partition["leader_id"] for partition in found["partitions"]}


def brokers(target: Target, topic: str) -> set[int]:
    """Return the nodes that this agent's Metadata names."""
    return {broker["node_id"] for broker in metadata(target, topic)["brokers"]}


def coordinators(target: Target) -> set[int]:
    keys = [f"group-{number}" for number in range(16)]
    answer = target.call("find_coordinator", 4, key_type=0, coordinator_keys=keys)
    return {found["node_id"] for found in answer["coordinators"]}


def test_who_has_died_is_not_named_before_the_control_plane_hides_it(stage: Stage) -> None:
    one = stage.agents[0].target()
    topic = one.topic(partitions=8)
    assert leaders(one, topic) == coordinators(one) == {1, 2}
    stage.agents[1].kill(back_after=30)
    stage.advance(AT_ONCE)
    assert not stage.control.state().hidden_leases
    assert leaders(one, topic) == coordinators(one) == {1}
    assert brokers(one, topic) == {1}, "tools do not wait for it"
    software = {"client_software_name": "librdkafka", "client_software_version": "2.16.1"}
    one.call("api_versions", 3, **software)
    assert brokers(one, topic) == {1, 2}, "librdkafka is not to drop it"
    stage.until(lambda: stage.control.state().hidden_leases)
    assert leaders(one, topic) == {1}
    stage.until(lambda: leaders(one, topic) == {1, 2}, within=40)


def test_who_only_closes_a_connection_is_named_on(stage: Stage) -> None:
    one = stage.agents[0].target()
    topic = one.topic(partitions=8)
    assert leaders(one, topic) == {1, 2}
    stage.advance(2)  # one that closes right away is not asked again at once
    assert stage.agents[0].running.context.lines.counts() == (1, 1)
    stage.agents[1].running.server.drop_clients()
    stage.advance(AT_ONCE)
    assert leaders(one, topic) == {1, 2}


def test_who_cannot_be_reached_here_alone_is_named_again_after_a_while(stage: Stage) -> None:
    """The control plane can reach it, and so may clients."""
    one = stage.agents[0].target()
    topic = one.topic(partitions=8)
    network = stage.around.network
    process = stage.agents[1].process
    assert process is not None
    network.cut("agent-1", "agent-2", 60)
    for link in network.links_of(process):
        if {end.process.name for end in link.ends} == {"agent-1", "agent-2"}:
            network.break_link(link)
    stage.advance(AT_ONCE)
    assert leaders(one, topic) == {1}
    stage.until(lambda: leaders(one, topic) == {1, 2}, within=4)
