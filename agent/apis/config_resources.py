"""What has configs besides topics, and why AlterConfigs in either form refuses it.

Topics (2) and groups (32, KIP-848) have configs of their own. Agents (4, "broker"), their loggers (8) and client
metrics subscriptions (16, KIP-714) are described, and what they have cannot be set here.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.schema import build
from agent.topic_names import is_legal
from controlplane.topic_configs import shorten
from controlplane.v1.cluster_pb2 import AlterTopicConfigs, ConfigChange
from controlplane.v1.consumer_groups_pb2 import AlterGroupConfigs
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

_UNALTERABLE: Final = {
    BROKER: "An agent's settings are given at its start and cannot be altered here.",
    BROKER_LOGGER: "The levels of an agent's loggers are given at its start and cannot be altered here.",
    CLIENT_METRICS: "No metrics of clients are collected here, so there is nothing to subscribe to.",
}


def check_altered(
    resource: Any, resources: Sequence[Any], are_set: Sequence[bool]
) -> tuple[int, str] | None:
    """Error code and message of what can be told from the request alone; None: the control plane is to try it.

    `are_set` says which of the resource's configs get a value. Where none does there is nothing to take
    away from what has no configs of its own, and that succeeds: tools clear what they might have set.
    """
    invalid = int(KafkaError.invalid_request)
    kind, name = resource.resource_type, resource.resource_name
    if kind not in (TOPIC, GROUP):
        if kind in _UNALTERABLE and not any(are_set):
            return 0, ""
        return invalid, _UNALTERABLE.get(kind, f"Unknown resource type {kind}")
    if Counter((each.resource_type, each.resource_name) for each in resources)[kind, name] > 1:
        return invalid, "The request names this resource more than once."
    if len({config.name for config in resource.configs}) < len(resource.configs):
        return invalid, "Error due to duplicate config keys"
    for config, is_set in zip(resource.configs, are_set, strict=True):
        if config.value is None and is_set:
            return invalid, f"Null value not supported for : {shorten(config.name)}"
    if kind == TOPIC and not is_legal(name):
        return int(KafkaError.invalid_topic_exception), f"Topic name is invalid: {shorten(name)!r}"
    return None


async def alter(
    context: "AgentContext",
    resource: Any,
    changes: Sequence[ConfigChange],
    *,
    validate_only: bool,
    replaces_all: bool,
) -> tuple[int, str]:
    """All changes of one topic or group, or none: error code and message of the control plane."""
    if resource.resource_type == GROUP:
        of_group = AlterGroupConfigs(
            group_id=resource.resource_name,
            changes=changes,
            validate_only=validate_only,
            replaces_all=replaces_all,
        )
        reply = await context.control.call(Command(alter_group_configs=of_group))
        return reply.group_configs_altered.error_code, reply.group_configs_altered.error_message
    of_topic = AlterTopicConfigs(
        name=resource.resource_name,
        changes=changes,
        validate_only=validate_only,
        replaces_all=replaces_all,
    )
    reply = await context.control.call(Command(alter_topic_configs=of_topic))
    return reply.topic_configs_altered.error_code, reply.topic_configs_altered.error_message


def altered(request: Any, resource: Any, error_code: int, message: str) -> Any:
    """What became of a resource, in the answer of either form; no message is null."""
    return build(
        request,
        "AlterConfigsResourceResponse",
        error_code=error_code,
        error_message=message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
