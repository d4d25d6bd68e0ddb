"""CreateTopics v2-v7.

Any replication factor from 1 on is accepted, and -1: there are no replicas, records are in the object store
before they are acknowledged. A replica assignment is accepted for its count of partitions, which must be numbered from
0 on, each with as many different brokers as the others; a count or a factor beside it is INVALID_REQUEST, as in Kafka.
-1 partitions are `num_partitions`. A config that Kafka has not, or that promises what nobody keeps, is INVALID_CONFIG.
A name that the request has twice is INVALID_REQUEST. v5+ answers counts and configs (KIP-525), v7 topic ids (KIP-516).
"""

from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis import configs
from agent.apis.registry import Api, Peer
from agent.apis.replica_assignments import problem_of
from agent.apis.schema import build
from controlplane.topic_configs import check_all, shorten
from controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, TopicResult
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext

DEFAULT = -1
REPLICATION_FACTOR = 1


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all that can be tried; each topic fails alone."""
    asked = {topic.name: topic for topic in request.topics}
    repeated = Counter(topic.name for topic in request.topics)
    results: dict[str, TopicResult] = {}
    creations = []
    for name, topic in asked.items():
        code, message = _check(topic, repeated[name])
        if code:
            results[name] = TopicResult(name=name, error_code=code, error_message=message)
        else:
            creations.append(_creation(context, topic))
    if creations:
        command = CreateTopics(topics=creations, validate_only=request.validate_only)
        reply = await context.control.call(Command(create_topics=command))
        results.update((each.name, each) for each in reply.topics_created.topics)
    return build(
        request,
        "CreateTopicsResponse",
        topics=tuple(_result(request, topic, results[name]) for name, topic in asked.items()),
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error for every topic."""
    asked = {topic.name: topic for topic in request.topics}
    return build(
        request,
        "CreateTopicsResponse",
        topics=tuple(
            _result(request, topic, TopicResult(name=name, error_code=error_code))
            for name, topic in asked.items()
        ),
    )


def _check(topic: Any, count: int) -> tuple[int, str]:
    """Error code and message of what can be told from the request alone."""
    if count > 1:
        return KafkaError.invalid_request, "The request names this topic more than once."
    empty = [config.name for config in topic.configs if config.value is None]
    if empty:
        message = f"Null value not supported for topic configs: {shorten(','.join(empty))}"
        return KafkaError.invalid_config, message
    if not topic.assignments:
        if topic.replication_factor == DEFAULT or topic.replication_factor >= 1:
            return 0, ""
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        return KafkaError.invalid_replication_factor, message
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        message = "With an assignment, leave the count and the replication factor at -1."
        return KafkaError.invalid_request, message
    numbers = sorted(each.partition_index for each in topic.assignments)
    if numbers != list(range(len(numbers))):
        message = "partitions should be a consecutive 0-based integer sequence"
        return KafkaError.invalid_replica_assignment, message
    problem = problem_of(each.broker_ids for each in topic.assignments)
    return (KafkaError.invalid_replica_assignment, problem) if problem else (0, "")


def _creation(context: "AgentContext", topic: Any) -> CreateTopic:
    count = len(topic.assignments) or topic.num_partitions
    return CreateTopic(
        name=topic.name,
        partition_count=context.settings.num_partitions if count == DEFAULT else count,
        configs={config.name: config.value for config in topic.configs},
    )


def _result(request: Any, topic: Any, result: TopicResult) -> Any:
    if result.error_code:
        return build(
            request,
            "CreatableTopicResult",
            name=topic.name,
            topic_id=None,
            error_code=result.error_code,
            error_message=result.error_message or None,
            configs=(),
        )
    return build(
        request,
        "CreatableTopicResult",
        name=topic.name,
        topic_id=None if request.validate_only else UUID(bytes=result.topic_id),
        error_code=KafkaError.none,
        error_message=None,
        num_partitions=result.partition_count,
        replication_factor=REPLICATION_FACTOR,
        configs=_configs(request, topic),
    )


def _configs(request: Any, topic: Any) -> tuple[Any, ...] | None:
    if type(request).__version__ < 5:
        return None
    stored = check_all({config.name: config.value for config in topic.configs})
    return tuple(
        build(
            request,
            "CreatableTopicConfigs",
            name=each.name,
            value=each.value,
            read_only=each.is_read_only,
            config_source=each.source,
            is_sensitive=False,
        )
        for each in configs.of_topic(stored)
    )


API = Api(
    key=19,
    min_version=2,
    max_version=7,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_controller,
    notes="any replication factor; see below",
)
