"""OffsetFetch v0-v10: returns the committed offsets of one group, or of several groups from v8 on (KIP-709).

The offset is -1 if nothing is committed, even if the topic or partition does not exist. v10 names topics by id, and
returns UNKNOWN_TOPIC_ID for an unknown one. From v2 on, a null topic list means all topics. From v7 on,
`require_stable` returns UNSTABLE_OFFSET_COMMIT for offsets that an ongoing transaction may change (KIP-447). From v9
on, a member of a consumer group names itself, and gets STALE_MEMBER_EPOCH if its epoch is out of date (KIP-848).

v0 is sent by clients before 0.9. Kafka answered it from ZooKeeper, with UNKNOWN_TOPIC_OR_PARTITION if nothing was
committed; without ZooKeeper, Kafka returns UNSUPPORTED_VERSION. Lacuna reads the group's offsets, and returns Kafka's
old error for a partition without a committed offset.
"""

from collections.abc import Iterable, Mapping, Sequence

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.groups import offset_fetch as guard
from lacuna.agent.internal import topic_by_id, topic_by_name
from lacuna.controlplane.client import ClusterView
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Topic, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    FetchedGroup,
    OffsetFetch,
    OffsetFetchGroup,
)
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import offsets as wire

FIRST_ERROR_CODE = 2
FIRST_GROUPS = 8
FIRST_TOPIC_ID = 10
_NOTHING = -1


async def handle(call: Call, request: wire.OffsetFetchRequest) -> wire.OffsetFetchResponse:
    asked = _groups(call, request)
    fetched = await _fetch(call, asked, request.require_stable)
    return _response(
        call,
        [
            wire.OffsetFetchResponseGroup(
                group.group_id, _topics_of(call, group, found), found.error_code
            )
            for group, found in zip(asked, fetched, strict=True)
        ],
    )


def refuse(
    call: Call, request: wire.OffsetFetchRequest, error_code: int
) -> wire.OffsetFetchResponse:
    """Answer each group with the error. Before v2, only partitions have an error field."""
    return _response(
        call,
        [
            wire.OffsetFetchResponseGroup(
                group.group_id,
                [] if call.version >= FIRST_ERROR_CODE else _failed(group, error_code),
                error_code,
            )
            for group in _groups(call, request)
        ],
    )


def _groups(call: Call, request: wire.OffsetFetchRequest) -> Sequence[wire.OffsetFetchRequestGroup]:
    if call.version >= FIRST_GROUPS:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            wire.OffsetFetchRequestTopics(
                name=topic.name, partition_indexes=topic.partition_indexes
            )
            for topic in request.topics
        ]
    return (wire.OffsetFetchRequestGroup(group_id=request.group_id, topics=topics),)


async def _fetch(
    call: Call, asked: Sequence[wire.OffsetFetchRequestGroup], require_stable: bool
) -> Sequence[FetchedGroup]:
    """Fetch each group's committed offsets from the control plane (S7).

    When the reply arrives, the view is at least as recent as the reply (adr/0003). If topic ids have changed by then,
    the request is repeated. Otherwise, the answer could report that nothing is committed for a topic that another agent
    has just created, and a consumer would start over.
    """
    while True:
        topics = _topic_ids(call, asked)
        command = OffsetFetch(
            groups=[_ask(call, group) for group in asked], require_stable=require_stable
        )
        reply = await call.context.control.call(Command(offset_fetch=command))
        if topics == _topic_ids(call, asked):
            return reply.offsets_fetched.groups


def _topic_ids(call: Call, asked: Iterable[wire.OffsetFetchRequestGroup]) -> list[bytes | None]:
    named = (_topic_of(call, entry) for group in asked for entry in group.topics or ())
    return [None if topic is None else topic.topic_id for topic in named]


def _topic_of(call: Call, entry: wire.OffsetFetchRequestTopics) -> Topic | None:
    cluster = call.context.control.cluster
    if call.version >= FIRST_TOPIC_ID:
        return topic_by_id(cluster, entry.topic_id)
    return topic_by_name(cluster, entry.name)


