"""ListConfigResources v0-v1 (KIP-1142). v0 is KIP-714's list of client metrics subscriptions.

Lists topics, agents and their loggers, and the groups that have configs. There are no client metrics subscriptions. In
v1, a request may name resource types; if it names none, all types are listed. An unknown type returns
UNSUPPORTED_VERSION, as in Kafka.
"""

from collections.abc import Iterable, Iterator

from lacuna.agent import placement
from lacuna.agent.admin.config_resources import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from lacuna.agent.api import Api, Call
from lacuna.agent.context import AgentContext
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.internal import all_topics
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.consumer_groups_pb2 import DescribeGroupConfigs
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.messages import configs as wire

TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)
FIRST_TYPES = 1


async def handle(
    call: Call, request: wire.ListConfigResourcesRequest
) -> wire.ListConfigResourcesResponse:
    asked = {CLIENT_METRICS}
    if call.version >= FIRST_TYPES:
        asked = set(request.resource_types or TYPES)
    if not asked <= set(TYPES):
        return wire.ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    await view_with(call.context)
    groups = await _groups(call.context) if GROUP in asked else ()
    return wire.ListConfigResourcesResponse(
        config_resources=[
            each for each in (*_resources(call.context), *groups) if each.resource_type in asked
        ]
    )


def _resources(context: AgentContext) -> Iterator[wire.ConfigResource]:
    for name in all_topics(context.control.cluster):
        yield wire.ConfigResource(name, TOPIC)
    for agent in placement.live_agents(context):
        yield wire.ConfigResource(str(agent.node_id), BROKER)
        yield wire.ConfigResource(str(agent.node_id), BROKER_LOGGER)


async def _groups(context: AgentContext) -> Iterable[wire.ConfigResource]:
    command = Command(describe_group_configs=DescribeGroupConfigs(all_groups=True))
    described = (await context.control.call(command)).group_configs_described
    return [wire.ConfigResource(each.group_id, GROUP) for each in described.groups]


API = Api(
    request=wire.LIST_CONFIG_RESOURCES_REQUEST,
    response=wire.LIST_CONFIG_RESOURCES_RESPONSE,
    handle=handle,
    guard=on_cluster(Operation.DESCRIBE_CONFIGS),
    notes="topics, groups, agents and their loggers; there are no client metrics subscriptions",
)
