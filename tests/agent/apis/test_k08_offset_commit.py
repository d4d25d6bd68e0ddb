"""OffsetCommit over the wire: every version, and errors."""

from typing import Any

import pytest

from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import (
    CreatePartitions,
    CreatePartitionsTopic,
    CreateTopic,
    CreateTopics,
)
from lacuna.controlplane.v1.control_pb2 import Command
from tests.agent.apis.groups import NOBODY_ID, Wire, running
from tests.agent.harness import RawClient
from tests.agent.plane import cluster, hold_deltas


@pytest.mark.parametrize("version", [2, 9, 10])
async def test_a_commit_for_a_topic_that_another_agent_has_just_made_and_grown(
    version: int,
) -> None:
    """librdkafka gives up a commit for an unknown topic."""
    async with cluster() as started:
        elsewhere = InProcessClient(started.plane)
        wire = Wire(await RawClient.connect(started.server.port))
        hold_deltas(started.control)
        wanted = CreateTopics(topics=[CreateTopic(name="t", partition_count=1)])
        made = await elsewhere.call(Command(create_topics=wanted))
        topic_id = made.topics_created.topics[0].topic_id
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
    """-1 means the cluster's retention. Any other negative number expires at once, as in Kafka."""
    async with cluster() as started:
        wanted = CreateTopics(topics=[CreateTopic(name="t", partition_count=1)])
        await started.control.call(Command(create_topics=wanted))
        wire = Wire(await RawClient.connect(started.server.port))
        assert await wire.commit(version, "t", retention_time_ms=given) == [0, 3]
        (stored,) = started.plane.state.groups.offsets.committed["g"].values()
        assert stored.retention_ms == kept
