"""Chooses the agents to which clients are sent: live ones, preferably in this agent's zone, by rendezvous hashing.

An agent is live if it has a lease and a session over which the lease is renewed. Any agent can serve any partition and
any group. Placement only helps caches and flushes, so it does no harm if two agents temporarily see different live
agents. When an agent joins or leaves, only its own share of the keys moves. A client connects to an agent in its own
zone, because its bootstrap servers are there, so the answering agent's zone is taken to be the client's zone.
"""

from collections.abc import Iterable, Sequence

from lacuna.agent.context import AgentContext
from lacuna.agent.rendezvous import place
from lacuna.agent.security.authentication import Authentication
from lacuna.agent.security.listeners import DEFAULT_NAME
from lacuna.controlplane.v1.cluster_pb2 import Agent


def live_agents(context: AgentContext) -> Sequence[Agent]:
    """Return the live agents, one for each node id, in order of node id, or this agent if the control plane lists none.

    Agents that appear to have just died are omitted if others remain. This agent is omitted if it is cut off and other
    agents are known to serve its clients.
    """
    found = {agent.node_id: agent for agent in context.control.cluster.agents}
    if context.lease.trust.is_replaced:
        found.pop(context.lease.node_id, None)
    if not found and context.lease.node_id >= 0:
        return (_ourselves(context),)
    agents = [found[node_id] for node_id in sorted(found)]
    return [each for each in agents if not context.lines.is_broken(each.node_id)] or agents


def brokers(context: AgentContext, *, with_gone: bool) -> Sequence[Agent]:
    """Return the agents that Metadata lists, in order of node id: the live agents and those that are leaving.

    `with_gone` adds agents that are hidden or gone. A tool that queries every broker would wait for them, but
    librdkafka's producers need them in the list (adr/0058). Nothing is placed on them.
    """
    cluster = context.control.cluster
    hidden = [
        agent
        for agent in cluster.hidden_agents
        if with_gone or agent.node_id in cluster.leaving_node_ids
    ]
    broken = cluster.agents if with_gone else ()
    found = {agent.node_id: agent for agent in (*hidden, *broken, *live_agents(context))}
    return [found[node_id] for node_id in sorted(found)]


def candidates(context: AgentContext) -> Sequence[Agent]:
    """Return the live agents on which work is placed: those in this agent's zone if there are any, or else all."""
    agents = live_agents(context)
    near = [agent for agent in agents if agent.zone == context.settings.zone]
    return near or agents


def as_seen(agents: Iterable[Agent], session: Authentication) -> Sequence[Agent]:
    """Return those agents that have the session's listener, with the hosts and ports that its clients use."""
    listener = session.listener.name
    return [seen for agent in agents if (seen := _at_listener(agent, listener)) is not None]


def _at_listener(agent: Agent, listener: str) -> Agent | None:
    if not agent.endpoints:
        return agent if listener == DEFAULT_NAME else None
    for endpoint in agent.endpoints:
        if endpoint.listener == listener:
            node_id, zone = agent.node_id, agent.zone
            return Agent(node_id=node_id, host=endpoint.host, port=endpoint.port, zone=zone)
    return None


def others_are_live(context: AgentContext) -> bool:
    """Return whether another agent, in any zone, can take this agent's clients."""
    return any(agent.node_id != context.lease.node_id for agent in live_agents(context))


def controller(context: AgentContext) -> int:
    """Return the node id to name as the controller, or -1 if no agent is live.

    This agent names itself if it is a candidate, so that clients need not find out whether another agent has gone.
    """
    node_ids = [agent.node_id for agent in candidates(context)]
    if context.lease.node_id in node_ids:
        return context.lease.node_id
    return node_ids[0] if node_ids else -1


def is_ours(context: AgentContext, key: bytes) -> bool:
    """Whether `key` is placed on this agent. Live agents with the same view agree on the placement of each key."""
    (is_one,) = are_ours(context, (key,))
    return is_one


def are_ours(context: AgentContext, keys: Iterable[bytes]) -> list[bool]:
    node_ids = tuple(agent.node_id for agent in live_agents(context))
    node_id = context.lease.node_id
    return [not node_ids or place(key, node_ids) == node_id for key in keys]


def _ourselves(context: AgentContext) -> Agent:
    lease = context.lease
    return Agent(
        node_id=lease.node_id,
        host=lease.host,
        port=lease.port,
        zone=context.settings.zone,
        endpoints=lease.endpoints,
    )
