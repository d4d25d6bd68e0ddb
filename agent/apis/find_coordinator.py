"""FindCoordinator v0-v6.

Any agent coordinates any group and transaction, for the state is the control plane's: rendezvous hashing of
the key over the live agents gives one of them, in our zone first. v4+ asks for many keys (KIP-699). Key types:
0 group, 1 transactional id; share groups (2, KIP-932) and anything else are INVALID_REQUEST.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent import placement
from agent.apis.registry import Api, Peer
from agent.apis.schema import build, version_of
from agent.views import view_with
from controlplane.v1.cluster_pb2 import Agent

if TYPE_CHECKING:
    from agent.context import AgentContext

FIRST_BATCHED = 4
GROUP_PREFIX = b"group:"
TRANSACTION_PREFIX = b"transaction:"
_KEY_TYPES = {0: GROUP_PREFIX, 1: TRANSACTION_PREFIX}
_NOBODY = Agent(node_id=-1, host="", port=-1)


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """Nothing is asked of the control plane."""
    await view_with(context)
    prefix = _KEY_TYPES.get(getattr(request, "key_type", 0))
    agents = {agent.node_id: agent for agent in placement.candidates(context)}
    if prefix is None:
        return refuse(request, KafkaError.invalid_request)
    if not agents:
        return refuse(request, KafkaError.coordinator_not_available)
    node_ids = tuple(agents)
    found = {
        key: agents[placement.place(prefix + key.encode(), node_ids)] for key in _keys(request)
    }
    return _answer(request, found, KafkaError.none)


def refuse(request: Any, error_code: int) -> Any:
    """The error for every key."""
    return _answer(request, dict.fromkeys(_keys(request), _NOBODY), error_code)


def _keys(request: Any) -> tuple[str, ...]:
    if version_of(request) >= FIRST_BATCHED:
        return tuple(request.coordinator_keys)
    return (request.key,)


def _answer(request: Any, found: dict[str, Agent], error_code: int) -> Any:
    if version_of(request) >= FIRST_BATCHED:
        return build(
            request,
            "FindCoordinatorResponse",
            coordinators=tuple(
                build(
                    request,
                    "Coordinator",
                    key=key,
                    node_id=agent.node_id,
                    host=agent.host,
                    port=agent.port,
                    error_code=error_code,
                    error_message=None,
                )
                for key, agent in found.items()
            ),
        )
    (agent,) = found.values()
    return build(
        request,
        "FindCoordinatorResponse",
        error_code=error_code,
        error_message=None,
        node_id=agent.node_id,
        host=agent.host,
        port=agent.port,
    )


API = Api(
    key=10,
    min_version=0,
    max_version=6,
    handle=handle,
    refuse=refuse,
    notes="groups and transactional ids; share groups are INVALID_REQUEST",
)
