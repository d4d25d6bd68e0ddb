"""One decision in the making: what its parts share, and what comes out."""

from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.decision import Context
from controlplane.groups.consumer.subscriptions import NoTopics, Topics
from controlplane.groups.live import LiveMember
from controlplane.groups.store import Groups
from controlplane.v1.control_pb2 import Reply
from controlplane.v1.group_records_pb2 import GroupGeneration, GroupRecord
from controlplane.v1.groups_pb2 import GroupJoined, GroupSynced

PartitionExists = Callable[[bytes, int], bool]


def any_partition(_topic_id: bytes, _partition: int) -> bool:
    """For callers that checked the partitions themselves."""
    return True


@dataclass(slots=True, kw_only=True)
class GroupDecision:
    """As `Decision`, with the records not yet wrapped for the journal."""

    records: list[GroupRecord]
    reply: Reply | None
    completions: list[tuple[int, Reply]]


@dataclass(slots=True, kw_only=True)
class Turn:
    """Collects records and replies while one command or tick is decided.

    Volatile state changes at once; durable state only when the records are replayed.
    """

    groups: Groups
    context: Context
    partition_exists: PartitionExists = any_partition
    topics: Topics = field(default_factory=NoTopics)
    records: list[GroupRecord] = field(default_factory=list)
    completions: list[tuple[int, Reply]] = field(default_factory=list)

    @property
    def now_ms(self) -> int:
        """The control plane's clock."""
        return self.context.now_ms

    def park(self) -> int:
        """Let the caller wait; gives the token under which it does."""
        self.groups.live.parked.add(self.context.token)
        return self.context.token

    def answer_join(self, member: LiveMember, joined: GroupJoined) -> None:
        """Answer the member's JoinGroup, if it waits for one."""
        token, member.join_token = member.join_token, None
        self._complete(token, Reply(group_joined=joined))

    def answer_sync(self, member: LiveMember, synced: GroupSynced) -> bool:
        """Answer the member's SyncGroup, if it waits for one; tells whether it did."""
        token, member.sync_token = member.sync_token, None
        self._complete(token, Reply(group_synced=synced))
        return token is not None

    def keep(self, generation: GroupGeneration) -> None:
        """Journal the group as of now."""
        self.records.append(GroupRecord(group_generation=generation))

    def end(self, reply: Reply | None) -> GroupDecision:
        """The decision. Whoever was parked and answered in one turn gets a plain reply."""
        others: list[tuple[int, Reply]] = []
        for token, completed in self.completions:
            if token == self.context.token:
                reply = completed
            else:
                others.append((token, completed))
        return GroupDecision(records=self.records, reply=reply, completions=others)

    def _complete(self, token: int | None, reply: Reply) -> None:
        if token is None or token not in self.groups.live.parked:
            return
        self.groups.live.parked.remove(token)
        self.completions.append((token, reply))
