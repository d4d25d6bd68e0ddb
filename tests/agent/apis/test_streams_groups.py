"""StreamsGroupHeartbeat, StreamsGroupDescribe and StreamsGroupTopologyDescriptionUpdate at every version (KIP-1071)."""

from __future__ import annotations

from typing import Any

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import SET
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
from lacuna.controlplane.v1.consumer_groups_pb2 import AlterGroupConfigs
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.messages import streams_groups as groups
from tests.agent.apis.clusters import Setup

GROUP = "counts"
MISSING_INTERNAL_TOPICS = 3
COMPACT = (groups.KeyValue("cleanup.policy", "compact"),)


def topology(changelog: str = "counts-changelog") -> groups.StreamsGroupHeartbeatRequestTopology:
    """Return a topology that repartitions the topic `t` and counts its records."""
    return groups.StreamsGroupHeartbeatRequestTopology(
        subtopologies=[
            groups.StreamsGroupHeartbeatRequestSubtopology(
                "1",
                state_changelog_topics=[groups.TopicInfo(changelog, topic_configs=COMPACT)],
                repartition_source_topics=[groups.TopicInfo("counts-repartition")],
                copartition_groups=[groups.CopartitionGroup(repartition_source_topics=[0])],
            ),
            groups.StreamsGroupHeartbeatRequestSubtopology(
                "0", source_topics=["t"], repartition_sink_topics=["counts-repartition"]
            ),
        ]
    )


async def configure(setup: Setup) -> None:
    """Create the topic `t`, and let the group assign tasks immediately."""
    await setup.create("t", 2)
    for name in ("initial.rebalance.delay.ms", "assignment.interval.ms"):
        change = ConfigChange(name=f"streams.{name}", operation=SET, value="0")
        altered = AlterGroupConfigs(group_id=GROUP, changes=[change])
        reply = await setup.running.control.call(Command(alter_group_configs=altered))
        assert not reply.group_configs_altered.error_code


async def beat(setup: Setup, epoch: int, version: int = 1, **fields: Any) -> Any:
    joining: dict[str, Any] = {}
    if epoch == 0:
        joining = {"rebalance_timeout_ms": 1000, "topology": topology(), "process_id": "p"}
        joining |= dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"), ())
    asked = groups.StreamsGroupHeartbeatRequest(GROUP, "me", epoch)._replace(**joining)
    return await setup.client.call(version, asked._replace(**fields))


async def describe(setup: Setup, version: int = 1, group_id: str = GROUP) -> Any:
    answer = await setup.client.call(
        version,
        groups.StreamsGroupDescribeRequest([group_id], include_topology_description=version >= 1),
    )
    (group,) = answer.groups
    return group


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_gets_tasks_once_its_topics_exist(setup: Setup, version: int) -> None:
    """The agent creates internal topics, with their configs; the next heartbeat finds them."""
    await configure(setup)
    answer = await beat(setup, 0, version)
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5000)
    assert answer.acceptable_recovery_lag == (10_000 if version else -1)
    assert answer.active_tasks == ()
    assert [each.status_code for each in answer.status] == [MISSING_INTERNAL_TOPICS]
    assert answer.topology_description_required == bool(version)
    answer = await beat(setup, 2, version)
    assert answer.active_tasks == (groups.TaskIds("0", (0, 1)), groups.TaskIds("1", (0, 1)))
    assert answer.status == ()
    topics = setup.running.control.cluster.topics_by_name
    assert topics["counts-changelog"].partition_count == 2
    assert topics["counts-changelog"].configs["cleanup.policy"] == "compact"
    group = await describe(setup, version)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    _, second = group.topology.subtopologies
    assert second.state_changelog_topics[0].partitions == 2
    (member,) = group.members
    assert member.assignment == member.target_assignment
    assert member.process_id == "p"
    assert group.assignor_name == ("sticky" if version else None)
    assert (await beat(setup, -1, version)).member_epoch == -1
    assert (await describe(setup, version)).group_state == "Empty"


async def test_why_topics_cannot_be_created_is_told(setup: Setup) -> None:
    """The status gives the reason, and the other topics are created."""
    await configure(setup)
    await setup.create("counts_changelog", 2)
    answer = await beat(setup, 0, topology=topology("counts.changelog"))
    (status,) = answer.status
    assert status.status_detail == (
        "Internal topics are missing: counts-repartition, counts.changelog; Creation failed: counts.changelog (Topic"
        " 'counts.changelog' collides with existing topic: counts_changelog)."
    )
    (status,) = (await beat(setup, 2)).status
    assert status.status_detail.startswith("Internal topics are missing: counts.changelog; ")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"standby_tasks": None}, ErrorCode.INVALID_REQUEST),
        ({"topology": topology("no name")}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({"topology": topology("__consumer_offsets")}, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ({"topology": None}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_requests_are_checked(setup: Setup, fields: dict[str, Any], code: ErrorCode) -> None:
    """A refused request leaves nothing behind."""
    await configure(setup)
    assert (await beat(setup, 0, **fields)).error_code == code
    assert (await describe(setup)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_regular_expressions_are_refused(setup: Setup) -> None:
    """As in Kafka 4.4."""
    regex = groups.StreamsGroupHeartbeatRequestSubtopology("0", source_topic_regex=["t.*"])
    asked = groups.StreamsGroupHeartbeatRequestTopology(subtopologies=[regex])
    answer = await beat(setup, 0, topology=asked)
    assert answer.error_message == "Regular expressions for source topics are not supported yet."


async def test_a_description_comes_back(setup: Setup) -> None:
    """KIP-1331: it is requested once, stored, and described."""
    await configure(setup)
    assert (await beat(setup, 0)).topology_description_required
    assert not (await beat(setup, 2)).topology_description_required
    assert (await describe(setup)).topology_description_status == 1
    node = groups.StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode(
        "KSTREAM-SOURCE-0", 1, ["t"], successors=["KSTREAM-SINK-1"]
    )
    part = groups.StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology(
        "0", [node]
    )
    told = groups.StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription([part])

    async def tell(group_id: str = GROUP, member_id: str = "me") -> Any:
        return await setup.client.call(
            0, groups.StreamsGroupTopologyDescriptionUpdateRequest(group_id, member_id, 0, told)
        )

    assert not (await tell()).error_code
    assert (await tell(member_id="")).error_code == ErrorCode.INVALID_REQUEST
    assert (await tell(group_id="none")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    group = await describe(setup)
    assert group.topology_description_status == 3
    (found,) = group.topology_description.subtopologies[0].nodes
    assert (found.name, found.source_topics) == ("KSTREAM-SOURCE-0", ("t",))
