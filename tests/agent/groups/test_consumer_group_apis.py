"""ConsumerGroupHeartbeat, ConsumerGroupDescribe and OffsetDelete at every version (S26, KIP-848)."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from agent.apis.schema import request_class
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, DeleteTopics
from controlplane.v1.control_pb2 import Command
from tests.agent.harness import RawClient
from tests.agent.plane import cluster

HEARTBEAT, DESCRIBE, OFFSET_DELETE = 68, 69, 47
NO_CHANGE = timedelta(milliseconds=-1)


@asynccontextmanager
async def running() -> AsyncIterator[Any]:
    """A cluster with the topic `t` of two partitions, and a connection to it."""
    async with cluster() as started:
        topic = CreateTopic(name="t", partition_count=2)
        command = Command(create_topics=CreateTopics(topics=[topic]))
        assert not (await started.control.call(command)).topics_created.topics[0].error_code
        client = await RawClient.connect(started.server.port)
        yield SimpleNamespace(client=client, control=started.control)
        assert started.context.metrics.requests_failed == 0


async def beat(client: RawClient, version: int, member_id: str, epoch: int, **more: Any) -> Any:
    """A heartbeat; with epoch 0 a whole one."""
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": epoch,
        "topic_partitions": None,
    }
    if epoch == 0:
        fields |= {
            "rebalance_timeout": timedelta(seconds=30),
            "subscribed_topic_names": ("t",),
            "topic_partitions": (),
        }
    return await client.ask(HEARTBEAT, version, **(fields | more))


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_at_every_version(version: int) -> None:
    """From v1 on the client makes the id; before that the coordinator can."""
    async with running() as run:
        answer = await beat(run.client, version, "", 0)
        if version == 0:
            assert (answer.error_code, answer.member_epoch) == (0, 1)
            assert answer.member_id
        else:
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert answer.error_message == "MemberId can't be empty."
            answer = await beat(run.client, version, "me", 0)
            assert answer.member_id == "me"
        assert answer.heartbeat_interval == timedelta(seconds=5)
        (row,) = answer.assignment.topic_partitions
        assert row.partitions == (0, 1)
        again = await beat(run.client, version, answer.member_id, 1)
        assert (again.error_code, again.member_epoch, again.assignment) == (0, 1, None)
        owned = (_row(version, row.topic_id, 0, 1),)
        told = await beat(run.client, version, answer.member_id, 1, topic_partitions=owned)
        assert told.error_code == 0
        left = await beat(run.client, version, answer.member_id, -1)
        assert (left.error_code, left.member_epoch) == (0, -1)


def _row(version: int, topic_id: Any, *partitions: int) -> Any:
    module = sys.modules[request_class(HEARTBEAT, version).__module__]
    return module.TopicPartitions(topic_id=topic_id, partitions=partitions)


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
            1,
            "uniform",
        )
        assert group.authorized_operations > 0
        (member,) = group.members
        assert (member.member_id, member.instance_id, member.rack_id) == ("me", "i", "r")
        assert member.subscribed_topic_names == ("t",)
        for assignment in (member.assignment, member.target_assignment):
            assert [each.topic_name for each in assignment.topic_partitions] == ["t"]
        assert getattr(member, "member_type", 1) == 1


async def test_a_deleted_topic_is_not_described() -> None:
    async with running() as run:
        await beat(run.client, 1, "me", 0)
        delete = DeleteTopics(topic_ids=list(run.control.cluster.topics_by_id))
        await run.control.call(Command(delete_topics=delete))
        answer = await run.client.ask(
            DESCRIBE, 1, group_ids=("g",), include_authorized_operations=False
        )
        assert answer.groups[0].members[0].assignment.topic_partitions == ()


async def test_offsets_are_deleted() -> None:
    """Partitions that do not exist have their own error, a group that does not the answer's."""
    module = sys.modules[request_class(OFFSET_DELETE, 0).__module__]
    partitions = tuple(
        module.OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9)
    )
    topics = (module.OffsetDeleteRequestTopic(name="t", partitions=partitions),)
    async with running() as run:
        answer = await run.client.ask(OFFSET_DELETE, 0, group_id="g", topics=topics)
        assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
        await beat(run.client, 1, "me", 0)
        answer = await run.client.ask(OFFSET_DELETE, 0, group_id="g", topics=topics)
        codes = [each.error_code for each in answer.topics[0].partitions]
        assert answer.error_code == 0
        assert codes == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
