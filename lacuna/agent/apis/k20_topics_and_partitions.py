"""DeleteTopics v0-v6.

Deletes topics by name or, from v6 on, by id (KIP-516). A topic given by both or by neither returns INVALID_REQUEST, as
does a topic that is named twice. From v5 on, errors include a message. All state is keyed by topic id (S6), so a new
topic with the same name shares nothing with the deleted one. An internal topic returns POLICY_VIOLATION, whereas Kafka
deletes it.

CreatePartitions v0-v3 (KIP-195).

A count that is not larger than the current number of partitions returns INVALID_PARTITIONS. Replica assignments, if
given, must cover each new partition and name distinct brokers for it; otherwise, the topic gets
INVALID_REPLICA_ASSIGNMENT. A topic that the request names twice returns INVALID_REQUEST.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from lacuna.agent.admin.replica_assignments import problem_of
from lacuna.agent.api import Api, Call
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.guard import on_each
from lacuna.agent.guards.topics import delete_topics as guard
from lacuna.agent.internal import topic_by_name
from lacuna.agent.quotas.mutation import Mutation, Sizes
from lacuna.agent.views import current_view, view_with
from lacuna.controlplane.client import ClusterView
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.internal_topics import READ_ONLY
from lacuna.controlplane.v1 import cluster_pb2
from lacuna.controlplane.v1.cluster_pb2 import CreatePartitions, DeleteTopics, Topic, TopicResult
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import topics as wire

FIRST_WITH_IDS = 6
_WORDS: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.POLICY_VIOLATION: f"The topic cannot be deleted: {READ_ONLY}.",
    ErrorCode.INVALID_REQUEST: "Specify each topic only once, by either its name or its id.",
}


async def delete(call: Call, request: wire.DeleteTopicsRequest) -> wire.DeleteTopicsResponse:
    asked = _asked(call, request)
    repeated = Counter(asked)
    sound = [each for each in repeated if repeated[each] == 1 and _is_sound(each)]
    await view_with(call.context, (each.name for each in sound if each.name is not None))
    deleted = await _delete(call.context, sound)
    results = []
    for each in asked:
        outcome = deleted.get(each)
        if outcome is None:
            results.append(_failed(each, ErrorCode.INVALID_REQUEST))
        elif outcome.error_code:
            results.append(_failed(each, outcome.error_code))
        else:
            results.append(wire.DeletableTopicResult(outcome.name, outcome.topic_id))
    return wire.DeleteTopicsResponse(responses=results)


async def _delete(
    context: AgentContext, asked: Sequence[wire.DeleteTopicState]
) -> Mapping[wire.DeleteTopicState, TopicResult]:
    """Delete the topics, and return the result for each.

    If a topic has already been deleted, the control plane returns UNKNOWN_TOPIC_ID. A request by name is then retried
    with the topic that has the name now, if any; the view contains it once the control plane has answered (adr/0003).
    """
    results: dict[wire.DeleteTopicState, TopicResult] = {}
    left = list(asked)
    while left:
        found = {each: _topic_id(context, each) for each in left}
        unknown = TopicResult(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        results.update((each, unknown) for each, topic_id in found.items() if topic_id is None)
        topic_ids = dict.fromkeys(each for each in found.values() if each is not None)
        if not topic_ids:
            break
        command = Command(delete_topics=DeleteTopics(topic_ids=topic_ids))
        answered = (await context.control.call(command)).topics_deleted.topics
        by_id = dict(zip(topic_ids, answered, strict=True))
        results.update((each, by_id[topic_id]) for each, topic_id in found.items() if topic_id)
        gone = ErrorCode.UNKNOWN_TOPIC_ID
        left = [each for each in found if each.name and results[each].error_code == gone]
    return results


def _asked(call: Call, request: wire.DeleteTopicsRequest) -> Sequence[wire.DeleteTopicState]:
    if call.version >= FIRST_WITH_IDS:
        return request.topics
    return [wire.DeleteTopicState(name) for name in request.topic_names]


def _is_sound(asked: wire.DeleteTopicState) -> bool:
    return (asked.name is None) != (asked.topic_id == ZERO_UUID)


def _topic_id(context: AgentContext, asked: wire.DeleteTopicState) -> bytes | None:
    """Return the given id, or the id of the named topic, or None if the view has no such topic."""
    if asked.topic_id != ZERO_UUID:
        return asked.topic_id
    topic = topic_by_name(context.control.cluster, asked.name or "")
    return None if topic is None else topic.topic_id


def _failed(asked: wire.DeleteTopicState, error_code: int) -> wire.DeletableTopicResult:
    return wire.DeletableTopicResult(asked.name, asked.topic_id, error_code, _WORDS.get(error_code))


def _deleted(cluster: ClusterView, request: wire.DeleteTopicsRequest) -> Sizes:
    names = [*request.topic_names, *(topic.name for topic in request.topics if topic.name)]
    found: dict[str | bytes, Topic | None] = {}
    found.update((name, cluster.topics_by_name.get(name)) for name in names)
    found.update(
        (each.topic_id, cluster.topics_by_id.get(each.topic_id))
        for each in request.topics
        if not each.name
    )
    return {key: topic.partition_count for key, topic in found.items() if topic is not None}


async def create_partitions(
    call: Call, request: wire.CreatePartitionsRequest
) -> wire.CreatePartitionsResponse:
    repeated = Counter(topic.name for topic in request.topics)
    twice = ErrorCode.INVALID_REQUEST
    results = {name: TopicResult(name=name, error_code=twice) for name in repeated}
    growths = []
    if any(topic.assignments is not None for topic in request.topics):
        await current_view(call.context)  # the new counts are checked against the current ones
    for topic in request.topics:
        misassigned = _misassigned(call, topic)
        if repeated[topic.name] == 1 and misassigned:
            results[topic.name] = misassigned
        elif repeated[topic.name] == 1:
            growths.append(
                cluster_pb2.CreatePartitionsTopic(name=topic.name, partition_count=topic.count_)
            )
    if growths:
        command = CreatePartitions(topics=growths, validate_only=request.validate_only)
        reply = await call.context.control.call(Command(create_partitions=command))
        results.update((each.name, each) for each in reply.partitions_created.topics)
    return _answer(request, results)


def _misassigned(call: Call, topic: wire.CreatePartitionsTopic) -> TopicResult | None:
    known = call.context.control.cluster.topics_by_name.get(topic.name)
    if topic.assignments is None or known is None:
        return None
    more, assigned = topic.count_ - known.partition_count, len(topic.assignments)
    if more <= 0:
        return None
    if assigned == more:
        problem = problem_of(each.broker_ids for each in topic.assignments)
    else:
        problem = (
            f"Attempted to add {more} additional partition(s), but only {assigned} "
            "assignment(s) were specified."
        )
    if not problem:
        return None
    return TopicResult(
        name=topic.name,
        error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        error_message=problem,
    )


def _refuse_create_partitions(
    _call: Call, request: wire.CreatePartitionsRequest, error_code: int
) -> wire.CreatePartitionsResponse:
    names = {topic.name for topic in request.topics}
    return _answer(request, {each: TopicResult(name=each, error_code=error_code) for each in names})


def _answer(
    request: wire.CreatePartitionsRequest, results: Mapping[str, TopicResult]
) -> wire.CreatePartitionsResponse:
    asked = dict.fromkeys(topic.name for topic in request.topics)
    return wire.CreatePartitionsResponse(results=[_result(results[name]) for name in asked])


def _result(result: TopicResult) -> wire.CreatePartitionsTopicResult:
    return wire.CreatePartitionsTopicResult(
        result.name, result.error_code, result.error_message or None
    )


def _added(cluster: ClusterView, request: wire.CreatePartitionsRequest) -> Sizes:
    known = cluster.topics_by_name
    return {
        topic.name: max(0, topic.count_ - known[topic.name].partition_count)
        for topic in request.topics
        if topic.name in known
    }


APIS = (
    Api(
        request=wire.DELETE_TOPICS_REQUEST,
        response=wire.DELETE_TOPICS_RESPONSE,
        handle=delete,
        refusal=lambda call, request, code: wire.DeleteTopicsResponse(
            responses=[_failed(each, code) for each in _asked(call, request)]
        ),
        guard=guard,
        mutation=Mutation(5, _deleted, "responses"),
        unavailable=ErrorCode.NOT_CONTROLLER,
    ),
    Api(
        request=wire.CREATE_PARTITIONS_REQUEST,
        response=wire.CREATE_PARTITIONS_RESPONSE,
        handle=create_partitions,
        refusal=_refuse_create_partitions,
        guard=on_each("topics", "results", Operation.ALTER, ResourceType.TOPIC, "name"),
        mutation=Mutation(3, _added, "results"),
        unavailable=ErrorCode.NOT_CONTROLLER,
    ),
)
