"""UnregisterBroker v0 (KIP-500): an agent that has stopped is gone by itself.

A node id without a live agent is BROKER_ID_NOT_REGISTERED; that of a live one cannot be taken away: INVALID_REQUEST.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.views import view_with

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """From the view of the cluster."""
    await view_with(context)
    if any(agent.node_id == request.broker_id for agent in placement.live_agents(context)):
        message = f"Agent {request.broker_id} lives; stop it, and it is gone when its lease ends."
        return _answer(request, KafkaError.invalid_request, message)
    message = f"Broker ID {request.broker_id} is not currently registered"
    return _answer(request, KafkaError.broker_id_not_registered, message)


def refuse(request: Any, error_code: int) -> Any:
    """The error."""
    return _answer(request, error_code, None)


def _answer(request: Any, error_code: int, message: str | None) -> Any:
    return build(request, "UnregisterBrokerResponse", error_code=error_code, error_message=message)


API = Api(
    key=64,
    min_version=0,
    max_version=0,
    handle=handle,
    refuse=refuse,
    unavailable=KafkaError.not_controller,
    notes="an agent that has stopped is gone by itself",
)
