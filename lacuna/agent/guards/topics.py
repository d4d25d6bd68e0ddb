"""Guards for the APIs that concern topics. A client learns whether a topic exists only if it may describe the topic."""

from collections import Counter
from typing import Any

from lacuna.agent.admin import operations
from lacuna.agent.api import AnyApi, Call
from lacuna.agent.guards.guard import joined, look_for, name_of, split
from lacuna.agent.internal import all_topics, topic_by_name
from lacuna.agent.rights import Rights
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.authorizer import DENIED
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import topics as wire

_TOPIC_DENIED = DENIED[ResourceType.TOPIC]
_FIRST_NULL_NAME = 12
_FIRST_DELETE_BY_ID = 6
_FIRST_CONFIGS = 5


async def metadata(rights: Rights, api: AnyApi, call: Call, request: wire.MetadataRequest) -> Any:
    """Requires Describe on each topic and, to create a topic, Create on the topic or the cluster. If all topics are
    requested, denied topics are omitted.
    """
    if request.topics is None or (call.version == 0 and not request.topics):
        response: wire.MetadataResponse = await api.handle(call, request)
        seen = [
            each
            for each in response.topics
            if rights.may_topic(Operation.DESCRIBE, each.name or "", is_logged=False)
        ]
        return _with_operations(rights, response._replace(topics=seen))
    allowed: list[wire.MetadataRequestTopic] = []
    denied: list[wire.MetadataRequestTopic] = []
    for topic in dict.fromkeys(request.topics):
        # Only the handler can look up a topic by its id.
        is_allowed = topic.topic_id != ZERO_UUID or rights.may_topic(
            Operation.DESCRIBE, topic.name or ""
        )
        (allowed if is_allowed else denied).append(topic)
    some = request._replace(topics=allowed)
    # In v0, no topics would mean all topics.
    response = await _creating(rights, api, call if allowed else call._replace(version=1), some)
    asked_ids = {each.topic_id for each in allowed} - {ZERO_UUID}
    shown = [
        each
        if each.topic_id not in asked_ids
        or not each.name
        or rights.may_topic(Operation.DESCRIBE, each.name)
        else _not_described(call, wire.MetadataRequestTopic(each.topic_id))
        for each in response.topics
    ]
    response = _with_operations(rights, response._replace(topics=shown))
    failed = [_not_described(call, each) for each in denied]
    return response._replace(topics=[*response.topics, *failed])


