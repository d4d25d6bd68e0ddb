"""OffsetCommit, OffsetFetch and OffsetDelete at every version, and their errors."""

from __future__ import annotations

from typing import Any

import pytest

from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import (
    CreatePartitions,
    CreatePartitionsTopic,
    DeleteTopics,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, OffsetCommit
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import offsets
from tests.agent.apis.consumer_groups import beat
from tests.agent.apis.consumer_groups import running as running_with_members
from tests.agent.apis.groups import NOBODY_ID, Wire, running
from tests.agent.harness import RawClient
from tests.agent.plane import cluster, create_topic, hold_deltas


@pytest.mark.parametrize("version", [2, 9, 10])
async def test_a_commit_for_a_topic_that_another_agent_has_just_made_and_grown(
    version: int,
) -> None:
    """librdkafka abandons a commit for an unknown topic."""
    async with cluster() as started:
        elsewhere = InProcessClient(started.runtime)
        wire = Wire(await RawClient.connect(started.server.port))
        hold_deltas(started.control)
        topic_id = await create_topic(elsewhere, "t")
        named = topic_id if version >= 10 else "t"
        assert await wire.commit(version, named) == [0, 3]
        grown = CreatePartitions(topics=[CreatePartitionsTopic(name="t", partition_count=10)])
        await elsewhere.call(Command(create_partitions=grown))
        assert await wire.commit(version, named) == [0, 0]
        await elsewhere.close()


@pytest.mark.parametrize("version", range(2, 11))
async def test_commits_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        topic, nobody = ("t", "u") if version < 10 else (run.topic_id, NOBODY_ID)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else 3
        assert await wire.commit(version, topic) == [0, 3]
        assert await wire.commit(version, nobody) == [unknown, unknown]
        (found,) = await wire.fetch(5, "t")
        assert [each.committed_offset for each in found.partitions] == [5, -1]
        missing: dict[str, Any] = {
            "generation_id_or_member_epoch": 3,
            "member_id": "m",
            "group_id": "other",
        }
        expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
        assert await wire.commit(version, topic, **missing) == [expected, 3]


@pytest.mark.parametrize(
    ("version", "given", "kept"), [(2, 0, 0), (4, 2000, 2000), (4, -1, None), (3, -5, 0)]
)
async def test_how_long_an_offset_is_kept(version: int, given: int, kept: int | None) -> None:
    """-1 means the cluster's retention. With any other negative number, the offset expires immediately, as in Kafka."""
    async with cluster() as started:
        await create_topic(started.control, "t")
        wire = Wire(await RawClient.connect(started.server.port))
        assert await wire.commit(version, "t", retention_time_ms=given) == [0, 3]
        (stored,) = started.runtime.state.groups.offsets.committed["g"].values()
        assert stored.retention_ms == kept


@pytest.mark.parametrize("version", range(1, 10))
async def test_s7_offsets_of_a_topic_that_another_agent_has_just_made(version: int) -> None:
    """If the answer said that nothing was committed, a consumer would start over."""
    async with cluster() as started:
        elsewhere = InProcessClient(started.runtime)
        wire = Wire(await RawClient.connect(started.server.port))

        async def make(offset: int) -> bytes:
            topic_id = await create_topic(elsewhere, "t")
            kept = CommittedOffset(partition=TopicPartition(topic_id=topic_id), offset=offset)
            commit = OffsetCommit(group_id="g", generation_id=-1, offsets=[kept])
            await elsewhere.call(Command(offset_commit=commit))
            return topic_id

        hold_deltas(started.control)
        first = await make(5)
        (topic,) = await wire.fetch(version, "t")
        assert [each.committed_offset for each in topic.partitions] == [5, -1]
        await elsewhere.call(Command(delete_topics=DeleteTopics(topic_ids=[first])))
        await make(7)
        (topic,) = await wire.fetch(version, "t")
        assert [each.committed_offset for each in topic.partitions] == [7, -1]
        await elsewhere.close()


@pytest.mark.parametrize("version", range(1, 11))
async def test_fetches_at_every_version(version: int) -> None:
    async with running() as run:
        wire = await run.connect()
        await wire.commit(8, "t")
        topic, nobody = ("t", "u") if version < 10 else (run.topic_id, NOBODY_ID)
        for wanted in (topic, None) if version >= 2 else (topic,):
            (found,) = await wire.fetch(version, wanted)
            assert found.name == ("t" if version < 10 else "")
            if version >= 8:
                assert found.topic_id == (run.topic_id if version >= 10 else ZERO_UUID)
            part = found.partitions[0]
            assert (part.committed_offset, part.metadata, part.error_code) == (5, "note", 0)
            assert part.committed_leader_epoch == (0 if version >= 5 else -1)
        (found,) = await wire.fetch(version, nobody)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else 0
        assert [(each.committed_offset, each.error_code) for each in found.partitions] == [
            (-1, unknown),
            (-1, unknown),
        ]


async def test_a_fetch_of_everything_passes_over_a_topic_that_has_just_gone() -> None:
    """The view may be ahead of the reply or behind it. A topic whose name is unknown gets no entry."""
    async with cluster() as started:
        wire = Wire(await RawClient.connect(started.server.port))
        await create_topic(started.control, "t", 2)
        assert await wire.commit(8, "t") == [0, 3]
        known = started.control.cluster.topics_by_id
        hidden = dict(known)
        known.clear()
        assert await wire.fetch(8, None) == []
        known.update(hidden)
        assert len(await wire.fetch(8, None)) == 1


async def test_offsets_are_deleted() -> None:
    """Each partition that does not exist has its own error. For a missing group, the whole answer has an error."""
    partitions = [offsets.OffsetDeleteRequestPartition(index) for index in (0, 9)]
    topics = [offsets.OffsetDeleteRequestTopic("t", partitions)]
    deletion = offsets.OffsetDeleteRequest("g", topics)
    async with running_with_members() as run:
        answer = await run.client.call(0, deletion)
        assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
        await beat(run.client, 1, "me", 0)
        answer = await run.client.call(0, deletion)
        codes = [each.error_code for each in answer.topics[0].partitions]
        assert answer.error_code == 0
        assert codes == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
