"""Decides which agents clients are sent to: those with a lease and a session that renews it.

When an agent dies, its session ends immediately, and its lease a few seconds later. An agent that is being stopped
announces this, and ends its lease once it has answered the requests that it had read. Until then it is hidden: it leads
no partition and coordinates nothing, but keeps the rights of its lease (its commits are accepted, and its objects are
not swept). After its lease has ended, it stays in the list of brokers for a while, because some clients still contact
it. All of this is volatile: after a restart, every agent has time to reconnect.
"""

from collections.abc import Iterable
from typing import NamedTuple

from lacuna.controlplane.state.settings import (
    MAX_PER_TICK,
    MISSED_MS,
    MOST_MISSED,
    RECONNECT_GRACE_MS,
    SESSION_GRACE_MS,
)
from lacuna.controlplane.state.state import NO_NODE, State
from lacuna.controlplane.v1.cluster_pb2 import Agent, ClusterDelta
from lacuna.controlplane.verbs.turn import Turn


class Seen(NamedTuple):
    """The agents at one moment: those with leases, which only journal records change, and those shown to clients."""

    leased: list[Agent]
    shown: list[Agent]
    leaving: list[Agent]
    known: list[Agent]
    processes: int


def seen(state: State) -> Seen:
    """Return the current agents, to pass to `tell` after a change."""
    return Seen(
        state.leased_agents(),
        state.live_agents(),
        state.leaving_agents(),
        state.known_agents(),
        state.agent_processes(),
    )


def tell(state: State, before: Seen) -> None:
    """Send a delta if the agents have changed. The delta has a new version only if the agents with a lease have
    changed.
    """
    after = seen(state)
    if after.leased != before.leased:
        state.put_agents(state.cluster_changed())
    elif after != before:
        # The version is durable, but which agents are hidden is not, so the version must not change.
        delta = ClusterDelta(version=state.cluster_version)
        state.changes.append(delta)
        state.put_agents(delta)


def appear(turn: Turn, lease_id: int) -> None:
    """Record that the turn's session was granted an agent's lease or renewed it, and make the agent visible."""
    _show(turn, lease_id, is_leaving=False)


def leave(turn: Turn, lease_id: int) -> None:
    """Hide an agent that is about to stop. Earlier requests from its clients still complete under its lease."""
    _show(turn, lease_id, is_leaving=True)


def _show(turn: Turn, lease_id: int, *, is_leaving: bool) -> None:
    state = turn.state
    state.lease_sessions.setdefault(lease_id, set()).add(turn.context.session)
    state.absences.discard(lease_id)
    if (lease_id in state.hidden_leases) == (lease_id in state.leaving_leases) == is_leaving:
        return
    before = seen(state)
    for leases in (state.hidden_leases, state.leaving_leases):
        if is_leaving:
            leases.add(lease_id)
        else:
            leases.discard(lease_id)
    tell(state, before)


def end_session(state: State, session: int, now_ms: int) -> None:
    """Record the end of a session. Agents without another session are hidden after a grace period.

    Importers lose their partitions immediately; one that is still alive soon reports over a new session.
    """
    for lease_id, of_report in list(state.import_sessions.items()):
        if of_report == session:
            _forget_importer(state, lease_id)
    for lease_id, sessions in list(state.lease_sessions.items()):
        sessions.discard(session)
        if not sessions:
            del state.lease_sessions[lease_id]
            state.absences.set(lease_id, now_ms + SESSION_GRACE_MS)


def tick_presence(turn: Turn) -> None:
    """Hide agents that have had no session for a while, and drop those that departed long ago."""
    state = turn.state
    for lease_id, lease in state.leases.items():
        if not (lease.node_id == NO_NODE or _is_known(state, lease_id)):
            state.absences.set(lease_id, turn.now_ms + RECONNECT_GRACE_MS)
    due = state.absences.due(turn.now_ms, MAX_PER_TICK)
    forgotten = state.missed.due(turn.now_ms, MAX_PER_TICK) + list(state.missed)[:-MOST_MISSED]
    if not due and not forgotten:
        return
    before = seen(state)
    for lease_id in due:
        state.absences.discard(lease_id)
        state.leaving_leases.discard(lease_id)
    for node_id in forgotten:
        state.missed.discard(node_id)
    state.hidden_leases.update(lease_id for lease_id in due if lease_id in state.leases)
    tell(state, before)


def miss(state: State, lease_ids: Iterable[int], now_ms: int) -> None:
    """Keep the nodes of these leases, which are about to end, listed as brokers for a while."""
    for lease_id in lease_ids:
        node_id = state.leases[lease_id].node_id
        if node_id != NO_NODE:
            state.missed.discard(node_id)  # so that `set` puts it last in the order
            state.missed.set(node_id, now_ms + MISSED_MS)


def _is_known(state: State, lease_id: int) -> bool:
    return (
        lease_id in state.lease_sessions
        or lease_id in state.absences
        or lease_id in state.hidden_leases
    )


def _forget_importer(state: State, lease_id: int) -> None:
    state.import_reports.pop(lease_id, None)
    state.import_sessions.pop(lease_id, None)


def forget(state: State, lease_id: int) -> None:
    """Drop the sessions and the report of a lease that has ended."""
    state.reports.pop(lease_id, None)
    _forget_importer(state, lease_id)
    state.lease_sessions.pop(lease_id, None)
    state.absences.discard(lease_id)
    state.hidden_leases.discard(lease_id)
    state.leaving_leases.discard(lease_id)
