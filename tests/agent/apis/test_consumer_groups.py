"""ConsumerGroupHeartbeat and ConsumerGroupDescribe at every version, and their errors."""

from __future__ import annotations

from typing import Any

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import DeleteTopics
from lacuna.controlplane.v1.control_pb2 import Command
from tests.agent.apis.consumer_groups import DESCRIBE, HEARTBEAT, beat, running
from tests.messages import nested


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_at_every_version(version: int) -> None:
    """From v1 on, the client generates the id; before that, the coordinator may."""
    async with running() as run:
        answer = await beat(run.client, version, "", 0)
        if version == 0:
            assert (answer.error_code, answer.member_epoch) == (0, 2)
            assert answer.member_id
        else:
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert answer.error_message == "MemberId can't be empty."
            answer = await beat(run.client, version, "me", 0)
            assert answer.member_id == "me"
        assert answer.heartbeat_interval_ms == 5000
        (row,) = answer.assignment.topic_partitions
        assert row.partitions == (0, 1)
        again = await beat(run.client, version, answer.member_id, 2)
        assert (again.error_code, again.member_epoch, again.assignment) == (0, 2, None)
        owned = (_row(version, row.topic_id, 0, 1),)
        told = await beat(run.client, version, answer.member_id, 2, topic_partitions=owned)
        assert told.error_code == 0
        left = await beat(run.client, version, answer.member_id, -1)
        assert (left.error_code, left.member_epoch) == (0, -1)


def _row(version: int, topic_id: Any, *partitions: int) -> Any:
    return nested(HEARTBEAT, version, "TopicPartitions", topic_id=topic_id, partitions=partitions)


async def test_an_empty_instance_id_is_none() -> None:
    async with running() as run:
        answer = await beat(run.client, 1, "me", 0, instance_id="")
        assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1])
async def test_describe_at_every_version(version: int) -> None:
    async with running() as run:
        await beat(run.client, 1, "me", 0, instance_id="i", rack_id="r")
        answer = await run.client.ask(
            DESCRIBE, version, group_ids=("g", "other"), include_authorized_operations=True
        )
        group, other = answer.groups
        assert other.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert other.error_message == "Group other not found."
        assert (group.group_state, group.group_epoch, group.assignor_name) == (
            "Stable",
            2,
            "uniform",
        )
        assert group.authorized_operations > 0
        (member,) = group.members
        assert (member.member_id, member.instance_id, member.rack_id) == ("me", "i", "r")
        assert member.subscribed_topic_names == ("t",)
        for assignment in (member.assignment, member.target_assignment):
            assert [each.topic_name for each in assignment.topic_partitions] == ["t"]
        assert member.member_type == (1 if version >= 1 else -1)


async def test_a_deleted_topic_is_not_described() -> None:
    async with running() as run:
        await beat(run.client, 1, "me", 0)
        delete = DeleteTopics(topic_ids=list(run.control.cluster.topics_by_id))
        await run.control.call(Command(delete_topics=delete))
        answer = await run.client.ask(
            DESCRIBE, 1, group_ids=("g",), include_authorized_operations=False
        )
        assert answer.groups[0].members[0].assignment.topic_partitions == ()
