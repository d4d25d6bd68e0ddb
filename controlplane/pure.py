"""The machine as the runtime sees it: functions over a state that the runtime never looks into."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from controlplane.decision import Context, Decision
from controlplane.v1.cluster_pb2 import ClusterDelta
from controlplane.v1.control_pb2 import Command
from controlplane.v1.journal_pb2 import JournalRecord
from controlplane.v1.log_pb2 import PartitionDelta

S = TypeVar("S")


class Machine(Protocol[S]):
    """Pure and deterministic. `replay` alone changes what a snapshot holds."""

    def new_state(self) -> S:
        """The state before the first record."""
        ...

    def found(self, state: S, cluster_id: str, context: Context) -> Decision:
        """The first decision of a new cluster."""
        ...

    def handle(self, state: S, command: Command, context: Context) -> Decision:
        """Decides a command; a verb is set."""
        ...

    def tick(self, state: S, context: Context) -> Decision:
        """Ends what is overdue."""
        ...

    def replay(self, state: S, record: JournalRecord) -> None:
        """Applies a record."""
        ...

    def snapshot(self, state: S) -> bytes:
        """All durable state; equal states give equal bytes."""
        ...

    def restore(self, snapshot: bytes) -> S:
        """The inverse."""
        ...

    def now_ms(self, state: S) -> int:
        """The time of the last record that the state has seen."""
        ...

    def cluster_snapshot(self, state: S) -> ClusterDelta:
        """A delta that holds all topics and agents."""
        ...

    def watch(self, state: S, topic_id: bytes, partition: int) -> PartitionDelta:
        """One watcher more; a delta that holds the whole partition, or that it is deleted."""
        ...

    def unwatch(self, state: S, topic_id: bytes, partition: int) -> None:
        """One watcher less; without any its changes are no longer collected."""
        ...

    def take_changes(self, state: S) -> Sequence[PartitionDelta | ClusterDelta]:
        """What changed since the last call, in order."""
        ...

    def end_session(self, state: S, session: int, context: Context) -> None:
        """Nothing comes over this session any more; `session` as in Context."""
        ...

    def forget_tokens(self, state: S, tokens: Iterable[int]) -> None:
        """Nobody waits under these tokens any more."""
        ...
