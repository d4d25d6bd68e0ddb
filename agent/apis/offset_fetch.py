"""OffsetFetch v1-v10: committed offsets of a group, from v8 on of many (KIP-709).

-1 where nothing is committed, also for a topic or partition that does not exist; v10 names topics by id and
says UNKNOWN_TOPIC_ID. From v2 on null topics ask for everything. From v7 on `require_stable` answers
UNSTABLE_OFFSET_COMMIT for what an ongoing transaction may change (KIP-447). From v9 on a member of a
consumer group names itself, and hears STALE_MEMBER_EPOCH if it has to look up its epoch first (KIP-848).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from agent.apis.group_offsets import id_bytes, topic_of
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, has_field, version_of
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import Topic, TopicPartition
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import CommittedOffset, FetchedGroup, OffsetFetch, OffsetFetchGroup

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_GROUPS = 8
FIRST_ERROR_CODE = 2

# (topic id, topic name, its partitions): how an answer groups offsets
TopicOffsets = tuple[bytes, str, list[CommittedOffset]]


@dataclass(frozen=True, slots=True)
class GroupNames:
    """The classes that an answer is made of: v8 renamed them."""

    topic: str
    partition: str


ONE_GROUP = GroupNames("OffsetFetchResponseTopic", "OffsetFetchResponsePartition")
MANY_GROUPS = GroupNames("OffsetFetchResponseTopics", "OffsetFetchResponsePartitions")


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all groups."""
    asked = request.groups if version_of(request) >= FIRST_GROUPS else (request,)
    fetched = await _fetch(context, asked, getattr(request, "require_stable", False))
    if version_of(request) < FIRST_GROUPS:
        topics = _topics_of(context, request, fetched[0])
        return _answer_one(request, topics, fetched[0].error_code)
    return build(
        request,
        "OffsetFetchResponse",
        groups=tuple(
            _answer_group(request, group, _topics_of(context, group, found), found.error_code)
            for group, found in zip(asked, fetched, strict=True)
        ),
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error for each group; before v2 there is a place for it in partitions only."""
    if version_of(request) >= FIRST_GROUPS:
        groups = tuple(_answer_group(request, group, [], error_code) for group in request.groups)
        return build(request, "OffsetFetchResponse", groups=groups)
    if version_of(request) >= FIRST_ERROR_CODE:
        return _answer_one(request, [], error_code)
    topics = [
        (b"", topic.name, [_nothing(each, error_code) for each in topic.partition_indexes])
        for topic in request.topics
    ]
    return _answer_one(request, topics, error_code)


async def _fetch(
    context: "AgentContext", asked: Sequence[Any], require_stable: bool
) -> Sequence[FetchedGroup]:
    """What the control plane has of each group, and of topics as it knows them (S7).

    When its answer is here, the view has what that saw (adr/0003). Where the view has other topics by then, they were
    not what was asked for: that nothing is committed of a topic, because another agent has just made it, would
    make a consumer begin anew.
    """
    while True:
        topics = _topic_ids(context, asked)
        command = OffsetFetch(
            groups=[_ask(context, group) for group in asked], require_stable=require_stable
        )
        reply = await context.control.call(Command(offset_fetch=command))
        if topics == _topic_ids(context, asked):
            return reply.offsets_fetched.groups


def _topic_ids(context: "AgentContext", asked: Sequence[Any]) -> list[bytes | None]:
    """Of every topic that the groups name; None: there is none in the view."""
    named = (topic_of(context, entry) for group in asked for entry in group.topics or ())
    return [None if topic is None else topic.topic_id for topic in named]


def _ask(context: "AgentContext", group: Any) -> OffsetFetchGroup:
    asked = OffsetFetchGroup(group_id=group.group_id, all_partitions=group.topics is None)
    asked.member_id = getattr(group, "member_id", None) or ""
    asked.member_epoch = getattr(group, "member_epoch", -1)
    for entry in group.topics or ():
        topic = topic_of(context, entry)
        if topic is not None:
            asked.partitions.extend(
                TopicPartition(topic_id=topic.topic_id, partition=partition)
                for partition in entry.partition_indexes
            )
    return asked


def _topics_of(context: "AgentContext", group: Any, found: FetchedGroup) -> list[TopicOffsets]:
    """The answer's offsets in the order in which the request has them."""
    if found.error_code:
        return []
    if group.topics is None:
        return _all_topics(context.control.cluster.topics_by_id, found.offsets)
    offsets = {
        (offset.partition.topic_id, offset.partition.partition): offset for offset in found.offsets
    }
    topics: list[TopicOffsets] = []
    for entry in group.topics:
        topic = topic_of(context, entry)
        has_ids = hasattr(entry, "topic_id")
        topic_id = id_bytes(entry) if has_ids else topic.topic_id if topic else b""
        error_code = ErrorCode.UNKNOWN_TOPIC_ID if has_ids and not topic else ErrorCode.NONE
        each = [
            offsets.get((topic_id, partition)) or _nothing(partition, error_code)
            for partition in entry.partition_indexes
        ]
        topics.append((topic_id, "" if has_ids else entry.name, each))
    return topics


def _all_topics(known: dict[bytes, Topic], found: Sequence[CommittedOffset]) -> list[TopicOffsets]:
    by_topic: dict[bytes, list[CommittedOffset]] = {}
    for offset in found:
        by_topic.setdefault(offset.partition.topic_id, []).append(offset)
    return [
        (topic_id, known[topic_id].name, offsets)
        for topic_id, offsets in by_topic.items()
        if topic_id in known  # else it has just been deleted
    ]


def _nothing(partition: int, error_code: int) -> CommittedOffset:
    return CommittedOffset(
        partition=TopicPartition(partition=partition),
        offset=-1,
        leader_epoch=-1,
        error_code=error_code,
    )


def _answer_one(request: Any, topics: Sequence[TopicOffsets], error_code: int) -> Any:
    return build(
        request,
        "OffsetFetchResponse",
        topics=tuple(_answer_topic(request, ONE_GROUP, topic) for topic in topics),
        error_code=error_code,
    )


def _answer_group(request: Any, group: Any, topics: Sequence[TopicOffsets], error_code: int) -> Any:
    return build(
        request,
        "OffsetFetchResponseGroup",
        group_id=group.group_id,
        topics=tuple(_answer_topic(request, MANY_GROUPS, topic) for topic in topics),
        error_code=error_code,
    )


def _answer_topic(request: Any, names: GroupNames, topic: TopicOffsets) -> Any:
    topic_id, name, offsets = topic
    identity: dict[str, Any] = {"name": name}
    if has_field(request, names.topic, "topic_id"):
        identity = {"topic_id": UUID(bytes=topic_id)}
    return build(
        request,
        names.topic,
        **identity,
        partitions=tuple(
            build(
                request,
                names.partition,
                partition_index=offset.partition.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                metadata=offset.metadata,
                error_code=offset.error_code,
            )
            for offset in offsets
        ),
    )


API = Api(key=9, min_version=1, max_version=10, handle=handle, refuse=refuse)
