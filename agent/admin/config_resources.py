"""Which resources have configs, and why AlterConfigs and IncrementalAlterConfigs refuse the others.

Configs of topics (2) and groups (32, KIP-848) can be altered. Those of agents (4, "broker"), their loggers (8) and
client metrics subscriptions (16, KIP-714) can be described but not altered.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from lacuna.agent.topic_names import is_legal
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import shorten
from lacuna.controlplane.v1.cluster_pb2 import AlterTopicConfigs, ConfigChange
from lacuna.controlplane.v1.consumer_groups_pb2 import AlterGroupConfigs
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.messages import alter_configs, incremental_alter_configs

if TYPE_CHECKING:
    from lacuna.agent.context import AgentContext

#: A resource in an AlterConfigs or an IncrementalAlterConfigs request.
AlteredResource: TypeAlias = (
    alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource
)
_Config: TypeAlias = alter_configs.AlterableConfig | incremental_alter_configs.AlterableConfig

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

_UNALTERABLE: Final = {
    BROKER: "An agent's settings are fixed when it starts: change them there and restart the agent.",
    BROKER_LOGGER: "The levels of an agent's loggers are fixed when it starts and cannot be altered here.",
    CLIENT_METRICS: "Lacuna does not collect metrics of clients, so there is nothing to subscribe to.",
}


def check_altered(
    resource: AlteredResource, resources: Sequence[AlteredResource], are_set: Sequence[bool]
) -> tuple[int, str] | None:
    """Check what the request alone can tell about `resource`, one of `resources`.

    Return an error code and a message, (0, "") if there is nothing to do, or None if the control plane is to
    apply the change. `are_set[i]` is true if the resource's config i is given a value. Deleting configs of a
    resource that cannot be altered succeeds, since tools clear configs that they might have set.
    """
    invalid = ErrorCode.INVALID_REQUEST
    kind, name = resource.resource_type, resource.resource_name
    if kind not in (TOPIC, GROUP):
        if kind in _UNALTERABLE and not any(are_set):
            return 0, ""
        return invalid, _UNALTERABLE.get(kind, f"Unknown resource type {kind}")
    if Counter((each.resource_type, each.resource_name) for each in resources)[kind, name] > 1:
        return invalid, "The request names this resource more than once."
    if len({config.name for config in resource.configs}) < len(resource.configs):
        return invalid, "Error due to duplicate config keys"
    configs: Sequence[_Config] = resource.configs
    for config, is_set in zip(configs, are_set, strict=True):
        if config.value is None and is_set:
            return invalid, f"Null value not supported for : {shorten(config.name)}"
    if kind == TOPIC and not is_legal(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {shorten(name)!r}"
    return None


async def alter(
    context: "AgentContext",
    resource: AlteredResource,
    changes: Sequence[ConfigChange],
    *,
    validate_only: bool,
    replaces_all: bool,
) -> tuple[int, str]:
    """Have the control plane apply all changes to one topic or group, or none; return its error code and message."""
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
