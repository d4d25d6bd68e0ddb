"""DescribeConfigs v1-v4.

Topics (resource type 2), agents (4, "broker"), their loggers (8), client metrics subscriptions (16), which have what
holds for all, and groups (32), whether there are such groups or not. Values with their sources and, when asked for,
synonyms (KIP-226), types (v3+, KIP-569) and documentation. Names that do not exist are left out; no names are
all. An unknown topic is UNKNOWN_TOPIC_OR_PARTITION, an illegal one INVALID_TOPIC_EXCEPTION; another resource type, or a
broker that is no live agent, INVALID_REQUEST. The broker "" stands for dynamic defaults: there are none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis import configs
from agent.apis.config_resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.topic_names import is_legal
from agent.views import view_with
from controlplane.topic_configs import shorten
from controlplane.v1.consumer_groups_pb2 import DescribeGroupConfigs
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a resource is not described."""

    error_code: KafkaError
    message: str


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster, which is asked anew for a topic that is not in it."""
    named = (each.resource_name for each in request.resources if each.resource_type == TOPIC)
    await view_with(context, filter(is_legal, named))
    groups = await _configs_of_groups(context, request)
    results = []
    for resource in request.resources:
        shown = _configs(context, resource.resource_type, resource.resource_name, groups)
        if isinstance(shown, _Failure):
            failed = _failed(request, resource, shown.error_code, shown.message)
            results.append(failed)
        else:
            results.append(_described(request, resource, shown))
    return build(request, "DescribeConfigsResponse", results=tuple(results))


def refuse(request: Any, error_code: int) -> Any:
    """The error for every resource."""
    return build(
        request,
        "DescribeConfigsResponse",
        results=tuple(_failed(request, each, error_code) for each in request.resources),
    )


async def _configs_of_groups(
    context: "AgentContext", request: Any
) -> Mapping[str, Mapping[str, str]]:
    """What was set on the groups that the request names; agents have no view of it."""
    named = {each.resource_name for each in request.resources if each.resource_type == GROUP}
    if not named:
        return {}
    command = DescribeGroupConfigs(group_ids=sorted(named))
    reply = await context.control.call(Command(describe_group_configs=command))
    return {each.group_id: each.configs for each in reply.group_configs_described.groups}


def _configs(
    context: "AgentContext",
    resource_type: int,
    name: str,
    groups: Mapping[str, Mapping[str, str]],
) -> Iterable[configs.ShownConfig] | _Failure:
    if resource_type == TOPIC:
        if not is_legal(name):
            message = f"Topic name is invalid: {shorten(name)!r}"
            return _Failure(KafkaError.invalid_topic_exception, message)
        topic = context.control.cluster.topics_by_name.get(name)
        if topic is None:
            return _Failure(KafkaError.unknown_topic_or_partition, "")
        return configs.of_topic(topic.configs)
    if resource_type in (BROKER, BROKER_LOGGER):
        return _of_agent(context, resource_type, name)
    if resource_type in (CLIENT_METRICS, GROUP):
        if not name:
            return _Failure(KafkaError.invalid_request, "The name must not be empty")
        if resource_type == GROUP:
            return configs.of_group(groups.get(name, {}))
        return configs.CLIENT_METRICS
    return _Failure(KafkaError.invalid_request, f"Unknown resource type {resource_type}")


def _of_agent(
    context: "AgentContext", resource_type: int, name: str
) -> Iterable[configs.ShownConfig] | _Failure:
    if not name and resource_type == BROKER:
        return ()
    for agent in placement.live_agents(context):
        if str(agent.node_id) == name:
            if resource_type == BROKER_LOGGER:
                return configs.of_loggers()
            return configs.of_agent(context, agent)
    return _Failure(KafkaError.invalid_request, f"There is no broker {shorten(name)!r}")


def _failed(request: Any, resource: Any, error_code: int, message: str | None = None) -> Any:
    return build(
        request,
        "DescribeConfigsResult",
        error_code=error_code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )


def _described(request: Any, resource: Any, shown: Iterable[configs.ShownConfig]) -> Any:
    wanted = resource.configuration_keys
    return build(
        request,
        "DescribeConfigsResult",
        error_code=KafkaError.none,
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _config(request, each) for each in shown if not wanted or each.name in wanted
        ),
    )


def _config(request: Any, config: configs.ShownConfig) -> Any:
    synonyms = config.synonyms if request.include_synonyms else ()
    documented = getattr(request, "include_documentation", False)
    return build(
        request,
        "DescribeConfigsResourceResult",
        name=config.name,
        value=config.value,
        read_only=config.is_read_only,
        config_source=config.source,
        is_sensitive=False,
        synonyms=tuple(
            build(
                request,
                "DescribeConfigsSynonym",
                name=each.name,
                value=each.value,
                source=each.source,
            )
            for each in synonyms
        ),
        config_type=int(config.type),
        documentation=config.documentation if documented else None,
    )


API = Api(
    key=32,
    min_version=1,
    max_version=4,
    handle=handle,
    refuse=refuse,
    notes="topics, groups, agents and their loggers; client metrics subscriptions show what holds for all",
)
