"""AlterSecurity: users, ACLs, quotas, delegation tokens, configs of all brokers.

Agents check what clients send, and who may send it.
"""

from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.state.settings import MAX_PER_TICK
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord
from lacuna.controlplane.v1.security_pb2 import AlterSecurity, SecurityAltered, SecurityChanges
from lacuna.controlplane.verbs.turn import Turn

#: How often tokens that have expired are looked for; agents refuse them at once.
_EXPIRY_CHECK_MS: Final = 60_000


def alter_security(turn: Turn, command: AlterSecurity) -> Reply:
    """Apply all changes, or none if they would leave more than a cluster keeps."""
    changes = turn.state.security.news(command.changes)
    if excess := turn.state.security.excess(changes):
        answer = SecurityAltered(
            error_code=ErrorCode.POLICY_VIOLATION,
            error_message=excess,
        )
        return Reply(security_altered=answer)
    if changes.ByteSize():
        turn.journal(JournalRecord(security_changed=changes))
    return Reply(security_altered=SecurityAltered())


def tick_tokens(turn: Turn) -> None:
    """Remove tokens that have expired."""
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
    """Apply changes, and tell everyone who watches the cluster."""
    state.security.apply(record)
    delta = state.cluster_changed()
    delta.security.CopyFrom(record)
    if record.configs or record.removed_configs:
        for topic in state.topics.values():
            topic.set_configs(topic.own, state.topic_defaults)
            delta.topics.append(topic.message())
