"""DescribeShareGroupOffsets v0-v1, AlterShareGroupOffsets v0 and DeleteShareGroupOffsets v0 (KIP-932): describe, alter
and delete the offsets of share groups.

A group's offset in a partition is that of its first unfinished record. v1 adds the lag (KIP-1226), the number of
unfinished offsets from that record to the end. Offsets can be altered or deleted only while the group has no members.
"""

from collections.abc import Iterable, Iterator

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.groups import (
    alter_share_offsets,
    delete_share_offsets,
    describe_share_offsets,
)
from lacuna.agent.internal import topic_by_name
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.share_pb2 import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribeShareOffsets,
    ShareOffset,
)
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import share_groups as wire

_NONE = -1


async def describe(
    call: Call, request: wire.DescribeShareGroupOffsetsRequest
) -> wire.DescribeShareGroupOffsetsResponse:
    return wire.DescribeShareGroupOffsetsResponse(
        groups=[await _describe(call, group) for group in request.groups]
    )


async def _describe(
    call: Call, group: wire.DescribeShareGroupOffsetsRequestGroup
) -> wire.DescribeShareGroupOffsetsResponseGroup:
    names = [topic.topic_name for topic in group.topics or ()]
    cluster = await view_with(call.context, names)
    command = DescribeShareOffsets(group_id=group.group_id, all_partitions=group.topics is None)
    unknown = []
    for topic in group.topics or ():
        known = topic_by_name(cluster, topic.topic_name)
        if known is None:
            partitions = [
                wire.DescribeShareGroupOffsetsResponsePartition(index, _NONE)
                for index in topic.partitions
            ]
            unknown.append(
                wire.DescribeShareGroupOffsetsResponseTopic(topic.topic_name, ZERO_UUID, partitions)
            )
            continue
        command.partitions.extend(
            TopicPartition(topic_id=known.topic_id, partition=index) for index in topic.partitions
        )
    reply = await call.context.control.call(Command(describe_share_offsets=command))
    described = reply.share_offsets_described
    if described.error_code:
        return wire.DescribeShareGroupOffsetsResponseGroup(
            group.group_id,
            error_code=described.error_code,
            error_message=described.error_message or None,
        )
    topics = [*_topics(call, described.offsets), *unknown]
    return wire.DescribeShareGroupOffsetsResponseGroup(group.group_id, topics)


def _topics(
    call: Call, offsets: Iterable[ShareOffset]
) -> Iterator[wire.DescribeShareGroupOffsetsResponseTopic]:
    by_topic: dict[bytes, list[wire.DescribeShareGroupOffsetsResponsePartition]] = {}
    for each in offsets:
        by_topic.setdefault(each.partition.topic_id, []).append(
            wire.DescribeShareGroupOffsetsResponsePartition(
                each.partition.partition, each.start_offset, lag=each.lag
            )
        )
    topics = call.context.control.cluster.topics_by_id
    for topic_id, partitions in by_topic.items():
        if topic_id in topics:  # otherwise it has just been deleted
            yield wire.DescribeShareGroupOffsetsResponseTopic(
                topics[topic_id].name, topic_id, partitions
            )


async def alter(
    call: Call, request: wire.AlterShareGroupOffsetsRequest
) -> wire.AlterShareGroupOffsetsResponse:
    cluster = await view_with(call.context, [topic.topic_name for topic in request.topics])
    topics = {each.topic_name: topic_by_name(cluster, each.topic_name) for each in request.topics}
    command = AlterShareOffsets(group_id=request.group_id)
    for asked in request.topics:
        if (known := topics[asked.topic_name]) is None:
            continue
        for each in asked.partitions:
            named = TopicPartition(topic_id=known.topic_id, partition=each.partition_index)
            command.offsets.add(partition=named, start_offset=each.start_offset)
    reply = await call.context.control.call(call.command(alter_share_offsets=command))
    altered = reply.share_offsets_altered
    if altered.error_code:
        return wire.AlterShareGroupOffsetsResponse(
            error_code=altered.error_code, error_message=altered.error_message or None
        )
    codes = iter(altered.error_codes)
    responses = []
    for asked in request.topics:
        known = topics[asked.topic_name]
        partitions = []
        for each in asked.partitions:
            code = next(codes) if known is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partitions.append(
                wire.AlterShareGroupOffsetsResponsePartition(each.partition_index, code)
            )
        topic_id = ZERO_UUID if known is None else known.topic_id
        responses.append(
            wire.AlterShareGroupOffsetsResponseTopic(asked.topic_name, topic_id, partitions)
        )
    return wire.AlterShareGroupOffsetsResponse(responses=responses)


async def delete(
    call: Call, request: wire.DeleteShareGroupOffsetsRequest
) -> wire.DeleteShareGroupOffsetsResponse:
    cluster = await view_with(call.context, [topic.topic_name for topic in request.topics])
    found = [(each.topic_name, topic_by_name(cluster, each.topic_name)) for each in request.topics]
    command = DeleteShareOffsets(
        group_id=request.group_id,
        topic_ids=[topic.topic_id for _, topic in found if topic is not None],
    )
    reply = await call.context.control.call(call.command(delete_share_offsets=command))
    deleted = reply.share_offsets_deleted
    if deleted.error_code:
        return wire.DeleteShareGroupOffsetsResponse(
            error_code=deleted.error_code, error_message=deleted.error_message or None
        )
    codes = iter(deleted.error_codes)
    return wire.DeleteShareGroupOffsetsResponse(
        responses=[
            wire.DeleteShareGroupOffsetsResponseTopic(
                name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            if topic is None
            else wire.DeleteShareGroupOffsetsResponseTopic(name, topic.topic_id, next(codes))
            for name, topic in found
        ]
    )


APIS = (
    Api(
        request=wire.DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST,
        response=wire.DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE,
        handle=describe,
        refusal=lambda _call, request, code: wire.DescribeShareGroupOffsetsResponse(
            groups=[
                wire.DescribeShareGroupOffsetsResponseGroup(each.group_id, error_code=code)
                for each in request.groups
            ]
        ),
        guard=describe_share_offsets,
        pieces=(Pieces(("groups",), ("groups",), most=20),),
        moved=ErrorCode.NOT_COORDINATOR,
        notes="share groups (KIP-932)",
    ),
    Api(
        request=wire.ALTER_SHARE_GROUP_OFFSETS_REQUEST,
        response=wire.ALTER_SHARE_GROUP_OFFSETS_RESPONSE,
        handle=alter,
        guard=alter_share_offsets,
        moved=ErrorCode.NOT_COORDINATOR,
        notes="share groups (KIP-932)",
    ),
    Api(
        request=wire.DELETE_SHARE_GROUP_OFFSETS_REQUEST,
        response=wire.DELETE_SHARE_GROUP_OFFSETS_RESPONSE,
        handle=delete,
        guard=delete_share_offsets,
        moved=ErrorCode.NOT_COORDINATOR,
        notes="share groups (KIP-932)",
    ),
)
