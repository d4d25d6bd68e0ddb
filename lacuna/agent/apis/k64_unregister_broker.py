"""UnregisterBroker v0 (KIP-500): always returns an error, since a stopped agent leaves the cluster by itself.

The node id of a live agent returns INVALID_REQUEST, and any other BROKER_ID_NOT_REGISTERED.
"""

from lacuna.agent import placement
from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.unregister_broker import (
    UNREGISTER_BROKER_REQUEST,
    UNREGISTER_BROKER_RESPONSE,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


async def handle(call: Call, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Answer from the view of the cluster."""
    await view_with(call.context)
    if any(agent.node_id == request.broker_id for agent in placement.live_agents(call.context)):
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=(
                f"Agent {request.broker_id} is running. Stop it; it leaves the cluster when its "
                "lease expires."
            ),
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {request.broker_id} is not currently registered",
    )


API = Api(
    request=UNREGISTER_BROKER_REQUEST,
    response=UNREGISTER_BROKER_RESPONSE,
    max_version=0,
    handle=handle,
    refuse=error_in(UNREGISTER_BROKER_RESPONSE),
    guard=on_cluster(Operation.ALTER),
    unavailable=ErrorCode.NOT_CONTROLLER,
    notes="a stopped agent leaves the cluster by itself",
)
