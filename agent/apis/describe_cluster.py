"""DescribeCluster v0-v2 (KIP-700): the live agents.

Endpoint type 1 (brokers) only: 2, controllers, is MISMATCHED_ENDPOINT_TYPE, anything else
UNSUPPORTED_ENDPOINT_TYPE (KIP-919), as a Kafka broker answers. Nobody is ever fenced (KIP-1073): an agent
without a lease is not there.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis import operations
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.views import view_with

if TYPE_CHECKING:
    from agent.context import AgentContext

BROKERS = 1
_ERRORS = {2: KafkaError.mismatched_endpoint_type}


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster."""
    kind = getattr(request, "endpoint_type", BROKERS)
    if kind != BROKERS:
        return refuse(request, _ERRORS.get(kind, KafkaError.unsupported_endpoint_type))
    cluster = await view_with(context)
    asked = request.include_cluster_authorized_operations
    return build(
        request,
        "DescribeClusterResponse",
        error_code=KafkaError.none,
        cluster_id=cluster.cluster_id,
        controller_id=placement.controller(context),
        endpoint_type=BROKERS,
        cluster_authorized_operations=operations.CLUSTER if asked else operations.NOT_ASKED,
        brokers=tuple(
            build(
                request,
                "DescribeClusterBroker",
                broker_id=agent.node_id,
                host=agent.host,
                port=agent.port,
                rack=agent.zone or None,
                is_fenced=False,
            )
            for agent in placement.live_agents(context)
        ),
    )


def refuse(request: Any, error_code: int) -> Any:
    """The error, and nobody."""
    return build(
        request,
        "DescribeClusterResponse",
        error_code=error_code,
        error_message=None,
        cluster_id="",
        brokers=(),
    )


API = Api(key=60, min_version=0, max_version=2, handle=handle, refuse=refuse)
