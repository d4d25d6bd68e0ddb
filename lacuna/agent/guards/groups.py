"""Guards for the APIs that concern groups and their offsets."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from lacuna.agent.admin import operations
from lacuna.agent.api import AnyApi, Call, Guard
from lacuna.agent.guards.guard import look_for, name_of, on_group, split
from lacuna.agent.rights import Rights
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.authorizer import DENIED
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import offsets as wire
from lacuna.wire.messages import share_groups, streams_groups
from lacuna.wire.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedGroup,
    TopicPartitions,
)
from lacuna.wire.messages.groups import DescribedGroup as ClassicGroup
from lacuna.wire.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
)
from lacuna.wire.messages.share_groups import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseTopic,
    ShareGroupHeartbeatRequest,
)
from lacuna.wire.messages.streams_groups import (
    StreamsGroupHeartbeatRequest,
)

_TOPIC_DENIED: Final = DENIED[ResourceType.TOPIC]
_DENIAL: Final = "The group uses topics that the client is not authorized to describe."
_STREAMS_DENIAL: Final = (
    "The described group uses topics that the client is not authorized to describe."
)
_FIRST_PROTOCOL: Final = 5
_FIRST_GROUPS: Final = 8
_NOTHING: Final = -1

Modern = TypeVar(
    "Modern", DescribedGroup, share_groups.DescribedGroup, streams_groups.DescribedGroup
)
Described = TypeVar(
    "Described",
    ClassicGroup,
    DescribedGroup,
    share_groups.DescribedGroup,
    streams_groups.DescribedGroup,
)

_read_group = on_group(Operation.READ)


async def sync_group(rights: Rights, api: AnyApi, call: Call, request: SyncGroupRequest) -> Any:
    """Requires Read on the group. A request that lacks the protocol is rejected regardless of rights."""
    lacks_protocol = None in (request.protocol_type, request.protocol_name)
    if call.version >= _FIRST_PROTOCOL and lacks_protocol:
        return await api.handle(call, request)
    return await _read_group(rights, api, call, request)


async def describe_groups(
    rights: Rights, api: AnyApi, call: Call, request: DescribeGroupsRequest
) -> Any:
    """Requires Describe on each group."""
    response: DescribeGroupsResponse = await split(
        api, call, request, "groups", "groups", lambda name: _description_error(rights, name)
    )
    return response._replace(groups=[_with_operations(rights, each) for each in response.groups])


def _with_operations(rights: Rights, group: Described) -> Described:
    """Add the client's authorized operations to a described group, if the client requested them."""
    if group.authorized_operations == operations.NOT_ASKED:
        return group
    return group._replace(
        authorized_operations=rights.operations(ResourceType.GROUP, group.group_id)
    )


def _seen_by(rights: Rights, group: Modern, topics: set[str], denial: str) -> Modern:
    """Return a described group, or an error if the client may not describe all of the group's topics."""
    if not all(rights.may_topic(Operation.DESCRIBE, name) for name in sorted(topics)):
        return type(group)(_TOPIC_DENIED, denial, group.group_id)
    return _with_operations(rights, group)


def _on_group_described(topics_of: Callable[[Any], set[str]], denial: str = _DENIAL) -> Guard:
    """Return a guard that requires Describe on each group, and on the group's topics as returned by `topics_of`."""

    async def guard(rights: Rights, api: AnyApi, call: Call, request: Any) -> Any:
        response = await split(
            api, call, request, "group_ids", "groups", lambda name: _description_error(rights, name)
        )
        groups = [_seen_by(rights, each, topics_of(each), denial) for each in response.groups]
        return response._replace(groups=groups)

    return guard


def _description_error(rights: Rights, group_id: str) -> int:
    return rights.error(Operation.DESCRIBE, ResourceType.GROUP, group_id)


