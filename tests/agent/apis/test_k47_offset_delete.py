"""OffsetDelete over the wire: every version, and errors."""

from __future__ import annotations

from lacuna.controlplane.shared.errors import ErrorCode
from tests.agent.apis.consumer_groups import OFFSET_DELETE, beat, running
from tests.messages import nested


async def test_offsets_are_deleted() -> None:
    """Partitions that do not exist have their own error. For a missing group, the whole answer has an error."""
    partitions = tuple(
        nested(OFFSET_DELETE, 0, "OffsetDeleteRequestPartition", partition_index=index)
        for index in (0, 9)
    )
    topics = (
        nested(OFFSET_DELETE, 0, "OffsetDeleteRequestTopic", name="t", partitions=partitions),
    )
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
