"""All that the control plane holds.

Only replay changes what is durable; what is volatile says so.
"""

from collections import OrderedDict
from typing import Final

from controlplane.groups import Groups
from controlplane.state.deadlines import Deadlines
from controlplane.state.horizons import Horizons
from controlplane.state.partition import Partition, PartitionKey, deleted_delta, key_of
from controlplane.state.segments import SegmentTable
from controlplane.state.settings import LEASE_DURATION_MS
from controlplane.state.transactional import TransactionalId
from controlplane.v1.cluster_pb2 import Agent, ClusterDelta, Topic, TopicPartition
from controlplane.v1.log_pb2 import PartitionDelta

#: How many answers per lease a retried commit can still get.
REMEMBERED_COMMITS: Final = 64


#: In place of a node id: the lease of a job, which no client is sent to.
NO_NODE: Final = 0


class Lease:
    """A live process of an agent, or a job."""

    __slots__ = ("duration_ms", "forgotten_sequence", "lease_id", "node_id", "recent")

    def __init__(self, lease_id: int, node_id: int, duration_ms: int = LEASE_DURATION_MS) -> None:
        self.lease_id = lease_id
        self.node_id = node_id
        self.duration_ms = duration_ms  # how long it lives without a renewal
        #: The answers to its last commits (a SegmentCommitted each, serialized), by sequence.
        self.recent: OrderedDict[int, bytes] = OrderedDict()
        self.forgotten_sequence = -1  # the highest whose answer was dropped

    def remember(self, sequence: int, verdicts: bytes) -> None:
        """Keeps an answer and drops the oldest beyond the bound."""
        self.recent[sequence] = verdicts
        if len(self.recent) > REMEMBERED_COMMITS:
            dropped, _ = self.recent.popitem(last=False)
            self.forgotten_sequence = max(self.forgotten_sequence, dropped)


class TopicState:
    """A topic and its partitions, by index."""

    __slots__ = ("configs", "name", "partitions", "topic_id")

    def __init__(self, topic_id: bytes, name: str, configs: dict[str, str]) -> None:
        self.topic_id = topic_id
        self.name = name
        self.configs = configs
        self.partitions: list[Partition] = []

    def message(self) -> Topic:
        """The topic as clients of the control plane see it."""
        return Topic(
            topic_id=self.topic_id,
            name=self.name,
            partition_count=len(self.partitions),
            configs=self.configs,
        )