def _assigned_topics(group: DescribedGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


#: Requires Describe on each group and on each assigned or target topic, but not on merely subscribed topics.
consumer_group_describe: Final = _on_group_described(_assigned_topics)
#: Requires Describe on each group and on each assigned topic.
share_group_describe: Final = _on_group_described(
    lambda group: {
        topic.topic_name for member in group.members for topic in member.assignment.topic_partitions
    }
)


async def list_groups(rights: Rights, api: AnyApi, call: Call, request: ListGroupsRequest) -> Any:
    """Lists all groups if the client may describe the cluster, and otherwise only those that it may describe."""
    response: ListGroupsResponse = await api.handle(call, request)
    if rights.may_cluster(Operation.DESCRIBE, is_logged=False):
        return response
    seen = [
        each
        for each in response.groups
        if rights.may(Operation.DESCRIBE, ResourceType.GROUP, each.group_id, is_logged=False)
    ]
    return response._replace(groups=seen)


async def consumer_group_heartbeat(
    rights: Rights, api: AnyApi, call: Call, request: ConsumerGroupHeartbeatRequest
) -> Any:
    """Requires Read on the group, and Describe on each topic that the member names."""
    if code := rights.error(Operation.READ, ResourceType.GROUP, request.group_id):
        return api.refuse(call, request, code)
    names = [name for name in request.subscribed_topic_names or () if name is not None]
    denied = [name for name in names if not rights.may_topic(Operation.DESCRIBE, name)]
    if denied:
        return api.refuse(call, request, _TOPIC_DENIED)
    response: ConsumerGroupHeartbeatResponse = await api.handle(call, request)
    if response.error_code:
        return response
    member = request.group_id, response.member_id or request.member_id
    cut = call.context.access.cut_assignments
    if response.member_epoch < 0:  # the member has left
        cut.forget(member)
        return response
    return response._replace(assignment=_assigned(rights, call, member, response.assignment))


def _assigned(
    rights: Rights, call: Call, member: tuple[str, str], assignment: Assignment | None
) -> Assignment | None:
    """Leave out topics that match the member's regular expression but that the client may not describe."""

    def may_see(topic: TopicPartitions) -> bool:
        name = name_of(call.context, "", topic.topic_id)
        return name is None or rights.may_topic(Operation.DESCRIBE, name, is_logged=False)

    cut = call.context.access.cut_assignments
    return cut.shown(member, assignment, may_see, rights.whose)


async def share_group_heartbeat(
    rights: Rights, api: AnyApi, call: Call, request: ShareGroupHeartbeatRequest
) -> Any:
    """Requires Read on the group, and Describe on each topic that the member names."""
    code = rights.error(Operation.READ, ResourceType.GROUP, request.group_id)
    for name in request.subscribed_topic_names or ():
        code = code or rights.error(Operation.DESCRIBE, ResourceType.TOPIC, name)
    return api.refuse(call, request, code) if code else await api.handle(call, request)


async def share_records(rights: Rights, api: AnyApi, call: Call, request: Any) -> Any:
    """The guard for ShareFetch and ShareAcknowledge, which require Read on the group and each topic.

    The guard passes a permission to the handler, because requests do not name the topics of a session.
    """
    if code := rights.error(Operation.READ, ResourceType.GROUP, request.group_id or ""):
        return api.refuse(call, request, code)
    return await api.handle(call, request, lambda name: rights.may_topic(Operation.READ, name))


async def streams_group_heartbeat(
    rights: Rights, api: AnyApi, call: Call, request: StreamsGroupHeartbeatRequest
) -> Any:
    """Requires Read on the group, and Describe on each topic of the topology.

    The guard passes a permission to the handler, because only the control plane knows which internal topics are
    missing. Creating them requires Create on the cluster or on the topic.
    """
    code = rights.error(Operation.READ, ResourceType.GROUP, request.group_id)
    for each in request.topology.subtopologies if request.topology is not None else ():
        for name in _topics_of(each):
            code = code or rights.error(Operation.DESCRIBE, ResourceType.TOPIC, name)

    def may_create(name: str) -> bool:
        may_all = rights.may_cluster(Operation.CREATE, is_logged=False)
        return may_all or rights.may_topic(Operation.CREATE, name)

    return api.refuse(call, request, code) if code else await api.handle(call, request, may_create)


def _topics_of(
    subtopology: streams_groups.StreamsGroupHeartbeatRequestSubtopology
    | streams_groups.Subtopology,
) -> list[str]:
    internal = (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
    names = (each.name for each in internal)
    return [*subtopology.source_topics, *subtopology.repartition_sink_topics, *names]


def _topics_of_topology(group: streams_groups.DescribedGroup) -> set[str]:
    subtopologies = (group.topology.subtopologies if group.topology is not None else None) or ()
    return {name for each in subtopologies for name in _topics_of(each)}


#: Requires Describe on each group and on each topic of its topology.
streams_group_describe: Final = _on_group_described(_topics_of_topology, _STREAMS_DENIAL)


async def describe_share_offsets(
    rights: Rights, api: AnyApi, call: Call, request: DescribeShareGroupOffsetsRequest
) -> Any:
    """Requires Describe on each group and topic. The answer to a request for all topics omits denied topics."""
    response: DescribeShareGroupOffsetsResponse = await split(
        api,
        call,
        request,
        "groups",
        "groups",
        lambda group: _description_error(rights, group.group_id),
    )
    asked = {group.group_id: group.topics is not None for group in request.groups}
    return response._replace(
        groups=[
            group._replace(
                topics=[
                    seen
                    for topic in group.topics
                    if (seen := _seen_offsets(rights, topic, asked[group.group_id])) is not None
                ]
            )
            for group in response.groups
        ]
    )


def _seen_offsets(
    rights: Rights, topic: DescribeShareGroupOffsetsResponseTopic, is_named: bool
) -> DescribeShareGroupOffsetsResponseTopic | None:
    if rights.may_topic(Operation.DESCRIBE, topic.topic_name, is_logged=is_named):
        return topic
    if not is_named:
        return None
    partitions = [
        share_groups.DescribeShareGroupOffsetsResponsePartition(
            each.partition_index, _NOTHING, error_code=_TOPIC_DENIED
        )
        for each in topic.partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic.topic_name, partitions=partitions)


def _on_topics_of_group(
    operation: Operation,
    name_in: Callable[[Any], str],
    denied: Callable[[Any, int], Any],
    with_denied: Callable[[Any, Sequence[Any]], Any],
) -> Guard:
    """Return a guard that requires an operation on the group, and Read on each topic.

    `name_in` returns a topic's name, `denied` returns the answer for a denied topic, and `with_denied` adds such
    answers to a response.
    """

    async def guard(rights: Rights, api: AnyApi, call: Call, request: Any) -> Any:
        if code := rights.error(operation, ResourceType.GROUP, request.group_id):
            return api.refuse(call, request, code)
        allowed, failed = [], []
        for each in request.topics:
            if code := rights.error(Operation.READ, ResourceType.TOPIC, name_in(each)):
                failed.append(denied(each, code))
            else:
                allowed.append(each)
        response = await api.handle(call, request._replace(topics=allowed))
        if response.error_code:
            return response
        return with_denied(response, failed)

    return guard


def _with_responses(response: Any, denied: Sequence[Any]) -> Any:
    return response._replace(responses=[*response.responses, *denied])


alter_share_offsets: Final = _on_topics_of_group(
    Operation.READ,
    lambda topic: topic.topic_name,
    lambda topic, code: share_groups.AlterShareGroupOffsetsResponseTopic(
        topic.topic_name,
        partitions=[
            share_groups.AlterShareGroupOffsetsResponsePartition(each.partition_index, code)
            for each in topic.partitions
        ],
    ),
    _with_responses,
)
delete_share_offsets: Final = _on_topics_of_group(
    Operation.DELETE,
    lambda topic: topic.topic_name,
    lambda topic, code: share_groups.DeleteShareGroupOffsetsResponseTopic(
        topic.topic_name, error_code=code
    ),
    _with_responses,
)


async def offset_commit(
    rights: Rights, api: AnyApi, call: Call, request: wire.OffsetCommitRequest
) -> Any:
    """Requires Read on the group and on each topic."""
    if code := rights.error(Operation.READ, ResourceType.GROUP, request.group_id):
        return api.refuse(call, request, code)
    return await commits(rights, api, call, request)


async def commits(
    rights: Rights,
    api: AnyApi,
    call: Call,
    request: wire.OffsetCommitRequest | wire.TxnOffsetCommitRequest,
) -> Any:
    """Requires Read on each topic whose offsets are committed."""
    await look_for(call, [each.topic_id for each in request.topics])

    def code_of(topic: wire.OffsetCommitRequestTopic | wire.TxnOffsetCommitRequestTopic) -> int:
        name = name_of(call.context, topic.name, topic.topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID if topic.topic_id != ZERO_UUID else 0
        return rights.error(Operation.READ, ResourceType.TOPIC, name)

    return await split(api, call, request, "topics", "topics", code_of)


#: Requires Delete on the group, and Read on each topic.
offset_delete: Final = _on_topics_of_group(
    Operation.DELETE,
    lambda topic: topic.name,
    lambda topic, code: wire.OffsetDeleteResponseTopic(
        topic.name,
        [
            wire.OffsetDeleteResponsePartition(each.partition_index, code)
            for each in topic.partitions
        ],
    ),
    lambda response, denied: response._replace(topics=[*response.topics, *denied]),
)


async def offset_fetch(
    rights: Rights, api: AnyApi, call: Call, request: wire.OffsetFetchRequest
) -> Any:
    """Requires Describe on each group and topic. The answer to a request for all topics omits denied topics."""
    if call.version < _FIRST_GROUPS:
        return await _offset_fetch_of_one(rights, api, call, request)
    ids = [topic.topic_id for group in request.groups for topic in group.topics or ()]
    await look_for(call, ids)
    denied: dict[str, list[wire.OffsetFetchResponseTopics]] = {}
    groups = []
    for group in request.groups:
        if group.topics is not None and not _is_hidden(rights, group.group_id):
            group, denied[group.group_id] = _without_denied(rights, call, group)
        groups.append(group)
    response: wire.OffsetFetchResponse = await split(
        api,
        call,
        request._replace(groups=groups),
        "groups",
        "groups",
        lambda group: _description_error(rights, group.group_id),
    )
    return response._replace(
        groups=[_with_denied(rights, each, denied.get(each.group_id)) for each in response.groups]
    )


def _is_hidden(rights: Rights, group_id: str) -> bool:
    return not rights.may(Operation.DESCRIBE, ResourceType.GROUP, group_id, is_logged=False)


def _without_denied(
    rights: Rights, call: Call, group: wire.OffsetFetchRequestGroup
) -> tuple[wire.OffsetFetchRequestGroup, list[wire.OffsetFetchResponseTopics]]:
    """Return the group with only the topics that the client may describe, and the answers for the other topics."""
    allowed: list[wire.OffsetFetchRequestTopics] = []
    failed = []
    for topic in group.topics or ():
        name = name_of(call.context, topic.name, topic.topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID if topic.topic_id != ZERO_UUID else 0
        if name is not None:
            code = rights.error(Operation.DESCRIBE, ResourceType.TOPIC, name)
        if not code:
            allowed.append(topic)
            continue
        partitions = [
            wire.OffsetFetchResponsePartitions(each, _NOTHING, error_code=code)
            for each in topic.partition_indexes
        ]
        failed.append(wire.OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
    return group._replace(topics=allowed), failed


def _with_denied(
    rights: Rights,
    group: wire.OffsetFetchResponseGroup,
    denied: Sequence[wire.OffsetFetchResponseTopics] | None,
) -> wire.OffsetFetchResponseGroup:
    if group.error_code:
        return group
    if denied is not None:
        return group._replace(topics=[*group.topics, *denied])
    # The request asked for all topics.
    seen = [each for each in group.topics if rights.may_topic(Operation.DESCRIBE, each.name)]
    return group._replace(topics=seen)


async def _offset_fetch_of_one(
    rights: Rights, api: AnyApi, call: Call, request: wire.OffsetFetchRequest
) -> Any:
    if code := _description_error(rights, request.group_id):
        return api.refuse(call, request, code)
    if request.topics is None:
        response = await api.handle(call, request)
        seen = [each for each in response.topics if rights.may_topic(Operation.DESCRIBE, each.name)]
        return response._replace(topics=seen)
    allowed: list[wire.OffsetFetchRequestTopic] = []
    denied: list[wire.OffsetFetchRequestTopic] = []
    for topic in request.topics:
        may_describe = rights.may_topic(Operation.DESCRIBE, topic.name)
        (allowed if may_describe else denied).append(topic)
    response = await api.handle(call, request._replace(topics=allowed))
    failed = [
        wire.OffsetFetchResponseTopic(
            topic.name,
            [
                wire.OffsetFetchResponsePartition(each, _NOTHING, error_code=_TOPIC_DENIED)
                for each in topic.partition_indexes
            ],
        )
        for topic in denied
    ]
    return (
        response if response.error_code else response._replace(topics=[*response.topics, *failed])
    )