async def _creating(rights: Rights, api: AnyApi, call: Call, request: wire.MetadataRequest) -> Any:
    """Create only topics that the client may create, and return an authorization error for the others."""
    uncreatable = _uncreatable(rights, call, request)
    if not uncreatable:
        return await api.handle(call, request)
    others = [each for each in request.topics or () if each not in uncreatable]
    looked_up: wire.MetadataResponse = await api.handle(
        call, request._replace(topics=uncreatable, allow_auto_topic_creation=False)
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [
        wire.MetadataResponseTopic(_TOPIC_DENIED, each.name) if each.error_code == unknown else each
        for each in looked_up.topics
    ]
    looked_up = looked_up._replace(topics=topics)
    if not others:
        return looked_up
    found: wire.MetadataResponse = await api.handle(call, request._replace(topics=others))
    return joined([found, looked_up], "topics")


def _uncreatable(
    rights: Rights, call: Call, request: wire.MetadataRequest
) -> list[wire.MetadataRequestTopic]:
    """Return the topics missing from the view that the request would create although the client may not create them."""
    context = call.context
    if not (context.settings.auto_create_topics and request.allow_auto_topic_creation):
        return []
    cluster = context.control.cluster
    missing = [
        each
        for each in request.topics or ()
        if each.topic_id == ZERO_UUID and topic_by_name(cluster, each.name or "") is None
    ]
    if not missing or rights.may_cluster(Operation.CREATE, is_logged=False):
        return []
    return [each for each in missing if not rights.may_topic(Operation.CREATE, each.name or "")]


def _with_operations(rights: Rights, response: wire.MetadataResponse) -> wire.MetadataResponse:
    topics = [
        each
        if each.topic_authorized_operations == operations.NOT_ASKED
        else each._replace(
            topic_authorized_operations=rights.operations(ResourceType.TOPIC, each.name or "")
        )
        for each in response.topics
    ]
    response = response._replace(topics=topics)
    if response.cluster_authorized_operations == operations.NOT_ASKED:
        return response
    return response._replace(cluster_authorized_operations=rights.cluster_operations())


def _not_described(call: Call, topic: wire.MetadataRequestTopic) -> wire.MetadataResponseTopic:
    """Return the answer for a topic that the client may not describe, by name or id as in the request."""
    by_id = topic.topic_id != ZERO_UUID
    name = topic.name
    if by_id:
        name = None if call.version >= _FIRST_NULL_NAME else ""
    return wire.MetadataResponseTopic(_TOPIC_DENIED, name, topic.topic_id)


async def describe_topic_partitions(
    rights: Rights, api: AnyApi, call: Call, request: wire.DescribeTopicPartitionsRequest
) -> Any:
    """Requires Describe on each topic. The answer to a request for all topics omits denied topics."""
    cluster = await view_with(call.context)
    cursor = request.cursor
    names = {each.name for each in request.topics}
    is_wrong = cursor is not None and (
        cursor.partition_index < 0 or (names and cursor.topic_name not in names)
    )
    if is_wrong:
        return await api.handle(call, request)
    start = "" if cursor is None else cursor.topic_name
    asked = [each for each in sorted(names or all_topics(cluster)) if each >= start]
    allowed = [
        each
        for each in asked
        if rights.may_topic(Operation.DESCRIBE, each, is_logged=bool(request.topics))
    ]
    response = wire.DescribeTopicPartitionsResponse()
    if allowed:
        part = request._replace(
            topics=[wire.TopicRequest(each) for each in allowed],
            cursor=cursor if start in allowed else None,
        )
        response = await api.handle(call, part)
    described = [
        each._replace(
            topic_authorized_operations=rights.operations(ResourceType.TOPIC, each.name or "")
        )
        for each in response.topics
    ]
    denied = sorted(set(asked) - set(allowed)) if request.topics else ()
    failed = [wire.DescribeTopicPartitionsResponseTopic(_TOPIC_DENIED, each) for each in denied]
    return response._replace(topics=[*described, *failed])


async def create_topics(
    rights: Rights, api: AnyApi, call: Call, request: wire.CreateTopicsRequest
) -> Any:
    """Requires Create on the cluster or each topic. The answer shows configs only if the client may describe them."""
    may_all = rights.may_cluster(Operation.CREATE, is_logged=False)
    times = Counter(each.name for each in request.topics)

    def code_of(topic: wire.CreatableTopic) -> int:
        if may_all or times[topic.name] > 1:  # a repeated name is rejected regardless of rights
            return 0
        return rights.error(Operation.CREATE, ResourceType.TOPIC, topic.name)

    response: wire.CreateTopicsResponse = await split(
        api, call, request, "topics", "topics", code_of
    )
    return response._replace(topics=[_created(rights, call, each) for each in response.topics])


def _created(
    rights: Rights, call: Call, result: wire.CreatableTopicResult
) -> wire.CreatableTopicResult:
    if result.error_code == _TOPIC_DENIED:
        return result._replace(error_message="Authorization failed.")
    is_silent = result.error_code or call.version < _FIRST_CONFIGS
    if is_silent or rights.may_topic(Operation.DESCRIBE_CONFIGS, result.name, is_logged=False):
        return result
    return result._replace(
        topic_config_error_code=_TOPIC_DENIED, num_partitions=-1, replication_factor=-1, configs=()
    )


async def delete_topics(
    rights: Rights, api: AnyApi, call: Call, request: wire.DeleteTopicsRequest
) -> Any:
    """Requires Delete on the cluster or each topic. Only with Describe does a client learn that a topic is missing."""
    if rights.may_cluster(Operation.DELETE, is_logged=False):
        return await api.handle(call, request)
    by_id = call.version >= _FIRST_DELETE_BY_ID
    asked = (
        request.topics if by_id else [wire.DeleteTopicState(each) for each in request.topic_names]
    )
    names = [each.name for each in asked if each.name]
    await view_with(call.context, names)
    await look_for(call, [each.topic_id for each in asked])
    times = Counter(asked)

    def code_of(topic: wire.DeleteTopicState | str) -> int:
        each = topic if isinstance(topic, wire.DeleteTopicState) else wire.DeleteTopicState(topic)
        if times[each] > 1 or bool(each.name) == (each.topic_id != ZERO_UUID):
            return 0  # rejected regardless of rights
        return _deletion_error(rights, call, each)

    field = "topics" if by_id else "topic_names"
    response: wire.DeleteTopicsResponse = await split(
        api, call, request, field, "responses", code_of
    )
    results = []
    for result in response.responses:
        name = name_of(call.context, result.name, result.topic_id)
        is_shown = name and rights.may_topic(Operation.DESCRIBE, name, is_logged=False)
        results.append(result._replace(name=name) if is_shown else result)
    return response._replace(responses=results)


def _deletion_error(rights: Rights, call: Call, topic: wire.DeleteTopicState) -> int:
    name = name_of(call.context, topic.name, topic.topic_id)
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not rights.may_topic(Operation.DESCRIBE, name):
        return _TOPIC_DENIED
    if rights.may_topic(Operation.DELETE, name):
        return 0
    is_there = topic_by_name(call.context.control.cluster, name) is not None
    return _TOPIC_DENIED if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
