"""ListGroups v0-v5: lists groups, optionally filtered by state from v4 on (KIP-518) and by type from v5 on (KIP-848).

Clients query every agent and combine the answers, some without removing duplicates. Every agent knows all groups, so
each lists only those placed on it, as a coordinator in Kafka would.
"""

from lacuna.agent import placement, rendezvous
from lacuna.agent.api import Api, Call
from lacuna.agent.guards.groups import list_groups as guard
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import ListGroups
from lacuna.wire.messages import groups as wire


async def handle(call: Call, request: wire.ListGroupsRequest) -> wire.ListGroupsResponse:
    command = ListGroups(states=request.states_filter, types=request.types_filter)
    reply = await call.context.control.call(Command(list_groups=command))
    node_ids = tuple(agent.node_id for agent in placement.live_agents(call.context))
    ours = call.context.lease.node_id
    return wire.ListGroupsResponse(
        groups=[
            wire.ListedGroup(group.group_id, group.protocol_type, group.state, group.group_type)
            for group in reply.groups_listed.groups
            if rendezvous.place(b"group:" + group.group_id.encode(), node_ids) == ours
        ]
    )


API = Api(
    request=wire.LIST_GROUPS_REQUEST,
    response=wire.LIST_GROUPS_RESPONSE,
    handle=handle,
    guard=guard,
    notes="each agent lists the groups that are placed on it",
)
