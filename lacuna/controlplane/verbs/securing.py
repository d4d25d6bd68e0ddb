"""AlterSecurity and ShareQuotas.

AlterSecurity changes users, ACLs, quotas, delegation tokens, and configs of all brokers. ShareQuotas returns the part
of each quota that an agent may grant its clients until its next request.

Agents validate and authorize the requests of clients.
"""

from math import inf
from typing import Final

from lacuna.controlplane.shared.broker_configs import can_be_set, changed, plain_name
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.security import entity_of
from lacuna.controlplane.shared.topic_configs import SET, InvalidConfig
from lacuna.controlplane.state.settings import MAX_PER_TICK
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import Outcome
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.security_pb2 import (
    AlterSecurity,
    QuotasShared,
    SecurityChanges,
    ShareQuotas,
)
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: How often the control plane searches for expired tokens; agents reject them immediately.
_EXPIRY_CHECK_MS: Final = 60_000
#: The highest use of a quota that an agent may report. In a burst, it may exceed one second's worth.
_MOST_USED: Final = 100.0


def alter_security(turn: Turn, command: AlterSecurity) -> Reply:
    """Apply all changes, or none if they would exceed the cluster's bounds."""
    if wrong := _wrong(command.changes):
        return _refused(ErrorCode.INVALID_CONFIG, wrong)
    changes = turn.state.security.news(command.changes)
    if excess := turn.state.security.excess(changes):
        return _refused(ErrorCode.POLICY_VIOLATION, excess)
    if changes.ByteSize():
        turn.journal(JournalRecord(security_changed=changes))
    return Reply(security_altered=Outcome())


def _wrong(changes: SecurityChanges) -> str:
    """Return why the values cannot be stored (reading them would fail), or "" if they can be."""
    for quota in changes.quotas:
        for name, value in quota.set.items():
            if not 0 < value < inf:
                return f"The quota {name} must be a number above 0."
    for stored, text in changes.configs.items():
        name = plain_name(stored)
        if not can_be_set(name):
            return f"The config {name} cannot be set while brokers run."
        try:
            changed({}, name, SET, text)
        except InvalidConfig as invalid:
            return str(invalid)
    return ""


def _refused(code: ErrorCode, message: str) -> Reply:
    return Reply(security_altered=Outcome(error_code=code, error_message=message))


def tick_tokens(turn: Turn) -> None:
    state = turn.state
    if not state.security.tokens or turn.now_ms < state.tokens_checked_ms + _EXPIRY_CHECK_MS:
        return
    state.tokens_checked_ms = turn.now_ms
    tokens = state.security.tokens.values()
    expired = [each.token_id for each in tokens if each.expiry_ms <= turn.now_ms]
    if expired:
        changes = SecurityChanges(removed_token_ids=expired[:MAX_PER_TICK])
        turn.journal(JournalRecord(security_changed=changes))


def replay_security_changed(state: State, record: SecurityChanges, _now_ms: int) -> None:
    """Apply changes, and inform all watchers of the cluster."""
    state.security.apply(record)
    delta = state.cluster_changed()
    delta.security.CopyFrom(record)
    if record.configs or record.removed_configs:
        for topic in state.topics.values():
            topic.set_configs(topic.own, state.topic_defaults)
            delta.topics.append(topic.message())


def share_quotas(turn: Turn, command: ShareQuotas) -> Reply:
    """Assign an agent's share of each quota. Nothing durable changes, as a new leader assigns shares within seconds."""
    if command.lease_id not in turn.state.leases:
        return Reply(quotas_shared=QuotasShared(error_code=ErrorCode.LEASE_EXPIRED))
    shares = [
        turn.state.shares.ask(
            (use.key, entity_of(use)), command.lease_id, _part(use.used), use.is_short, turn.now_ms
        )
        for use in command.uses
    ]
    return Reply(quotas_shared=QuotasShared(shares=shares))


def _part(used: float) -> float:
    """Return the use as a fraction of a quota; an invalid value counts as 0."""
    return min(used, _MOST_USED) if used > 0 else 0.0


VERBS: Final = (Verb(alter_security), Verb(share_quotas, looks=True))
REPLAYS: Final = (replay_security_changed,)
