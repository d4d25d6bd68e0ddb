"""Which agent clients are sent to: rendezvous hashing over the live agents, in our own zone first.

The live agents are those that the control plane names: with a lease, and a session over which it is renewed.
Any agent can serve any partition and any group, so a placement is only a habit that keeps caches
and flushes together; two agents that see different live sets for a moment do no harm. When an agent
comes or goes, only its own share moves. A client asks an agent of its own zone (it was bootstrapped
there), so the zone of the agent that answers stands for the client's.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from controlplane.v1.cluster_pb2 import Agent

if TYPE_CHECKING:
    from agent.context import AgentContext

#: Names of groups are the clients', up to 32 KiB each: of so many, two GiB.
_LONGEST_REMEMBERED: Final = 256


def live_agents(context: "AgentContext") -> Sequence[Agent]:
    """One entry a node id, ordered by it. Ourselves where the control plane names nobody."""
    found = {agent.node_id: agent for agent in context.control.cluster.agents}
    if not found and context.lease.node_id >= 0:
        return (_ourselves(context),)
    return [found[node_id] for node_id in sorted(found)]


def known_agents(context: "AgentContext") -> Sequence[Agent]:
    """The live agents and those that are hidden until their leases end, ordered by node id.

    Nothing is placed on a hidden one, but a client that waits for it is to go on trying: librdkafka ends
    what waits for a broker that has left Metadata only when some broker comes or goes.
    """
    found = {agent.node_id: agent for agent in context.control.cluster.hidden_agents}
    found.update((agent.node_id, agent) for agent in live_agents(context))
    return [found[node_id] for node_id in sorted(found)]


def candidates(context: "AgentContext") -> Sequence[Agent]:
    """The live agents that work is given to: those of our zone if there are any, else all."""
    agents = live_agents(context)
    near = [agent for agent in agents if agent.zone == context.settings.zone]
    return near or agents


def controller(context: "AgentContext") -> int:
    """Ourselves while others see us, so that a client need not find out that another one is gone; -1: nobody lives."""
    node_ids = [agent.node_id for agent in candidates(context)]
    if context.lease.node_id in node_ids:
        return context.lease.node_id
    return node_ids[0] if node_ids else -1


def partition_key(topic_id: bytes, partition: int) -> bytes:
    """What a partition is placed by."""
    return topic_id + partition.to_bytes(4, "big", signed=True)


def place(key: bytes, node_ids: tuple[int, ...]) -> int:
    """The node id of `node_ids` (not empty) that `key` belongs to."""
    if len(node_ids) == 1:
        return node_ids[0]
    return remembered(key, node_ids) if len(key) <= _LONGEST_REMEMBERED else _place(key, node_ids)


def is_ours(context: "AgentContext", key: bytes) -> bool:
    """True on exactly one of the live agents of all zones (when they see the same set)."""
    (is_one,) = are_ours(context, (key,))
    return is_one


def are_ours(context: "AgentContext", keys: Iterable[bytes]) -> list[bool]:
    """As `is_ours`, of many."""
    node_ids = tuple(agent.node_id for agent in live_agents(context))
    node_id = context.lease.node_id
    return [not node_ids or place(key, node_ids) == node_id for key in keys]


def _place(key: bytes, node_ids: tuple[int, ...]) -> int:
    return max(node_ids, key=lambda node_id: _weight(key, node_id))


#: The same, for a name that is not long.
remembered = lru_cache(maxsize=65_536)(_place)


def _weight(key: bytes, node_id: int) -> bytes:
    return blake2b(key, digest_size=8, salt=node_id.to_bytes(8, "big", signed=True)).digest()


def _ourselves(context: "AgentContext") -> Agent:
    lease = context.lease
    return Agent(
        node_id=lease.node_id, host=lease.host, port=lease.port, zone=context.settings.zone
    )
