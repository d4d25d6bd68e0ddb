"""ListConfigResources v0-v1 (KIP-1142; v0 is KIP-714's list of client metrics subscriptions).

Topics, agents, which have loggers too, and groups on which something was set. There are no client metrics
subscriptions. v1 asks for types, none means all; another type is UNSUPPORTED_VERSION, as in Kafka.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis.config_resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.views import view_with
from controlplane.v1.consumer_groups_pb2 import DescribeGroupConfigs
from controlplane.v1.control_pb2 import Command

if TYPE_CHECKING:
    from agent.context import AgentContext

TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster."""
    asked = set(request.resource_types or TYPES) if version_of(request) else {CLIENT_METRICS}
    if not asked <= set(TYPES):
        return refuse(request, KafkaError.unsupported_version)
    await view_with(context)
    groups = await _groups(context) if GROUP in asked else ()
    return build(
        request,
        "ListConfigResourcesResponse",
        error_code=KafkaError.none,
        config_resources=tuple(
            build(request, "ConfigResource", resource_type=kind, resource_name=name)
            for kind, name in (*_resources(context), *groups)
            if kind in asked
        ),
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error, and nothing."""
    return build(request, "ListConfigResourcesResponse", error_code=error_code, config_resources=())


def _resources(context: "AgentContext") -> Iterator[tuple[int, str]]:
    for name in sorted(context.control.cluster.topics_by_name):
        yield TOPIC, name
    for agent in placement.live_agents(context):
        yield BROKER, str(agent.node_id)
        yield BROKER_LOGGER, str(agent.node_id)


async def _groups(context: "AgentContext") -> Iterable[tuple[int, str]]:
    command = Command(describe_group_configs=DescribeGroupConfigs(all_groups=True))
    described = (await context.control.call(command)).group_configs_described
    return [(GROUP, each.group_id) for each in described.groups]


API = Api(
    key=74,
    min_version=0,
    max_version=1,
    handle=handle,
    refuse=refuse,
    notes="topics, groups, agents and their loggers; there are no client metrics subscriptions",
)
