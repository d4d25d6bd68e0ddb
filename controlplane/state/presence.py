"""Which agents clients are sent to: those with a lease and a session over which it is renewed.

An agent that dies breaks its session at once, and its lease ends seconds later. Between the two it
keeps what a lease gives (its commits are taken, its objects are not swept), and is hidden: it leads
and coordinates nothing, though it is still among the brokers of Metadata. All of this is volatile:
a hidden lease is in no record, and after a restart every agent has the time to connect again.
"""

from typing import NamedTuple

from controlplane.decision import Context
from controlplane.state.settings import MAX_PER_TICK, RECONNECT_GRACE_MS, SESSION_GRACE_MS
from controlplane.state.state import NO_NODE, State
from controlplane.v1.cluster_pb2 import Agent, ClusterDelta


class Seen(NamedTuple):
    """The nodes with a lease, which journalled records alone change, and those that are shown."""

    leased: list[Agent]
    shown: list[Agent]


def seen(state: State) -> Seen:
    """What `tell` compares with."""
    return Seen(state.leased_agents(), state.live_agents())


def tell(state: State, before: Seen) -> None:
    """A delta where the agents have changed; its version is new where the leased ones have."""
    after = seen(state)
    if after.leased != before.leased:
        state.put_agents(state.cluster_changed())
    elif after.shown != before.shown:
        # The version is durable, and what is hidden is not.
        delta = ClusterDelta(version=state.cluster_version)
        state.changes.append(delta)
        state.put_agents(delta)


def appear(state: State, lease_id: int, context: Context) -> None:
    """An agent's lease was given or renewed over a session."""
    state.lease_sessions.setdefault(lease_id, set()).add(context.session)
    state.absences.discard(lease_id)
    if lease_id in state.hidden_leases:
        before = seen(state)
        state.hidden_leases.discard(lease_id)
        tell(state, before)


def end_session(state: State, session: int, now_ms: int) -> None:
    """A session is over; leases that have no other are hidden soon."""
    for lease_id, sessions in list(state.lease_sessions.items()):
        sessions.discard(session)
        if not sessions:
            del state.lease_sessions[lease_id]
            state.absences.set(lease_id, now_ms + SESSION_GRACE_MS)


def tick_presence(state: State, context: Context) -> None:
    """Hides agents that nothing was heard of since their session broke, or since the start."""
    for lease_id, lease in state.leases.items():
        if not (lease.node_id == NO_NODE or _is_known(state, lease_id)):
            state.absences.set(lease_id, context.now_ms + RECONNECT_GRACE_MS)
    due = state.absences.due(context.now_ms, MAX_PER_TICK)
    if not due:
        return
    before = seen(state)
    for lease_id in due:
        state.absences.discard(lease_id)
    state.hidden_leases.update(lease_id for lease_id in due if lease_id in state.leases)
    tell(state, before)


def _is_known(state: State, lease_id: int) -> bool:
    return (
        lease_id in state.lease_sessions
        or lease_id in state.absences
        or lease_id in state.hidden_leases
    )


def forget(state: State, lease_id: int) -> None:
    """The lease has ended."""
    state.lease_sessions.pop(lease_id, None)
    state.absences.discard(lease_id)
    state.hidden_leases.discard(lease_id)
