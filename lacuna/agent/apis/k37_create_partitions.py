"""CreatePartitions v0-v3 (KIP-195).

A topic can only grow. A count that is not larger than the present one returns INVALID_PARTITIONS. Replica assignments,
if given, must be as many as the new partitions, and each must name distinct brokers; otherwise, the topic gets
INVALID_REPLICA_ASSIGNMENT. A topic that the request names twice returns INVALID_REQUEST.
"""

from collections import Counter
from collections.abc import Mapping

from lacuna.agent.admin.replica_assignments import problem_of
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.guard import on_each
from lacuna.agent.quotas.mutation import Mutation, Sizes
from lacuna.agent.views import current_view
from lacuna.controlplane.client import ClusterView
from lacuna.controlplane.shared.acls import Operation, ResourceType
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1 import cluster_pb2
from lacuna.controlplane.v1.cluster_pb2 import CreatePartitions, TopicResult
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.messages.create_partitions import (
    CREATE_PARTITIONS_REQUEST,
    CREATE_PARTITIONS_RESPONSE,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Send one command for all valid topics. Each topic fails independently."""
    repeated = Counter(topic.name for topic in request.topics)
    twice = ErrorCode.INVALID_REQUEST
    results = {name: TopicResult(name=name, error_code=twice) for name in repeated}
    growths = []
    if any(topic.assignments is not None for topic in request.topics):
        await current_view(call.context)  # they are checked against the partition count
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


def _misassigned(call: Call, topic: CreatePartitionsTopic) -> TopicResult | None:
    """Return the error for a topic's assignments, or None if each new partition has a valid one."""
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


def refuse(
    _call: Call, request: CreatePartitionsRequest, error_code: int
) -> CreatePartitionsResponse:
    """Answer every topic with the error."""
    names = {topic.name for topic in request.topics}
    return _answer(request, {each: TopicResult(name=each, error_code=error_code) for each in names})


def _answer(
    request: CreatePartitionsRequest, results: Mapping[str, TopicResult]
) -> CreatePartitionsResponse:
    asked = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(results=[_result(results[name]) for name in asked])


def _result(result: TopicResult) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(result.name, result.error_code, result.error_message or None)


def _added(cluster: ClusterView, request: CreatePartitionsRequest) -> Sizes:
    known = cluster.topics_by_name
    return {
        topic.name: max(0, topic.count_ - known[topic.name].partition_count)
        for topic in request.topics
        if topic.name in known
    }


API = Api(
    request=CREATE_PARTITIONS_REQUEST,
    response=CREATE_PARTITIONS_RESPONSE,
    max_version=3,
    handle=handle,
    refuse=refuse,
    guard=on_each("topics", "results", Operation.ALTER, ResourceType.TOPIC, "name"),
    mutation=Mutation(3, _added, "results"),
    unavailable=ErrorCode.NOT_CONTROLLER,
)