class State:
    """The state machine's state."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.clock_ms = 0
        self.cluster_version = 0
        self.next_lease_id = 1
        self.next_node_id = 1
        self.next_producer_id = 1  # S8: never 0
        self.next_transaction = 1
        self.next_pin_id = 1

        self.nodes: dict[tuple[str, int], Agent] = {}
        self.leases: dict[int, Lease] = {}
        self.ended_leases: dict[int, int] = {}  # lease id -> when it ended, until it is swept

        self.topics: dict[bytes, TopicState] = {}
        self.topics_by_name: dict[str, TopicState] = {}
        self.topics_by_plain_name: dict[str, TopicState] = {}  # '.' as '_'
        self.partitions: dict[PartitionKey, Partition] = {}

        self.transactional_ids: dict[str, TransactionalId] = {}
        self.producers: dict[int, TransactionalId] = {}  # by current producer id
        self.segments = SegmentTable()
        self.groups = Groups()

        # Derived from the above, hence not in a snapshot.
        self.transaction_deadlines: Deadlines[int] = Deadlines()  # by producer id
        self.expirations: Deadlines[str] = Deadlines()  # of transactional ids
        #: hour of the last use -> partition -> producer ids with a window there
        self.window_hours: dict[int, dict[PartitionKey, set[int]]] = {}

        # Volatile: who watches, what they are to be told, and leases' renewals.
        self.watched: dict[PartitionKey, int] = {}
        self.changes: list[PartitionDelta | ClusterDelta] = []
        self.lease_deadlines: Deadlines[int] = Deadlines()
        # Volatile too, see controlplane.state.presence: which agents clients are sent to.
        self.lease_sessions: dict[int, set[int]] = {}  # by lease, the sessions it is renewed over
        self.absences: Deadlines[int] = Deadlines()  # when a lease without a session is hidden
        self.hidden_leases: set[int] = set()
        #: partitions that retention has not yet looked at in this round, the next last
        self.retention_queue: list[PartitionKey] = []
        #: when the ages of a partition's records were last held against retention.ms
        self.retention_ages: dict[PartitionKey, int] = {}
        #: when the last tick was: partitions that it did not see came since
        self.retention_ticked_ms: int | None = None
        self.merge_cursor = 0
        self.merge_horizons = Horizons()
        self.compaction_horizons = Horizons()

    def file_window(self, partition: Partition, producer_id: int, hour: int) -> None:
        """Notes in which hour a window was used, for when nobody uses it any more."""
        filed = self.window_hours.setdefault(hour, {})
        filed.setdefault(partition.key, set()).add(producer_id)

    # Watching.

    def watch(self, partition: TopicPartition) -> PartitionDelta:
        """One more watcher of a partition; returns the snapshot that it begins with (also if
        deleted).
        """
        key = key_of(partition)
        self.watched[key] = self.watched.get(key, 0) + 1
        found = self.partitions.get(key)
        return deleted_delta(key) if found is None else found.snapshot_delta()

    def unwatch(self, partition: TopicPartition) -> None:
        """One watcher less; without any, no more deltas are made.

        Raises KeyError if there was none.
        """
        key = key_of(partition)
        left = self.watched[key] - 1
        if left:
            self.watched[key] = left
        else:
            del self.watched[key]

    def take_changes(self) -> list[PartitionDelta | ClusterDelta]:
        """What changed since the last call, in order."""
        changes, self.changes = self.changes, []
        return changes

    def cluster_snapshot(self) -> ClusterDelta:
        """What a new session begins with."""
        delta = ClusterDelta(
            version=self.cluster_version,
            is_snapshot=True,
            cluster_id=self.cluster_id,
            topics=[topic.message() for topic in self.topics.values()],
        )
        self.put_agents(delta)
        return delta

    def put_agents(self, delta: ClusterDelta) -> None:
        """Fills in the agents that clients are sent to, and with their leases those that they are not."""
        live = self.live_agents()
        delta.has_agents = True
        delta.agents.extend(live)
        delta.hidden_lease_ids.extend(sorted(self.hidden_leases))
        delta.hidden_agents.extend(each for each in self.leased_agents() if each not in live)

    def live_agents(self) -> list[Agent]:
        """The nodes that clients are sent to, by node id: with a lease that is not hidden."""
        leases = self.leases.values()
        return self._nodes({each.node_id for each in leases if not self.is_hidden(each)})

    def leased_agents(self) -> list[Agent]:
        """The nodes with a live lease, by node id."""
        return self._nodes({lease.node_id for lease in self.leases.values()})

    def is_hidden(self, lease: Lease) -> bool:
        """Whether clients are not sent to it, for it has no session."""
        return lease.lease_id in self.hidden_leases

    def _nodes(self, node_ids: set[int]) -> list[Agent]:
        nodes = [node for node in self.nodes.values() if node.node_id in node_ids]
        return sorted(nodes, key=lambda node: node.node_id)

    # For replay.

    def changed(self, partition: Partition) -> PartitionDelta | None:
        """A partition has changed, in one step: a new version, and a delta to fill if somebody
        watches.
        """
        partition.version += 1
        if partition.key not in self.watched:
            return None
        delta = partition.delta()
        self.changes.append(delta)
        return delta

    def cluster_changed(self) -> ClusterDelta:
        """The cluster has changed: a new version, and the delta to fill."""
        self.cluster_version += 1
        delta = ClusterDelta(version=self.cluster_version)
        self.changes.append(delta)
        return delta
