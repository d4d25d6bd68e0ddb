"""The view of the cluster, looked at again before an answer says that a topic is not there, or not so large."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controlplane.client import confirm

if TYPE_CHECKING:
    from agent.context import AgentContext
    from controlplane.client import ClusterView


async def view_with(context: "AgentContext", topics: Iterable[str] = ()) -> "ClusterView":
    """The view, once there is one; where one of `topics` is not in it, as the control plane has it now.

    What one agent has just made may not have come to the next one, whom a tool asks at once. Raises
    ControlPlaneUnavailable.
    """
    cluster = context.control.cluster
    if cluster.version < 0:
        await cluster.ready()
    if any(name not in cluster.topics_by_name for name in topics):
        await current_view(context)
    return cluster


async def current_view(context: "AgentContext") -> "ClusterView":
    """The view as the control plane has it now. Raises ControlPlaneUnavailable."""
    await confirm(context.control)
    return context.control.cluster
