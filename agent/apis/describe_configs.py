"""DescribeConfigs v1-v4.

Topics (resource type 2) and agents (4, "broker"). Values with their sources and, when asked for, synonyms (KIP-226),
types (v3+, KIP-569) and documentation. Names that do not exist are left out; no names are all. An unknown
topic is UNKNOWN_TOPIC_OR_PARTITION, an illegal one INVALID_TOPIC_EXCEPTION; another resource type, or a
broker that is no live agent, INVALID_REQUEST. The broker "" stands for dynamic defaults: there are none.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis import configs
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.topic_names import is_legal
from controlplane.topic_configs import shorten

if TYPE_CHECKING:
    from agent.context import AgentContext

TOPIC, BROKER = 2, 4


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster."""
    cluster = context.control.cluster
    if cluster.version < 0:
        await cluster.ready()
    results = []
    for resource in request.resources:
        shown = _configs(context, resource.resource_type, resource.resource_name)
        if isinstance(shown, KafkaError):
            results.append(_failed(request, resource, shown))
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


def _configs(
    context: "AgentContext", resource_type: int, name: str
) -> Iterable[configs.ShownConfig] | KafkaError:
    if resource_type == TOPIC:
        if not is_legal(name):
            return KafkaError.invalid_topic_exception
        topic = context.control.cluster.topics_by_name.get(name)
        if topic is None:
            return KafkaError.unknown_topic_or_partition
        return configs.of_topic(topic.configs)
    if resource_type == BROKER:
        if not name:
            return ()
        for agent in placement.live_agents(context):
            if str(agent.node_id) == name:
                return configs.of_agent(context, agent)
    return KafkaError.invalid_request


def _failed(request: Any, resource: Any, error_code: int) -> Any:
    return build(
        request,
        "DescribeConfigsResult",
        error_code=error_code,
        error_message=f"{shorten(resource.resource_name)!r}: {KafkaError(error_code).name}",
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


API = Api(key=32, min_version=1, max_version=4, handle=handle, refuse=refuse)
