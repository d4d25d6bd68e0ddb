"""IncrementalAlterConfigs v0-v1 (KIP-339): configs of topics.

A config that has no effect here is INVALID_CONFIG and never stored. SET and APPEND need a value and a config is
named once, else INVALID_REQUEST. Settings of agents are given at their start: altering a broker is refused with
INVALID_REQUEST and a message that says so.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.topic_configs import shorten
from controlplane.v1.cluster_pb2 import AlterTopicConfigs, ConfigChange
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext

TOPIC, BROKER = 2, 4
DELETE = 1


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command a topic; each resource fails alone."""
    results = []
    for resource in request.resources:
        code, message = _check(request, resource)
        if not code:
            code, message = await _alter(context, request, resource)
        results.append(_result(request, resource, code, message))
    return build(request, "IncrementalAlterConfigsResponse", responses=tuple(results))


def refuse(request: Any, error_code: int) -> Any:
    """The error for every resource."""
    return build(
        request,
        "IncrementalAlterConfigsResponse",
        responses=tuple(_result(request, each, error_code, "") for each in request.resources),
    )


def _check(request: Any, resource: Any) -> tuple[int, str]:
    """Error code and message of what can be told from the request alone."""
    invalid = int(KafkaError.invalid_request)
    if resource.resource_type == BROKER:
        return invalid, "An agent's settings are given at its start and cannot be altered here."
    if resource.resource_type != TOPIC:
        return invalid, f"Resources of type {resource.resource_type} have no configs here."
    resources = Counter((each.resource_type, each.resource_name) for each in request.resources)
    if resources[resource.resource_type, resource.resource_name] > 1:
        return invalid, "The request names this resource more than once."
    if len({config.name for config in resource.configs}) < len(resource.configs):
        return invalid, "The request names a config of this resource more than once."
    for config in resource.configs:
        if config.value is None and config.config_operation != DELETE:
            return invalid, f"{shorten(config.name)}: this operation needs a value."
    return 0, ""


async def _alter(context: "AgentContext", request: Any, resource: Any) -> tuple[int, str]:
    command = AlterTopicConfigs(
        name=resource.resource_name,
        changes=[
            ConfigChange(name=each.name, operation=each.config_operation, value=each.value or "")
            for each in resource.configs
        ],
        validate_only=request.validate_only,
    )
    reply = await context.control.call(Command(alter_topic_configs=command))
    return reply.topic_configs_altered.error_code, reply.topic_configs_altered.error_message


def _result(request: Any, resource: Any, error_code: int, message: str) -> Any:
    return build(
        request,
        "AlterConfigsResourceResponse",
        error_code=error_code,
        error_message=(message or KafkaError(error_code).name) if error_code else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


API = Api(
    key=44,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_controller,
)
