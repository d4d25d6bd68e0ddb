"""FindCoordinator v0-v6.

Any agent can coordinate any group and transaction, since the control plane holds their state. The coordinator of a key
is chosen by rendezvous hashing over the live agents, preferably in this agent's zone. From v4 on, a request may have
many keys (KIP-699). Key types are 0 (group), 1 (transactional id) and 2 (share partition, KIP-932, as group:topic
id:number). In Kafka, brokers look up the coordinators of share partitions; in Lacuna, any agent serves them. Other key
types return INVALID_REQUEST.
"""

import re
from collections.abc import Mapping, Sequence

from lacuna.agent import placement, rendezvous
from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.cluster import find_coordinator as guard
from lacuna.agent.views import view_with
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.wire.messages.groups import (
    FIND_COORDINATOR_REQUEST,
    FIND_COORDINATOR_RESPONSE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_BATCHED = 4
FIRST_SHARE = 6
GROUP_PREFIX = b"group:"
TRANSACTION_PREFIX = b"transaction:"
SHARE_PREFIX = b"share:"
_KEY_TYPES = {0: GROUP_PREFIX, 1: TRANSACTION_PREFIX, 2: SHARE_PREFIX}
_SHARE_KEY = re.compile(r".+:[\w-]{22}:[0-9]{1,10}", re.DOTALL | re.ASCII)
_NO_MESSAGE = "NONE"  # Kafka's message before v4
_NOBODY = Agent(node_id=-1, host="", port=-1)


async def handle(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    await view_with(call.context)
    prefix = _KEY_TYPES.get(request.key_type)
    candidates = placement.as_seen(placement.candidates(call.context), call.peer.session)
    agents = {agent.node_id: agent for agent in candidates}
    if prefix is None or (prefix is SHARE_PREFIX and not _are_share_keys(call, request)):
        return refuse(call, request, ErrorCode.INVALID_REQUEST)
    if not agents:
        return refuse(call, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    node_ids = tuple(agents)
    found = {
        key: agents[rendezvous.place(prefix + key.encode(), node_ids)]
        for key in _keys(call, request)
    }
    return _answer(call, found, ErrorCode.NONE)


def refuse(call: Call, request: FindCoordinatorRequest, error_code: int) -> FindCoordinatorResponse:
    return _answer(call, dict.fromkeys(_keys(call, request), _NOBODY), error_code)


def _keys(call: Call, request: FindCoordinatorRequest) -> Sequence[str]:
    return request.coordinator_keys if call.version >= FIRST_BATCHED else (request.key,)


def _are_share_keys(call: Call, request: FindCoordinatorRequest) -> bool:
    is_known = call.version >= FIRST_SHARE
    return is_known and all(map(_SHARE_KEY.fullmatch, _keys(call, request)))


def _answer(call: Call, found: Mapping[str, Agent], error_code: int) -> FindCoordinatorResponse:
    if call.version >= FIRST_BATCHED:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key, agent.node_id, agent.host, agent.port, error_code, "")
                for key, agent in found.items()
            ]
        )
    (agent,) = found.values()
    return FindCoordinatorResponse(
        error_code=error_code,
        error_message=_NO_MESSAGE if error_code == ErrorCode.NONE else None,
        node_id=agent.node_id,
        host=agent.host,
        port=agent.port,
    )


API = Api(
    request=FIND_COORDINATOR_REQUEST,
    response=FIND_COORDINATOR_RESPONSE,
    handle=handle,
    refusal=refuse,
    guard=guard,
    pieces=(Pieces(("coordinator_keys",), ("coordinators",)),),
    notes="groups, transactional ids and share partitions",
)
