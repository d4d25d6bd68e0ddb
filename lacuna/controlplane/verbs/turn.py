"""A turn: a decision in progress, with the state that the verb reads and the records written so far."""

from lacuna.controlplane.decision import Context, Decision
from lacuna.controlplane.state.group_topics import TopicsOfGroups
from lacuna.controlplane.state.groups.store import Groups
from lacuna.controlplane.state.owners import NOBODY
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord
from lacuna.controlplane.v1.journal_pb2 import JournalRecord


class Turn:
    """Collects journal records and replies while a command or a tick is decided.

    Verbs change volatile state immediately; durable state changes only when the records are replayed.
    """

    __slots__ = ("completions", "context", "now_ms", "principal", "records", "state")

    def __init__(self, state: State, context: Context, principal: str = NOBODY) -> None:
        self.state = state
        self.principal = principal  # of the client that sent the command
        self.context = context
        self.now_ms = context.now_ms  # the control plane's clock
        self.records: list[JournalRecord] = []
        #: Replies to commands that were parked earlier or in this turn, each with its token.
        self.completions: list[tuple[int, Reply]] = []

    @property
    def groups(self) -> Groups:
        return self.state.groups

    @property
    def topics(self) -> TopicsOfGroups:
        return TopicsOfGroups(self.state)

    def journal(self, record: JournalRecord) -> None:
        """Add a journal record, with this turn's time."""
        record.now_ms = self.now_ms
        self.records.append(record)

    def journal_group(self, record: GroupRecord) -> None:
        """Add a journal record about a group, with this turn's time, and with the group's owner if it is new."""
        groups = self.groups
        if self.principal or groups.live.owners.of:
            group_id = getattr(record, record.WhichOneof("record") or "").group_id
            if group_id not in groups.owners.of:
                record.principal = groups.payer(group_id, self.principal)
        self.records.append(JournalRecord(now_ms=self.now_ms, group=record))

    def end(self, reply: Reply | None) -> Decision:
        """Return the decision. If this turn's command was parked and then answered, that answer is the reply."""
        if not self.completions:
            return Decision(records=self.records, reply=reply)
        others: list[tuple[int, Reply]] = []
        for token, completed in self.completions:
            if token == self.context.token:
                reply = completed
            else:
                others.append((token, completed))
        return Decision(records=self.records, reply=reply, completions=others)
