"""Altering the configs of resources, for AlterConfigs and IncrementalAlterConfigs.

The configs of topics (resource type 2), groups (32, KIP-848) and agents (4, "broker", KIP-226) can be altered. An empty
broker name stands for all agents. The configs of loggers (8) and of client metrics subscriptions (16, KIP-714) are
read-only.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from lacuna.agent import placement
from lacuna.agent.api import Call
from lacuna.agent.topic_names import is_legal
from lacuna.agent.views import current_view
from lacuna.controlplane.shared.broker_configs import (
    CORDONED,
    can_be_set,
    changed,
    of_broker,
    stored_name,
    topic_defaults,
)
from lacuna.controlplane.shared.config_values import shorten
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import DELETE, InvalidConfig, check_together
from lacuna.controlplane.v1.cluster_pb2 import AlterTopicConfigs, ConfigChange
from lacuna.controlplane.v1.consumer_groups_pb2 import AlterGroupConfigs
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.security_pb2 import AlterSecurity, SecurityChanges
from lacuna.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResource,
)

#: A resource in an AlterConfigs or an IncrementalAlterConfigs request.
AlteredResource: TypeAlias = AlterConfigsResource | AlterConfigsRequestAlterConfigsResource
_Config: TypeAlias = AlterableConfig | AlterConfigsRequestAlterableConfig

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

_BROKER_ID: Final = re.compile(r"[0-9]{0,10}")
_UNALTERABLE: Final = {
    BROKER_LOGGER: "The levels of an agent's loggers are fixed when it starts and cannot be altered here.",
    CLIENT_METRICS: "Lacuna does not collect client metrics, so there is nothing to subscribe to.",
}


async def alter_each(
    call: Call,
    resources: Sequence[AlteredResource],
    change: Callable[[Any], ConfigChange],
    *,
    validate_only: bool,
    replaces_all: bool,
) -> list[tuple[int, str | None, int, str]]:
    """Alter each resource with its own command, so that a failure affects only one resource. Return the fields of the
    answers.

    `change` converts a config in the request to a change for the control plane.
    """
    answers = []
    for each in resources:
        changes = [change(config) for config in each.configs]
        code, message = _check_altered(each, resources, changes) or await _alter(
            call, each, changes, validate_only, replaces_all
        )
        answers.append((code, message or None, each.resource_type, each.resource_name))
    return answers


def _check_altered(
    resource: AlteredResource,
    resources: Sequence[AlteredResource],
    changes: Sequence[ConfigChange],
) -> tuple[int, str] | None:
    """Check `resource` as far as possible without the control plane.

    Return an error code and a message, (0, "") if there is nothing to do, or None if the control plane must apply the
    changes. Deleting configs of a read-only resource succeeds, because tools delete configs without knowing whether
    they are set.
    """
    are_set = [each.operation != DELETE for each in changes]
    invalid = ErrorCode.INVALID_REQUEST
    kind, name = resource.resource_type, resource.resource_name
    if kind not in (TOPIC, GROUP, BROKER):
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
    if kind == BROKER and not _BROKER_ID.fullmatch(name):
        return invalid, f"A broker's name must be its id, not {shorten(name)!r}"
    if kind == TOPIC and not is_legal(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {shorten(name)!r}"
    return None


async def _alter(
    call: Call,
    resource: AlteredResource,
    changes: Sequence[ConfigChange],
    validate_only: bool,
    replaces_all: bool,
) -> tuple[int, str]:
    context = call.context
    if resource.resource_type == BROKER:
        return await _alter_brokers(
            call, resource.resource_name, changes, validate_only, replaces_all
        )
    if resource.resource_type == GROUP:
        of_group = AlterGroupConfigs(
            group_id=resource.resource_name,
            changes=changes,
            validate_only=validate_only,
            replaces_all=replaces_all,
        )
        reply = await context.control.call(call.command(alter_group_configs=of_group))
        return reply.group_configs_altered.error_code, reply.group_configs_altered.error_message
    of_topic = AlterTopicConfigs(
        name=resource.resource_name,
        changes=changes,
        validate_only=validate_only,
        replaces_all=replaces_all,
    )
    reply = await context.control.call(Command(alter_topic_configs=of_topic))
    return reply.topic_configs_altered.error_code, reply.topic_configs_altered.error_message


async def _alter_brokers(
    call: Call,
    broker: str,
    changes: Sequence[ConfigChange],
    validate_only: bool,
    replaces_all: bool,
) -> tuple[int, str]:
    fixed = [
        each.name for each in changes if each.operation != DELETE and not can_be_set(each.name)
    ]
    if fixed:
        return ErrorCode.INVALID_REQUEST, (
            f"Cannot update these configs dynamically: {shorten(', '.join(fixed))}. If "
            "DescribeConfigs lists them for a broker, change them on the agent's command line or "
            "in its config file; otherwise, they do not exist here."
        )
    if not broker and any(each.name == CORDONED for each in changes):
        return (
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs at default cluster level, broker id must be specified: [{CORDONED}]",
        )
    cluster = await current_view(call.context)
    if broker and all(
        str(agent.node_id) != broker for agent in placement.live_agents(call.context)
    ):
        return (
            ErrorCode.INVALID_REQUEST,
            f"Broker {broker} does not exist. Metadata lists the live brokers.",
        )
    before = of_broker(cluster.security.configs, broker)
    after: dict[str, str] = {} if replaces_all else dict(before)
    try:
        for each in changes:
            after = changed(after, each.name, each.operation, each.value)
        check_together(topic_defaults(after))
    except InvalidConfig as invalid:
        return ErrorCode.INVALID_REQUEST, str(invalid)
    if validate_only:
        return ErrorCode.NONE, ""
    names = before if replaces_all else [each.name for each in changes]
    alteration = SecurityChanges(
        configs={
            stored_name(broker, name): value
            for name, value in after.items()
            if before.get(name) != value
        },
        removed_configs=[stored_name(broker, name) for name in names if name not in after],
    )
    command = Command(alter_security=AlterSecurity(changes=alteration))
    reply = (await call.context.control.call(command)).security_altered
    return reply.error_code, reply.error_message
