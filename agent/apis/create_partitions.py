"""CreatePartitions v0-v3 (KIP-195).

A topic grows, never shrinks: a count that is not larger is INVALID_PARTITIONS. Replica assignments of another
number than that of the new partitions, and those that name no broker or one twice, are INVALID_REPLICA_ASSIGNMENT.
A topic that the request has twice is INVALID_REQUEST.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.replica_assignments import problem_of
from agent.apis.schema import build
from agent.views import current_view
from controlplane.v1.cluster_pb2 import CreatePartitions, CreatePartitionsTopic, TopicResult
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all; each topic fails alone."""
    repeated = Counter(topic.name for topic in request.topics)
    twice = int(KafkaError.invalid_request)
    results = {name: TopicResult(name=name, error_code=twice) for name in repeated}
    growths = []
    if any(topic.assignments is not None for topic in request.topics):
        await current_view(context)  # they are held against how many partitions there are
    for topic in request.topics:
        misassigned = _misassigned(context, topic)
        if repeated[topic.name] == 1 and misassigned:
            results[topic.name] = misassigned
        elif repeated[topic.name] == 1:
            growths.append(CreatePartitionsTopic(name=topic.name, partition_count=topic.count))
    if growths:
        command = CreatePartitions(topics=growths, validate_only=request.validate_only)
        reply = await context.control.call(Command(create_partitions=command))
        results.update((each.name, each) for each in reply.partitions_created.topics)
    return _answer(request, results)


def _misassigned(context: "AgentContext", topic: Any) -> TopicResult | None:
    """The refusal of assignments that are not a sound one for each new partition."""
    known = context.control.cluster.topics_by_name.get(topic.name)
    if topic.assignments is None or known is None:
        return None
    more, assigned = topic.count - known.partition_count, len(topic.assignments)
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
        error_code=int(KafkaError.invalid_replica_assignment),
        error_message=problem,
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error for every topic."""
    names = {topic.name for topic in request.topics}
    return _answer(request, {each: TopicResult(name=each, error_code=error_code) for each in names})


def _answer(request: Any, results: dict[str, TopicResult]) -> Any:
    asked = dict.fromkeys(topic.name for topic in request.topics)
    return build(
        request,
        "CreatePartitionsResponse",
        results=tuple(_result(request, results[name]) for name in asked),
    )


def _result(request: Any, result: TopicResult) -> Any:
    code = result.error_code
    return build(
        request,
        "CreatePartitionsTopicResult",
        name=result.name,
        error_code=code,
        error_message=result.error_message or None,
    )


API = Api(
    key=37,
    min_version=0,
    max_version=3,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_controller,
)
