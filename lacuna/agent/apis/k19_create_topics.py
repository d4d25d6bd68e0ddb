"""CreateTopics v0-v7.

A replication factor of -1, or of 1 or more, is accepted, although there are no replicas: records are in the object
store before they are acknowledged. A replica assignment only determines the number of partitions, which must be
numbered from 0 and have the same number of distinct brokers each. An assignment combined with a count or a factor
returns INVALID_REQUEST, as in Kafka. A partition count of -1 means `num_partitions`. A config that Kafka does not have,
or that Lacuna cannot honour, returns INVALID_CONFIG. A name that appears twice returns INVALID_REQUEST. The answer
contains partition counts and configs from v5 on (KIP-525), and topic ids from v7 on (KIP-516).
"""

from collections import Counter

from lacuna.agent.admin import configs
from lacuna.agent.admin.replica_assignments import problem_of
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.topics import create_topics as guard
from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.agent.quotas.mutation import Mutation, Sizes
from lacuna.controlplane.client import ClusterView
from lacuna.controlplane.shared.config_values import shorten
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import check_all
from lacuna.controlplane.v1.cluster_pb2 import CreateTopic, CreateTopics, TopicResult
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages import topics as wire

DEFAULT = -1
REPLICATION_FACTOR = 1
FIRST_CONFIGS = 5
# If a request has more partitions than this, the control plane creates none of its topics, as in Kafka.
_MOST_CREATED = 10_000


async def handle(call: Call, request: wire.CreateTopicsRequest) -> wire.CreateTopicsResponse:
    asked = {topic.name: topic for topic in request.topics}
    repeated = Counter(topic.name for topic in request.topics)
    results: dict[str, TopicResult] = {}
    creations = []
    for name, topic in asked.items():
        code, message = _check(topic, repeated[name])
        if code:
            results[name] = TopicResult(name=name, error_code=code, error_message=message)
        else:
            creations.append(_creation(call, topic))
    for some in _commands(creations, request.validate_only):
        command = CreateTopics(topics=some, validate_only=request.validate_only)
        reply = await call.context.control.call(call.command(create_topics=command))
        results.update((each.name, each) for each in reply.topics_created.topics)
    return wire.CreateTopicsResponse(
        topics=[
            _result(call, topic, results[name], request.validate_only)
            for name, topic in asked.items()
        ]
    )


def _commands(creations: list[CreateTopic], validate_only: bool) -> list[list[CreateTopic]]:
    """Divide the topics among commands, so that each decision of the control plane is short.

    If the topics are only to be validated, they are all in one command, because topics that are individually valid may
    conflict or be too many together.
    """
    if validate_only or sum(max(each.partition_count, 0) for each in creations) > _MOST_CREATED:
        return [creations] if creations else []
    return [creations[at : at + MOST_OF_PIECE] for at in range(0, len(creations), MOST_OF_PIECE)]


def refuse(
    _call: Call, request: wire.CreateTopicsRequest, error_code: int
) -> wire.CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return wire.CreateTopicsResponse(topics=[_failed(name, error_code, "") for name in names])


def _check(topic: wire.CreatableTopic, count: int) -> tuple[int, str]:
    """Check the topic without the control plane. Return an error code and a message, (0, "") if it is valid."""
    if count > 1:
        return ErrorCode.INVALID_REQUEST, "The request names this topic more than once."
    empty = [config.name for config in topic.configs if config.value is None]
    if empty:
        message = f"Null value not supported for topic configs: {shorten(','.join(empty))}"
        return ErrorCode.INVALID_CONFIG, message
    if not topic.assignments:
        if topic.replication_factor == DEFAULT or topic.replication_factor >= 1:
            return 0, ""
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        return ErrorCode.INVALID_REPLICATION_FACTOR, message
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        message = "With an assignment, leave the partition count and the replication factor at -1."
        return ErrorCode.INVALID_REQUEST, message
    numbers = sorted(each.partition_index for each in topic.assignments)
    if numbers != list(range(len(numbers))):
        message = "partitions should be a consecutive 0-based integer sequence"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, message
    problem = problem_of(each.broker_ids for each in topic.assignments)
    return (ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem) if problem else (0, "")


def _creation(call: Call, topic: wire.CreatableTopic) -> CreateTopic:
    count = len(topic.assignments) or topic.num_partitions
    return CreateTopic(
        name=topic.name,
        partition_count=call.context.settings.num_partitions if count == DEFAULT else count,
        configs=_asked_configs(topic),
    )


def _asked_configs(topic: wire.CreatableTopic) -> dict[str, str]:
    return {config.name: config.value for config in topic.configs if config.value is not None}


def _result(
    call: Call, topic: wire.CreatableTopic, result: TopicResult, validate_only: bool
) -> wire.CreatableTopicResult:
    if result.error_code:
        return _failed(topic.name, result.error_code, result.error_message)
    return wire.CreatableTopicResult(
        name=topic.name,
        topic_id=ZERO_UUID if validate_only else result.topic_id,
        error_message=None,
        num_partitions=result.partition_count,
        replication_factor=REPLICATION_FACTOR,
        configs=_configs(call, topic) if call.version >= FIRST_CONFIGS else (),
    )


def _failed(name: str, error_code: int, message: str) -> wire.CreatableTopicResult:
    return wire.CreatableTopicResult(
        name=name, error_code=error_code, error_message=message or None
    )


def _configs(call: Call, topic: wire.CreatableTopic) -> list[wire.CreatableTopicConfigs]:
    of_brokers = call.context.control.cluster.security.configs
    return [
        wire.CreatableTopicConfigs(each.name, each.value, each.is_read_only, each.source)
        for each in configs.of_topic(check_all(_asked_configs(topic)), of_brokers)
    ]


def _created(_cluster: ClusterView, request: wire.CreateTopicsRequest) -> Sizes:
    return {
        topic.name: max(1, topic.num_partitions, len(topic.assignments)) for topic in request.topics
    }


API = Api(
    request=wire.CREATE_TOPICS_REQUEST,
    response=wire.CREATE_TOPICS_RESPONSE,
    handle=handle,
    refusal=refuse,
    guard=guard,
    mutation=Mutation(6, _created, "topics", creates=True),
    unavailable=ErrorCode.NOT_CONTROLLER,
    notes="accepts any replication factor; see [differences](#deliberate-differences)",
)
