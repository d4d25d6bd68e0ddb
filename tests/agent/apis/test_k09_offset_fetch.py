"""OffsetFetch over the wire: every version, and errors."""

import pytest

from lacuna.controlplane.client import InProcessClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import (
    CreateTopic,
    CreateTopics,
    DeleteTopics,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, OffsetCommit
from lacuna.wire.layout import ZERO_UUID
from tests.agent.apis.groups import NOBODY_ID, Wire, running
from tests.agent.harness import RawClient
from tests.agent.plane import cluster, hold_deltas


@pytest.mark.parametrize("version", range(1, 10))
async def test_s7_offsets_of_a_topic_that_another_agent_has_just_made(version: int) -> None:
    """If the answer said that nothing was committed, a consumer would start over."""
    async with cluster() as started:
        elsewhere = InProcessClient(started.plane)
        wire = Wire(await RawClient.connect(started.server.port))

        async def make(offset: int) -> bytes:
            wanted = CreateTopics(topics=[CreateTopic(name="t", partition_count=1)])
            made = await elsewhere.call(Command(create_topics=wanted))
            topic_id = made.topics_created.topics[0].topic_id
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
    """The view may be ahead of the reply or behind it. A topic without a name gets no entry."""
    async with cluster() as started:
        wire = Wire(await RawClient.connect(started.server.port))
        create = CreateTopics(topics=[CreateTopic(name="t", partition_count=2)])
        await started.control.call(Command(create_topics=create))
        assert await wire.commit(8, "t") == [0, 3]
        known = started.control.cluster.topics_by_id
        hidden = dict(known)
        known.clear()
        assert await wire.fetch(8, None) == []
        known.update(hidden)
        assert len(await wire.fetch(8, None)) == 1
