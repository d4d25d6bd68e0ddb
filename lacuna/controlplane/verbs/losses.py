"""Resumes after the end of the journal was lost, once an operator has accepted the loss (docs/adr/0020)."""

from collections.abc import Sequence
from typing import Final

from lacuna.controlplane.eras import first_of_next_era
from lacuna.controlplane.shared.rights import works_with_records
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import DescribeLeases, LeasesDescribed
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, LossAccepted
from lacuna.controlplane.verbs.agents import leases_ended
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb
from lacuna.logstore.segments.hot import hot_lease


def accept_loss(state: State, lost_lease_ids: Sequence[int], now_ms: int) -> list[JournalRecord]:
    """Return the first records after a loss: all leases end, and ids continue in the next era.

    `lost_lease_ids` are the leases granted in the lost part of the journal.
    """
    lost = LossAccepted(
        next_lease_id=first_of_next_era(max((state.next_lease_id, *lost_lease_ids))),
        next_producer_id=first_of_next_era(state.next_producer_id),
        next_pin_id=first_of_next_era(state.next_pin_id),
        lost_lease_ids=lost_lease_ids,
    )
    records = [leases_ended(state.leases)] if state.leases else []
    records.append(JournalRecord(loss_accepted=lost))
    for record in records:
        record.now_ms = max(state.clock_ms, now_ms)
    return records


def replay_loss_accepted(state: State, record: LossAccepted, now_ms: int) -> None:
    """Move the next ids past all lost ones. Objects under the lost leases are swept later."""
    state.next_lease_id = max(state.next_lease_id, record.next_lease_id)
    state.next_producer_id = max(state.next_producer_id, record.next_producer_id)
    state.next_pin_id = max(state.next_pin_id, record.next_pin_id)
    for lease_id in record.lost_lease_ids:
        state.ended_leases[lease_id] = now_ms


def leases_of(state: State) -> LeasesDescribed:
    """Return the leases that are live or not yet swept, each with its highest known committed sequence."""
    answer = LeasesDescribed(next_lease_id=state.next_lease_id)
    for lease_id in sorted({*state.leases, *state.ended_leases}):
        lease = state.leases.get(lease_id)
        remembered = () if lease is None else (lease.forgotten_sequence, *lease.recent)
        answer.lease_ids.append(lease_id)
        committed = map(state.segments.last_sequence, (lease_id, hot_lease(lease_id)))
        answer.last_sequences.append(max((*committed, *remembered)))
    return answer


def describe_leases(turn: Turn, _command: DescribeLeases) -> Reply:
    """Describe the leases, so that the bucket can be compared with the journal."""
    return Reply(leases_described=leases_of(turn.state))


VERBS: Final = (Verb(describe_leases, looks=True, needs=works_with_records),)
REPLAYS: Final = (replay_loss_accepted,)
