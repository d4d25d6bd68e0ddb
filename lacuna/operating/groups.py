"""Moves and deletes the offsets of groups: committed offsets, or a share group's start offsets.

A Kafka error code becomes a `Refusal`, which the caller reports in its own words.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from lacuna.operating.exchanges.groups import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
)
from lacuna.operating.refusal import Refusal
from lacuna.wire.client import Ask
from lacuna.wire.messages import offsets as wire
from lacuna.wire.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)

#: Kafka's name for the share group type.
SHARE = "share"
#: The states of a group without members.
WITHOUT_MEMBERS = ("Empty", "Dead")
#: Offsets by topic and partition.
Moves: TypeAlias = Mapping[str, Mapping[int, int]]


async def move_offsets(ask: Ask, group_id: str, moves: Moves, *, shares: bool) -> Sequence[Refusal]:
    """Make a group without members continue at other offsets, and return any refusals.

    A consumer group receives them as committed offsets. A share group receives them as start offsets, and forgets its
    deliveries.
    """
    return await (_begin_at if shares else _commit)(ask, group_id, moves)


async def _commit(ask: Ask, group_id: str, moves: Moves) -> Sequence[Refusal]:
    topics = [
        wire.OffsetCommitRequestTopic(
            name,
            partitions=[
                wire.OffsetCommitRequestPartition(index, offset)
                for index, offset in offsets.items()
            ],
        )
        for name, offsets in moves.items()
    ]
    request = wire.OffsetCommitRequest(group_id, topics=topics)
    response = await ask(*OFFSET_COMMIT, request)
    return _in_partitions((topic.name, topic.partitions) for topic in response.topics)


async def _begin_at(ask: Ask, group_id: str, moves: Moves) -> Sequence[Refusal]:
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            name,
            [
                AlterShareGroupOffsetsRequestPartition(index, offset)
                for index, offset in offsets.items()
            ],
        )
        for name, offsets in moves.items()
    ]
    response = await ask(
        *ALTER_SHARE_GROUP_OFFSETS, AlterShareGroupOffsetsRequest(group_id, topics)
    )
    if response.error_code:
        return [Refusal(f"group {group_id}", response.error_code, response.error_message)]
    return _in_partitions((topic.topic_name, topic.partitions) for topic in response.responses)


def _in_partitions(topics: Iterable[tuple[str, Iterable[Any]]]) -> Sequence[Refusal]:
    return [
        Refusal(f"partition {each.partition_index} of {name}", each.error_code)
        for name, partitions in topics
        for each in partitions
        if each.error_code
    ]


async def delete_offsets(
    ask: Ask, group_id: str, topics: Mapping[str, Iterable[int]], *, shares: bool
) -> Sequence[Refusal]:
    """Delete a group's offsets in partitions, and return any refusals.

    A share group must have no members, and loses its offsets in all partitions of these topics, not just the given
    ones. A consumer group may have members, provided that they are not subscribed to these topics.
    """
    if shares:
        return await _forget(ask, group_id, topics)
    named = [
        wire.OffsetDeleteRequestTopic(
            name, [wire.OffsetDeleteRequestPartition(each) for each in partitions]
        )
        for name, partitions in topics.items()
    ]
    request = wire.OffsetDeleteRequest(group_id, named)
    response = await ask(*OFFSET_DELETE, request)
    if response.error_code:
        return [Refusal(f"group {group_id}", response.error_code)]
    return _in_partitions((topic.name, topic.partitions) for topic in response.topics)


async def _forget(ask: Ask, group_id: str, topics: Iterable[str]) -> Sequence[Refusal]:
    response = await ask(
        *DELETE_SHARE_GROUP_OFFSETS,
        DeleteShareGroupOffsetsRequest(
            group_id, [DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
        ),
    )
    if response.error_code:
        return [Refusal(f"group {group_id}", response.error_code, response.error_message)]
    return [
        Refusal(f"topic {topic.topic_name}", topic.error_code, topic.error_message)
        for topic in response.responses
        if topic.error_code
    ]
