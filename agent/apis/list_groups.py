"""ListGroups v0-v5: groups, from v4 on by state (KIP-518), from v5 on by type (KIP-848).

Clients ask every agent and put the answers together, some without looking for doubles. So although any
agent knows every group, each lists those that are placed on it, as a coordinator in Kafka would.
"""

from typing import TYPE_CHECKING, Any

from agent import placement
from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import ListGroups

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command."""
    command = ListGroups(
        states=getattr(request, "states_filter", ()), types=getattr(request, "types_filter", ())
    )
    listed = (await context.control.call(Command(list_groups=command))).groups_listed.groups
    node_ids = tuple(agent.node_id for agent in placement.live_agents(context))
    groups = tuple(
        build(
            request,
            "ListedGroup",
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=group.group_type,
        )
        for group in listed
        if placement.place(b"group:" + group.group_id.encode(), node_ids) == context.lease.node_id
    )
    return build(request, "ListGroupsResponse", error_code=0, groups=groups)


def refuse(request: Any, error_code: int) -> Any:
    """The error, and no groups."""
    return build(request, "ListGroupsResponse", error_code=error_code, groups=())


API = Api(
    key=16,
    min_version=0,
    max_version=5,
    handle=handle,
    refuse=refuse,
    notes="each agent lists the groups that are placed on it",
)
