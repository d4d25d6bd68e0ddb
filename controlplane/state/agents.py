"""Agents and jobs, and their leases."""

from collections.abc import Iterable

from controlplane.decision import Context, Decision
from controlplane.errors import ErrorCode
from controlplane.state import presence
from controlplane.state.refusals import MalformedCommand
from controlplane.state.settings import LEASE_DURATION_MS, LONGEST_JOB_LEASE_MS, MAX_PER_TICK
from controlplane.state.state import NO_NODE, Lease, State
from controlplane.v1.cluster_pb2 import (
    Agent,
    AgentRegistered,
    LeaseOpened,
    LeaseReleased,
    LeaseRenewed,
    OpenLease,
    RegisterAgent,
    ReleaseLease,
    RenewLease,
)
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.journal_pb2 import AgentJoined, JobLeaseOpened, JournalRecord, LeasesEnded


def register_agent(state: State, command: RegisterAgent, context: Context) -> Decision:
    """A new lease; the node id belongs to the address for ever, and workers of one agent share it."""
    if not command.host or not 0 < command.port < 65536:
        raise MalformedCommand("an agent registers the host and port that it advertises")
    node = state.nodes.get((command.host, command.port))
    record = AgentJoined(
        lease_id=state.next_lease_id,
        node_id=state.next_node_id if node is None else node.node_id,
        host=command.host,
        port=command.port,
        zone=command.zone,
    )
    answer = AgentRegistered(
        node_id=record.node_id,
        lease_id=record.lease_id,
        lease_duration_ms=LEASE_DURATION_MS,
        cluster_id=state.cluster_id,
    )
    presence.appear(state, record.lease_id, context)
    journalled = JournalRecord(now_ms=context.now_ms, agent_joined=record)
    return Decision(records=[journalled], reply=Reply(agent_registered=answer))


def open_lease(state: State, command: OpenLease, context: Context) -> Decision:
    """A lease for a job that writes segments and serves nobody: no node, and Metadata never shows it."""
    duration_ms = command.duration_ms or LEASE_DURATION_MS
    if not 0 < duration_ms <= LONGEST_JOB_LEASE_MS:
        raise MalformedCommand(f"a job's lease lasts from 1 to {LONGEST_JOB_LEASE_MS} ms")
    record = JobLeaseOpened(lease_id=state.next_lease_id, duration_ms=duration_ms)
    answer = LeaseOpened(
        lease_id=record.lease_id, lease_duration_ms=duration_ms, cluster_id=state.cluster_id
    )
    journalled = JournalRecord(now_ms=context.now_ms, job_lease_opened=record)
    return Decision(records=[journalled], reply=Reply(lease_opened=answer))


def renew_lease(state: State, command: RenewLease, context: Context) -> Decision:
    """Not journalled: after a restart every lease has its full duration again."""
    lease = state.leases.get(command.lease_id)
    if lease is None:
        answer = LeaseRenewed(error_code=ErrorCode.LEASE_EXPIRED)
        return Decision(reply=Reply(lease_renewed=answer))
    state.lease_deadlines.set(lease.lease_id, context.now_ms + lease.duration_ms)
    if lease.node_id != NO_NODE:
        presence.appear(state, lease.lease_id, context)
    return Decision(reply=Reply(lease_renewed=LeaseRenewed()))


def release_lease(state: State, command: ReleaseLease, context: Context) -> Decision:
    """A clean stop."""
    if command.lease_id not in state.leases:
        answer = LeaseReleased(error_code=ErrorCode.LEASE_EXPIRED)
        return Decision(reply=Reply(lease_released=answer))
    record = leases_ended([command.lease_id], context.now_ms)
    return Decision(records=[record], reply=Reply(lease_released=LeaseReleased()))


def leases_ended(lease_ids: Iterable[int], now_ms: int) -> JournalRecord:
    """The record after which nothing of these leases is taken any more."""
    return JournalRecord(now_ms=now_ms, leases_ended=LeasesEnded(lease_ids=lease_ids))


def tick_leases(state: State, context: Context) -> list[JournalRecord]:
    """Ends overdue leases; one that no renewal was seen of since the start gets its full duration."""
    for lease_id, lease in state.leases.items():
        if lease_id not in state.lease_deadlines:
            state.lease_deadlines.set(lease_id, context.now_ms + lease.duration_ms)
    due = state.lease_deadlines.due(context.now_ms, MAX_PER_TICK)
    return [leases_ended(due, context.now_ms)] if due else []


def replay_agent_joined(state: State, record: AgentJoined, _now_ms: int) -> None:
    """A lease begins."""
    before = presence.seen(state)
    node = Agent(node_id=record.node_id, host=record.host, port=record.port, zone=record.zone)
    state.nodes[record.host, record.port] = node
    state.next_node_id = max(state.next_node_id, record.node_id + 1)
    state.next_lease_id = max(state.next_lease_id, record.lease_id + 1)
    state.leases[record.lease_id] = Lease(record.lease_id, record.node_id)
    presence.tell(state, before)


def replay_job_lease_opened(state: State, record: JobLeaseOpened, _now_ms: int) -> None:
    """A job begins; the set of agents stays as it is."""
    state.next_lease_id = max(state.next_lease_id, record.lease_id + 1)
    state.leases[record.lease_id] = Lease(record.lease_id, NO_NODE, record.duration_ms)


def replay_leases_ended(state: State, record: LeasesEnded, now_ms: int) -> None:
    """Leases end and never come back; their stray objects are swept later."""
    before = presence.seen(state)
    for lease_id in record.lease_ids:
        del state.leases[lease_id]
        state.ended_leases[lease_id] = now_ms
        state.lease_deadlines.discard(lease_id)
        presence.forget(state, lease_id)
    presence.tell(state, before)
