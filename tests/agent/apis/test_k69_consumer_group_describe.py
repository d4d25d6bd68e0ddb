"""ConsumerGroupDescribe over the wire: every version, and errors."""

from __future__ import annotations

import pytest

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import DeleteTopics
from lacuna.controlplane.v1.control_pb2 import Command
from tests.agent.apis.consumer_groups import DESCRIBE, beat, running


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
            1,
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
