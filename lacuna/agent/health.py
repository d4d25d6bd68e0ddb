"""Whether an agent serves Kafka clients."""

from lacuna.agent.context import AgentContext
from lacuna.agent.lease import NO_LEASE


def why_not_ready(context: AgentContext) -> str:
    """Return why Kafka clients are not served now, or "" if they are."""
    cluster = context.control.cluster
    if context.lease.lease_id == NO_LEASE:
        return "the agent has no lease from the control plane"
    if not cluster.is_current:
        return "the agent has no session with the control plane"
    if context.lease.lease_id in cluster.hidden_lease_ids:
        return (
            "clients are sent to other agents, because the agent is stopping or until its "
            "session is back"
        )
    if why := context.produce.flusher.why_store_fails():
        return f"records cannot be stored: {why}"
    return ""
