"""Leases of agents and jobs: RegisterAgent, OpenLease, RenewLease, ReleaseLease."""

from collections.abc import Iterable
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.rights import works_with_records
from lacuna.controlplane.state.settings import (
    LEASE_DURATION_MS,
    LONGEST_JOB_LEASE_MS,
    MAX_PER_TICK,
    MAX_REPORT_BYTES,
    MOST_IMPORTERS,
)
from lacuna.controlplane.state.state import NO_NODE, Lease, State
from lacuna.controlplane.v1.cluster_pb2 import (
    Agent,
    AgentRegistered,
    AgentReport,
    ImportReport,
    LeaseOpened,
    LeaseRenewed,
    OpenLease,
    Outcome,
    RegisterAgent,
    ReleaseLease,
    RenewLease,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import (
    AgentJoined,
    JobLeaseOpened,
    JournalRecord,
    LeasesEnded,
)
from lacuna.controlplane.verbs import presence
from lacuna.controlplane.verbs.needs import of_lease
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


def register_agent(turn: Turn, command: RegisterAgent) -> Reply:
    """Grant an agent a lease. A node id is tied to its address forever; all workers of an agent share one node id."""
    if not command.host or not 0 < command.port < 65536:
        raise MalformedCommand("an agent must register the host and port that it advertises")
    state = turn.state
    node = state.nodes.get((command.host, command.port))
    record = AgentJoined(
        lease_id=state.next_lease_id,
        node_id=state.next_node_id if node is None else node.node_id,
        host=command.host,
        port=command.port,
        zone=command.zone,
        endpoints=command.endpoints,
    )
    answer = AgentRegistered(
        node_id=record.node_id,
        lease_id=record.lease_id,
        lease_duration_ms=LEASE_DURATION_MS,
        cluster_id=state.cluster_id,
        is_journal_shared=state.is_journal_shared,
    )
    presence.appear(turn, record.lease_id)
    turn.journal(JournalRecord(agent_joined=record))
    return Reply(agent_registered=answer)


def open_lease(turn: Turn, command: OpenLease) -> Reply:
    """Open a lease for a job that writes segments. The lease has no node, so Metadata never lists it."""
    duration_ms = command.duration_ms or LEASE_DURATION_MS
    if not 0 < duration_ms <= LONGEST_JOB_LEASE_MS:
        raise MalformedCommand(f"a job's lease must last from 1 to {LONGEST_JOB_LEASE_MS} ms")
    record = JobLeaseOpened(lease_id=turn.state.next_lease_id, duration_ms=duration_ms)
    answer = LeaseOpened(
        lease_id=record.lease_id, lease_duration_ms=duration_ms, cluster_id=turn.state.cluster_id
    )
    turn.journal(JournalRecord(job_lease_opened=record))
    return Reply(lease_opened=answer)


def renew_lease(turn: Turn, command: RenewLease) -> Reply:
    """Renew a lease. Renewals are not journalled: after a restart, every lease starts over with its full duration."""
    lease = turn.state.leases.get(command.lease_id)
    if lease is None:
        used_late(turn, [command.lease_id])
        answer = LeaseRenewed(error_code=ErrorCode.LEASE_EXPIRED)
        return Reply(lease_renewed=answer)
    turn.state.lease_deadlines.set(lease.lease_id, turn.now_ms + lease.duration_ms)
    if lease.node_id != NO_NODE:
        told = presence.leave if command.is_leaving else presence.appear
        told(turn, lease.lease_id)
        if command.HasField("report") and command.report.ByteSize() <= MAX_REPORT_BYTES:
            # A copy, since the message itself would keep alive everything that arrived with it.
            kept = AgentReport()
            kept.CopyFrom(command.report)
            turn.state.reports[lease.lease_id] = kept
    answer = LeaseRenewed(is_journal_shared=turn.state.is_journal_shared)
    if command.HasField("import_report") and command.ByteSize() <= MAX_REPORT_BYTES:
        answer.workers.extend(_workers(turn, lease.lease_id, command.import_report))
    return Reply(lease_renewed=answer)


def _workers(turn: Turn, lease_id: int, report: ImportReport) -> list[int]:
    """Store an importer's report, and return the leases of all importers with the same source and topics."""
    state = turn.state
    if lease_id in state.import_reports or len(state.import_reports) < MOST_IMPORTERS:
        kept = ImportReport()
        kept.CopyFrom(report)
        state.import_reports[lease_id] = kept
        state.import_sessions[lease_id] = turn.context.session
    return sorted(
        each
        for each, other in state.import_reports.items()
        if (other.source, other.topics) == (report.source, report.topics)
    )


def release_lease(turn: Turn, command: ReleaseLease) -> Reply:
    """End a lease after a clean stop. The node stays listed as a broker for a while, since some clients still contact
    it.
    """
    if command.lease_id not in turn.state.leases:
        used_late(turn, [command.lease_id])
        answer = Outcome(error_code=ErrorCode.LEASE_EXPIRED)
        return Reply(lease_released=answer)
    presence.miss(turn.state, [command.lease_id], turn.now_ms)
    turn.journal(leases_ended([command.lease_id]))
    return Reply(lease_released=Outcome())


def leases_ended(lease_ids: Iterable[int]) -> JournalRecord:
    """Return the journal record that ends these leases; later commits under them are rejected."""
    return JournalRecord(leases_ended=LeasesEnded(lease_ids=lease_ids))


def used_late(turn: Turn, lease_ids: Iterable[int]) -> None:
    """Schedule another sweep of those leases that have ended.

    An agent that uses an ended lease was suspended or cut off, and its PUTs may arrive after the first sweep. Without
    another sweep, their objects would never be found.
    """
    state = turn.state
    ended = sorted(
        lease_id
        for lease_id in set(lease_ids)
        if 0 < lease_id < state.next_lease_id and lease_id not in state.leases
    )
    if ended:
        turn.journal(JournalRecord(leases_used_late=LeasesEnded(lease_ids=ended)))


def tick_leases(turn: Turn) -> None:
    """End overdue leases. A lease that has not been renewed since the control plane started is first given its full
    duration.
    """
    state = turn.state
    for lease_id, lease in state.leases.items():
        if lease_id not in state.lease_deadlines:
            state.lease_deadlines.set(lease_id, turn.now_ms + lease.duration_ms)
    due = state.lease_deadlines.due(turn.now_ms, MAX_PER_TICK)
    presence.miss(state, due, turn.now_ms)
    if due:
        turn.journal(leases_ended(due))


def replay_agent_joined(state: State, record: AgentJoined, _now_ms: int) -> None:
    before = presence.seen(state)
    node = Agent(
        node_id=record.node_id,
        host=record.host,
        port=record.port,
        zone=record.zone,
        endpoints=record.endpoints,
    )
    state.nodes[record.host, record.port] = node
    state.next_node_id = max(state.next_node_id, record.node_id + 1)
    state.next_lease_id = max(state.next_lease_id, record.lease_id + 1)
    state.leases[record.lease_id] = Lease(record.lease_id, record.node_id)
    presence.tell(state, before)


def replay_job_lease_opened(state: State, record: JobLeaseOpened, _now_ms: int) -> None:
    state.next_lease_id = max(state.next_lease_id, record.lease_id + 1)
    state.leases[record.lease_id] = Lease(record.lease_id, NO_NODE, record.duration_ms)


def replay_leases_ended(state: State, record: LeasesEnded, now_ms: int) -> None:
    """End leases for good. Uncommitted objects under them are swept later."""
    before = presence.seen(state)
    for lease_id in record.lease_ids:
        del state.leases[lease_id]
        state.ended_leases[lease_id] = now_ms
        state.lease_deadlines.discard(lease_id)
        presence.forget(state, lease_id)
    presence.tell(state, before)


def replay_leases_used_late(state: State, record: LeasesEnded, now_ms: int) -> None:
    """Restart the wait before the sweep of these ended leases, even if they have already been swept."""
    for lease_id in record.lease_ids:
        state.ended_leases[lease_id] = now_ms


VERBS: Final = (
    Verb(register_agent),
    Verb(renew_lease, looks=True, needs=of_lease),
    Verb(release_lease, needs=of_lease),
    Verb(open_lease, needs=works_with_records),
)
REPLAYS: Final = (
    replay_agent_joined,
    replay_job_lease_opened,
    replay_leases_ended,
    replay_leases_used_late,
)
