"""The agent's view of the cluster, which is updated before any answer that a topic or partition does not exist."""

from collections.abc import Iterable

from lacuna.agent.context import AgentContext
from lacuna.agent.internal import topic_by_name
from lacuna.controlplane.client import ClusterView, confirm


async def view_with(context: AgentContext, topics: Iterable[str] = ()) -> ClusterView:
    """Return the view once it exists and is trusted. If it lacks one of `topics`, update it first.

    A tool may ask this agent about a topic that it has just created through another agent. Raises
    ControlPlaneUnavailable.
    """
    cluster = context.control.cluster
    if cluster.version < 0:
        await cluster.ready()
    if cluster.is_current:
        await context.lease.trust.restore()
    if any(topic_by_name(cluster, name) is None for name in topics):
        await current_view(context)
    return cluster


async def current_view(context: AgentContext) -> ClusterView:
    """Update the view from the control plane, and return it. Raises ControlPlaneUnavailable."""
    await confirm(context.control)
    return context.control.cluster