def _ask(call: Call, group: wire.OffsetFetchRequestGroup) -> OffsetFetchGroup:
    asked = OffsetFetchGroup(
        group_id=group.group_id,
        all_partitions=group.topics is None,
        member_id=group.member_id or "",
        member_epoch=group.member_epoch,
    )
    for entry in group.topics or ():
        topic = _topic_of(call, entry)
        if topic is not None:
            asked.partitions.extend(
                TopicPartition(topic_id=topic.topic_id, partition=partition)
                for partition in entry.partition_indexes
            )
    return asked


def _topics_of(
    call: Call, group: wire.OffsetFetchRequestGroup, found: FetchedGroup
) -> list[wire.OffsetFetchResponseTopics]:
    if found.error_code:
        return []
    if group.topics is None:
        return _all_topics(call.context.control.cluster, found.offsets)
    offsets = {
        (offset.partition.topic_id, offset.partition.partition): offset for offset in found.offsets
    }
    return [_asked_topic(call, entry, offsets) for entry in group.topics]


def _asked_topic(
    call: Call,
    entry: wire.OffsetFetchRequestTopics,
    offsets: Mapping[tuple[bytes, int], CommittedOffset],
) -> wire.OffsetFetchResponseTopics:
    topic = _topic_of(call, entry)
    topic_id = entry.topic_id if topic is None else topic.topic_id
    missing = ErrorCode.NONE
    if call.version == 0:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif call.version >= FIRST_TOPIC_ID and topic is None:
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    partitions = []
    for partition in entry.partition_indexes:
        offset = offsets.get((topic_id, partition))
        if offset is None or (offset.offset == _NOTHING and not offset.error_code):
            partitions.append(_nothing(partition, missing))
        else:
            partitions.append(_committed(offset))
    return wire.OffsetFetchResponseTopics(entry.name, topic_id, partitions)


def _all_topics(
    cluster: ClusterView, found: Iterable[CommittedOffset]
) -> list[wire.OffsetFetchResponseTopics]:
    by_topic: dict[bytes, list[wire.OffsetFetchResponsePartitions]] = {}
    for offset in found:
        by_topic.setdefault(offset.partition.topic_id, []).append(_committed(offset))
    topics = []
    for topic_id, partitions in by_topic.items():
        known = topic_by_id(cluster, topic_id)
        if known is not None:  # otherwise it has just been deleted
            topics.append(wire.OffsetFetchResponseTopics(known.name, topic_id, partitions))
    return topics


def _failed(
    group: wire.OffsetFetchRequestGroup, error_code: int
) -> list[wire.OffsetFetchResponseTopics]:
    return [
        wire.OffsetFetchResponseTopics(
            topic.name,
            ZERO_UUID,
            [_nothing(partition, error_code) for partition in topic.partition_indexes],
        )
        for topic in group.topics or ()
    ]


def _committed(offset: CommittedOffset) -> wire.OffsetFetchResponsePartitions:
    return wire.OffsetFetchResponsePartitions(
        offset.partition.partition,
        offset.offset,
        offset.leader_epoch,
        offset.metadata,
        offset.error_code,
    )


def _nothing(partition: int, error_code: int) -> wire.OffsetFetchResponsePartitions:
    return wire.OffsetFetchResponsePartitions(partition, _NOTHING, error_code=error_code)


def _response(
    call: Call, groups: Sequence[wire.OffsetFetchResponseGroup]
) -> wire.OffsetFetchResponse:
    if call.version >= FIRST_GROUPS:
        return wire.OffsetFetchResponse(groups=groups)
    topics = [
        wire.OffsetFetchResponseTopic(
            topic.name, [wire.OffsetFetchResponsePartition(*each) for each in topic.partitions]
        )
        for topic in groups[0].topics
    ]
    return wire.OffsetFetchResponse(topics=topics, error_code=groups[0].error_code)


API = Api(
    request=wire.OFFSET_FETCH_REQUEST,
    response=wire.OFFSET_FETCH_RESPONSE,
    handle=handle,
    refusal=refuse,
    guard=guard,
    pieces=(
        Pieces(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
        Pieces(("topics", "partition_indexes"), ("topics", "partitions")),
    ),
    moved=ErrorCode.NOT_COORDINATOR,
    notes="v0 reads the group's offsets, like v1; in Kafka, v0 uses ZooKeeper",
)
