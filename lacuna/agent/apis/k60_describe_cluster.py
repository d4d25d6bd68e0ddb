"""DescribeCluster v0-v2 (KIP-700): lists the live agents.

Only endpoint type 1 (brokers) is served. Type 2 (controllers) returns MISMATCHED_ENDPOINT_TYPE, and any other type
returns UNSUPPORTED_ENDPOINT_TYPE (KIP-919), as on a Kafka broker. No agent is shown as fenced (KIP-1073), because an
agent without a lease is not listed.
"""

from lacuna.agent import placement
from lacuna.agent.admin import operations
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.cluster import describe_cluster as guard
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import cluster as wire

BROKERS = 1
_ERRORS = {2: ErrorCode.MISMATCHED_ENDPOINT_TYPE}


async def handle(call: Call, request: wire.DescribeClusterRequest) -> wire.DescribeClusterResponse:
    kind, context = request.endpoint_type, call.context
    if kind != BROKERS:
        return wire.DescribeClusterResponse(
            error_code=_ERRORS.get(kind, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
        )
    cluster = await view_with(context)
    asked = request.include_cluster_authorized_operations
    return wire.DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=placement.controller(context),
        brokers=[
            wire.DescribeClusterBroker(agent.node_id, agent.host, agent.port, agent.zone or None)
            for agent in placement.as_seen(placement.live_agents(context), call.peer.session)
        ],
        cluster_authorized_operations=operations.CLUSTER if asked else operations.NOT_ASKED,
    )


API = Api(
    request=wire.DESCRIBE_CLUSTER_REQUEST,
    response=wire.DESCRIBE_CLUSTER_RESPONSE,
    handle=handle,
    guard=guard,
)
