"""DescribeConfigs v0-v4.

Describes the configs of topics (resource type 2), agents (4, "broker"), their loggers (8), client metrics subscriptions
(16), which all have the same values, and groups (32), whether or not they exist. The answer contains the values with
their sources, their types (v3+, KIP-569) and, on request, their synonyms (KIP-226) and documentation. Unknown config
names are omitted, and a request without names means all configs. An unknown topic returns UNKNOWN_TOPIC_OR_PARTITION,
and an illegal name INVALID_TOPIC_EXCEPTION. Any other resource type, or a broker that is not a live agent, returns
INVALID_REQUEST. The broker "" stands for the configs set for all brokers. v0, sent by clients before 1.1, reports only
whether a value is the default, not its source.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lacuna.agent import placement
from lacuna.agent.admin import configs
from lacuna.agent.admin.config_resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.cluster import describe_configs as guard
from lacuna.agent.internal import topic_by_name
from lacuna.agent.topic_names import is_legal
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.config_values import shorten
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.consumer_groups_pb2 import DescribeGroupConfigs
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.messages import configs as wire


@dataclass(frozen=True, slots=True)
class _Failure:
    error_code: int
    message: str


async def handle(call: Call, request: wire.DescribeConfigsRequest) -> wire.DescribeConfigsResponse:
    named = (each.resource_name for each in request.resources if each.resource_type == TOPIC)
    await view_with(call.context, filter(is_legal, named))
    groups = await _configs_of_groups(call.context, request)
    results = []
    for resource in request.resources:
        shown = _configs(call.context, resource.resource_type, resource.resource_name, groups)
        if isinstance(shown, _Failure):
            results.append(_failed(resource, shown.error_code, shown.message))
        else:
            results.append(_described(request, resource, shown))
    return wire.DescribeConfigsResponse(results=results)


async def _configs_of_groups(
    context: AgentContext, request: wire.DescribeConfigsRequest
) -> Mapping[str, Mapping[str, str]]:
    """Fetch the configs set on the requested groups, by group id, from the control plane. Views do not contain them."""
    named = {each.resource_name for each in request.resources if each.resource_type == GROUP}
    if not named:
        return {}
    command = DescribeGroupConfigs(group_ids=sorted(named))
    reply = await context.control.call(Command(describe_group_configs=command))
    return {each.group_id: each.configs for each in reply.group_configs_described.groups}


def _configs(
    context: AgentContext,
    resource_type: int,
    name: str,
    groups: Mapping[str, Mapping[str, str]],
) -> Iterable[configs.ShownConfig] | _Failure:
    if resource_type == TOPIC:
        if not is_legal(name):
            message = f"Topic name is invalid: {shorten(name)!r}"
            return _Failure(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        topic = topic_by_name(context.control.cluster, name)
        if topic is None:
            return _Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        inherited = set(topic.inherited)
        own = {key: value for key, value in topic.configs.items() if key not in inherited}
        return configs.of_topic(own, context.control.cluster.security.configs)
    if resource_type in (BROKER, BROKER_LOGGER):
        return _of_agent(context, resource_type, name)
    if resource_type in (CLIENT_METRICS, GROUP):
        if not name:
            return _Failure(ErrorCode.INVALID_REQUEST, "The name must not be empty")
        if resource_type == GROUP:
            return configs.of_group(groups.get(name, {}))
        return configs.CLIENT_METRICS
    return _Failure(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def _of_agent(
    context: AgentContext, resource_type: int, name: str
) -> Iterable[configs.ShownConfig] | _Failure:
    if not name and resource_type == BROKER:
        return configs.of_all_agents(context.control.cluster.security)
    for agent in placement.live_agents(context):
        if str(agent.node_id) == name:
            if resource_type == BROKER_LOGGER:
                return configs.of_loggers()
            return configs.of_agent(context, agent)
    return _Failure(ErrorCode.INVALID_REQUEST, f"There is no broker {shorten(name)!r}")


def _failed(
    resource: wire.DescribeConfigsResource, error_code: int, message: str | None = None
) -> wire.DescribeConfigsResult:
    return wire.DescribeConfigsResult(
        error_code, message, resource.resource_type, resource.resource_name
    )


def _described(
    request: wire.DescribeConfigsRequest,
    resource: wire.DescribeConfigsResource,
    shown: Iterable[configs.ShownConfig],
) -> wire.DescribeConfigsResult:
    wanted = resource.configuration_keys
    return wire.DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_config(request, each) for each in shown if not wanted or each.name in wanted],
    )


def _config(
    request: wire.DescribeConfigsRequest, config: configs.ShownConfig
) -> wire.DescribeConfigsResourceResult:
    return wire.DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.is_read_only,
        is_default=config.source == configs.DEFAULT,
        config_source=config.source,
        synonyms=config.synonyms if request.include_synonyms else (),
        config_type=config.type,
        documentation=config.documentation if request.include_documentation else None,
    )


API = Api(
    request=wire.DESCRIBE_CONFIGS_REQUEST,
    response=wire.DESCRIBE_CONFIGS_RESPONSE,
    handle=handle,
    refusal=lambda _call, request, code: wire.DescribeConfigsResponse(
        results=[_failed(each, code) for each in request.resources]
    ),
    guard=guard,
    pieces=(Pieces(("resources",), ("results",), most=20),),
    notes="topics, groups, agents and their loggers; client metrics subscriptions show the defaults",
)
