"""The agent's view of the cluster, brought up to date before an answer denies that a topic or partition exists."""

from collections.abc import Iterable

from lacuna.agent.context import AgentContext
from lacuna.agent.internal import topic_by_name
from lacuna.controlplane.client import ClusterView, confirm


async def view_with(context: AgentContext, topics: Iterable[str] = ()) -> ClusterView:
    """Return the view once there is one and it is trusted; if one of `topics` is missing, bring it up to date first.

    A tool may ask this agent about a topic that it has just created through another one. Raises
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
    """Bring the view up to date with the control plane, and return it. Raises ControlPlaneUnavailable."""
    await confirm(context.control)
    return context.control.cluster
