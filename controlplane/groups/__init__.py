"""Classic consumer groups and committed offsets: pure and deterministic (S26).

    handle(groups, command, context, partition_exists=...) -> Decision
    decide_txn_offset_commit(groups, command, context, partition_exists=...) -> Decision
    tick(groups, context) -> Decision
    replay(groups, record: GroupRecord, now_ms)
    groups.end_transaction(producer_id, committed)   # from the replay of a transaction's outcome
    groups.forget_topic(topic_id)                    # from the replay of a topic's deletion
    groups.forget_token(token)                       # who waited under it is gone
    groups.to_snapshot() / Groups.from_snapshot(message)

Only `replay`, `end_transaction` and `forget_topic` change what a snapshot holds.
"""

from collections.abc import Callable, Iterable

from controlplane.decision import Context, Decision
from controlplane.v1.control_pb2 import Command
from controlplane.v1.group_records_pb2 import GroupRecord, GroupsSnapshot
from controlplane.v1.groups_pb2 import TxnOffsetCommit

PartitionExists = Callable[[bytes, int], bool]


class Groups:
    """All groups."""

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Make the pending offsets of a producer count, or drop them."""
        raise NotImplementedError

    def forget_topic(self, topic_id: bytes) -> None:
        """Drop all offsets of a deleted topic, pending ones too."""
        raise NotImplementedError

    def forget_token(self, token: int) -> None:
        """Nobody waits under this token any more."""
        raise NotImplementedError

    def forget_tokens(self, tokens: Iterable[int]) -> None:
        """Nobody waits under these tokens any more."""
        raise NotImplementedError

    def to_snapshot(self) -> GroupsSnapshot:
        """All durable state."""
        raise NotImplementedError

    @classmethod
    def from_snapshot(cls, message: GroupsSnapshot) -> "Groups":
        """The state that a snapshot holds; sessions start anew at the first use or tick."""
        raise NotImplementedError


def handle(
    groups: Groups,
    command: Command,
    context: Context,
    *,
    partition_exists: PartitionExists = lambda _topic_id, _partition: True,
) -> Decision:
    """Decide one group command."""
    raise NotImplementedError


def decide_txn_offset_commit(
    groups: Groups,
    command: TxnOffsetCommit,
    context: Context,
    *,
    partition_exists: PartitionExists = lambda _topic_id, _partition: True,
) -> Decision:
    """Decide a transactional commit whose transaction the caller found valid."""
    raise NotImplementedError


def replay(groups: Groups, record: GroupRecord, now_ms: int) -> None:
    """Apply one record."""
    raise NotImplementedError


def tick(groups: Groups, context: Context) -> Decision:
    """End what is overdue."""
    raise NotImplementedError
