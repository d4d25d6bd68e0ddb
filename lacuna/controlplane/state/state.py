"""The state of the control plane. Only replay changes its durable part; the volatile part is marked as such."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from lacuna.controlplane.shared.broker_configs import topic_defaults
from lacuna.controlplane.shared.history import next_second_ms
from lacuna.controlplane.shared.internal_topics import internal_by_id
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.shared.topic_configs import MIRROR_SOURCE
from lacuna.controlplane.state.deadlines import Deadlines
from lacuna.controlplane.state.groups.store import Groups
from lacuna.controlplane.state.hot import HotIntake, HotRounds
from lacuna.controlplane.state.id_ages import IdAges
from lacuna.controlplane.state.internal import InternalTopics
from lacuna.controlplane.state.merging import Cleanings, Horizons, MergesUnderWay, MergeTurn
from lacuna.controlplane.state.owners import NOBODY, Owners
from lacuna.controlplane.state.partition import Partition, deleted_delta
from lacuna.controlplane.state.past_cuts import Lowered, PastCuts, lowered_now
from lacuna.controlplane.state.rewriting import Rewriting
from lacuna.controlplane.state.segments import SegmentTable
from lacuna.controlplane.state.settings import (
    LEASE_DURATION_MS,
    MOST_OF_TRANSACTION,
    MOST_TRANSACTIONAL_ID_BYTES,
)
from lacuna.controlplane.state.shares import Shares
from lacuna.controlplane.state.transactional import TransactionalId
from lacuna.controlplane.state.unsettled import Unsettled
from lacuna.controlplane.state.windows import Windows
from lacuna.controlplane.v1.cluster_pb2 import (
    Agent,
    AgentReport,
    ClusterDelta,
    ImportReport,
    Topic,
)
from lacuna.controlplane.v1.log_pb2 import PartitionDelta

#: The approximate size in bytes of a partition in an open transaction.
SIZE_OF_PARTITION_OF_TRANSACTION: Final = 256

#: The number of commits of a lease whose answers are remembered for retries.
REMEMBERED_COMMITS: Final = 64


#: The node id of a job's lease. Clients are never sent to a job.
NO_NODE: Final = 0


class Lease:
    __slots__ = ("duration_ms", "forgotten_sequence", "lease_id", "node_id", "recent")

    def __init__(self, lease_id: int, node_id: int, duration_ms: int = LEASE_DURATION_MS) -> None:
        self.lease_id = lease_id
        self.node_id = node_id
        self.duration_ms = duration_ms  # how long it lasts without a renewal
        #: The answers to its last commits (a SegmentCommitted each, serialized), by sequence.
        self.recent: OrderedDict[int, bytes] = OrderedDict()
        self.forgotten_sequence = -1  # the highest sequence whose answer was dropped

    def remember(self, sequence: int, verdicts: bytes) -> None:
        """Keep the answer to a commit (a serialized SegmentCommitted), and drop the oldest answer if there are too
        many.
        """
        self.recent[sequence] = verdicts
        if len(self.recent) > REMEMBERED_COMMITS:
            dropped, _ = self.recent.popitem(last=False)
            self.forgotten_sequence = max(self.forgotten_sequence, dropped)


class TopicState:
    """A topic, its configs, and its partitions in the order of their indexes.

    `own` holds the configs set on the topic; `configs` also includes those set for all brokers, and is in effect.
    """

    __slots__ = ("configs", "mirror_source", "name", "own", "partitions", "topic_id")

    def __init__(
        self, topic_id: bytes, name: str, own: Mapping[str, str], defaults: Mapping[str, str]
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.set_configs(own, defaults)
        self.partitions: list[Partition] = []

    def set_configs(self, own: Mapping[str, str], defaults: Mapping[str, str]) -> None:
        """Replace the topic's own configs, and the ones set for all brokers."""
        self.own = dict(own)
        self.configs = {**defaults, **own}
        #: The topic that it mirrors, or "" if it accepts producers' records.
        self.mirror_source = self.own.get(MIRROR_SOURCE, "")

    def message(self) -> Topic:
        return Topic(
            topic_id=self.topic_id,
            name=self.name,
            partition_count=len(self.partitions),
            configs=self.configs,
            inherited=sorted(self.configs.keys() - self.own.keys()),
        )


def plain(name: str) -> str:
    """Return a topic name with '.' replaced by '_', as in metrics. No two topics may share this form."""
    return name.replace(".", "_")


def size_of_group_of_transaction(group_id: str) -> int:
    """Return the approximate size in bytes of a group in an open transaction."""
    return 128 + len(group_id)


def size_of_transactional_id(transactional_id: str) -> int:
    """Return the approximate size in bytes of a transactional id, excluding its transaction."""
    return 1024 + len(transactional_id)


class State:
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
        self.id_ages = IdAges()
        self.unsettled = Unsettled()
        self.past_cuts = PastCuts()
        self.segments = SegmentTable()
        self.groups = Groups()
        self.security = Security()

        # Derived from the above, so not in snapshots.
        self.id_owners: Owners[str] = Owners()  # of transactional ids, by their bytes
        self.topic_owners: Owners[bytes] = Owners()  # by their partitions
        self.transaction_deadlines: Deadlines[int] = Deadlines()  # by producer id
        self.expirations: Deadlines[str] = Deadlines()  # of transactional ids
        self.windows = Windows()

        # Volatile: the watchers of partitions, pending changes for them, and the deadlines of leases.
        self.watched: dict[PartitionKey, int] = {}
        self.changes: list[PartitionDelta | ClusterDelta] = []
        self.lease_deadlines: Deadlines[int] = Deadlines()
        # Volatile: the agents that clients are sent to (see lacuna.controlplane.verbs.presence).
        self.lease_sessions: dict[int, set[int]] = {}  # lease id -> sessions that renew it
        self.absences: Deadlines[int] = Deadlines()  # when a lease without a session is hidden
        self.hidden_leases: set[int] = set()
        self.leaving_leases: set[int] = (
            set()
        )  # leases in `hidden_leases` whose agents are about to stop
        self.missed: Deadlines[int] = Deadlines()  # when a departed agent is dropped
        # Volatile: the reports of agents and importers by lease id, and counts of rewritten data, for overviews.
        self.reports: dict[int, AgentReport] = {}
        self.import_reports: dict[int, ImportReport] = {}
        #: lease id -> the session of the importer's last report
        self.import_sessions: dict[int, int] = {}
        self.rewriting = Rewriting()
        #: partitions that retention has not yet checked in this round; the next one is at the end
        self.retention_queue: list[PartitionKey] = []
        #: when the ages of records were last compared with retention.ms, by partition
        self.retention_ages: dict[PartitionKey, int] = {}
        #: the time of the last tick; partitions that it did not see have been created since
        self.retention_ticked_ms: int | None = None
        # Volatile: the agents' shares of quotas.
        self.shares = Shares()
        #: when the last search for expired tokens took place
        self.tokens_checked_ms = 0
        self.hot_intake = HotIntake()
        self.hot_rounds = HotRounds()
        #: Whether other machines can continue with the journal if this machine is lost.
        self.is_journal_shared = False
        self.merge_turn = MergeTurn()
        self.merges_under_way = MergesUnderWay()
        self.cleaning_cursor = 0
        self.cleanings = Cleanings()
        self.merge_horizons = Horizons()
        self.compaction_horizons = Horizons()

    def note_cut(self, now_ms: int) -> None:
        """Before a change at `now_ms`, record the cut that has applied since the last change."""
        is_lowered = self.unsettled.transactions or self.past_cuts.ends
        if is_lowered and now_ms >= next_second_ms(self.clock_ms):
            self.past_cuts.note(self.clock_ms, self.partitions, self.unsettled)

    def cut_at(self, second: int) -> Lowered:
        """Return the ends that the cut of all partitions at a second lowered below last stable offsets."""
        if second * 1000 >= next_second_ms(self.clock_ms):
            return lowered_now(self.partitions, self.unsettled)
        return self.past_cuts.at(second)

    def add_transactional_id(self, found: TransactionalId, principal: str) -> None:
        """Add a new transactional id. Groups in its transaction are not yet counted."""
        self.transactional_ids[found.transactional_id] = found
        self.id_owners.own(found.transactional_id, principal)
        self.id_owners.charge(
            found.transactional_id, size_of_transactional_id(found.transactional_id)
        )

    def drop_transactional_id(self, transactional_id: str) -> TransactionalId:
        self.id_owners.charge(transactional_id, -size_of_transactional_id(transactional_id))
        return self.transactional_ids.pop(transactional_id)

    def charge_partitions(self, found: TransactionalId, count: int) -> None:
        """Charge up to `count` partitions in an open transaction to its transactional id."""
        size = count * SIZE_OF_PARTITION_OF_TRANSACTION
        self.id_owners.charge(found.transactional_id, size)

    def has_room_for_ids(self, transactional_id: str, principal: str, more: int) -> bool:
        """Whether `principal` may store `more` additional bytes under a transactional id."""
        owners = self.id_owners
        if owners.size + more > MOST_TRANSACTIONAL_ID_BYTES:
            return False
        payer = owners.payer(transactional_id, principal)
        share = self.groups.settings.share_of(MOST_TRANSACTIONAL_ID_BYTES)
        return owners.has_share(payer, more, share)

    def has_room_for_partitions(self, found: TransactionalId, more: int, others: int = 0) -> bool:
        """Whether `more` partitions can join the transaction of a transactional id.

        `others` partitions are about to join other transactions, whichever principal is charged for those.
        """
        size = (more + others) * SIZE_OF_PARTITION_OF_TRANSACTION
        return len(found.partitions) + more <= MOST_OF_TRANSACTION and self.has_room_for_ids(
            found.transactional_id, NOBODY, size
        )

    def may_lack_room_for_partitions(self, more: int) -> bool:
        """Whether some transaction might refuse `more` partitions because its principal stores too many bytes."""
        share = self.groups.settings.share_of(MOST_TRANSACTIONAL_ID_BYTES)
        return self.id_owners.size + more * SIZE_OF_PARTITION_OF_TRANSACTION > share

    def give_producer_id(self, producer_id: int, now_ms: int) -> None:
        """Record the assignment of a producer id, if it is new."""
        if producer_id >= self.next_producer_id:
            self.next_producer_id = producer_id + 1
            self.id_ages.note(producer_id, now_ms)

    @property
    def internal(self) -> InternalTopics:
        """The internal topics. They are kept with the offsets, since most of their records are about groups."""
        return self.groups.offsets.internal

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic, including internal ones, or "" if it does not exist."""
        topic = self.topics.get(topic_id) or internal_by_id(topic_id)
        return "" if topic is None else topic.name

    @property
    def topic_defaults(self) -> Mapping[str, str]:
        """The topic configs set for all brokers."""
        return topic_defaults(self.security.configs)

    # Watching.

    def watch(self, key: PartitionKey) -> PartitionDelta:
        """Add a watcher of a partition. Return a delta with the complete partition, or one that marks it as deleted."""
        self.watched[key] = self.watched.get(key, 0) + 1
        found = self.partitions.get(key)
        if found is not None:
            return found.snapshot_delta()
        internal = self.internal.find(key)
        return deleted_delta(key) if internal is None else internal.delta(key)

    def unwatch(self, key: PartitionKey) -> None:
        """Remove a watcher. Without watchers, no deltas are created. Raises KeyError if there is none."""
        left = self.watched[key] - 1
        if left:
            self.watched[key] = left
        else:
            del self.watched[key]

    def take_changes(self) -> list[PartitionDelta | ClusterDelta]:
        """Return the changes since the last call, in order."""
        changes, self.changes = self.changes, []
        return changes

    def cluster_snapshot(self) -> ClusterDelta:
        """Return the first delta of a new session: all topics and agents."""
        delta = ClusterDelta(
            version=self.cluster_version,
            is_snapshot=True,
            cluster_id=self.cluster_id,
            topics=[topic.message() for topic in self.topics.values()],
            internal_topics=self.internal.existing(),
            security=self.security.snapshot(),
        )
        self.put_agents(delta)
        agents = (each for each in self.leases.values() if each.node_id != NO_NODE)
        delta.lease_ids.extend(sorted(each.lease_id for each in agents))
        return delta

    def put_agents(self, delta: ClusterDelta) -> None:
        """Add the visible and hidden agents to a delta."""
        live = self.live_agents()
        delta.has_agents = True
        delta.agents.extend(live)
        delta.hidden_lease_ids.extend(sorted(self.hidden_leases))
        delta.hidden_agents.extend(each for each in self.known_agents() if each not in live)
        delta.leaving_node_ids.extend(each.node_id for each in self.leaving_agents())
        delta.agent_processes = self.agent_processes()

    def live_agents(self) -> list[Agent]:
        """Return the nodes with a live lease that is not hidden, ordered by node id."""
        leases = self.leases.values()
        return self._nodes({each.node_id for each in leases if not self.is_hidden(each)})

    def agent_processes(self) -> int:
        """Return the number of processes of the visible nodes. Each worker process has its own lease."""
        leases = self.leases.values()
        return sum(each.node_id != NO_NODE and not self.is_hidden(each) for each in leases)

    def leaving_agents(self) -> list[Agent]:
        """Return the nodes that are about to stop, ordered by node id."""
        leases = self.leases.values()
        leaving = {each.node_id for each in leases if each.lease_id in self.leaving_leases}
        return self._nodes(leaving.difference(each.node_id for each in self.live_agents()))

    def leased_agents(self) -> list[Agent]:
        """Return the nodes with a live lease, ordered by node id."""
        return self._nodes({lease.node_id for lease in self.leases.values()})

    def known_agents(self) -> list[Agent]:
        """Return the nodes that have, or recently had, a live lease, ordered by node id."""
        leased = {lease.node_id for lease in self.leases.values()}
        return self._nodes(leased.union(self.missed))

    def is_hidden(self, lease: Lease) -> bool:
        """Whether the lease's agent is hidden from clients because it has no session."""
        return lease.lease_id in self.hidden_leases

    def _nodes(self, node_ids: set[int]) -> list[Agent]:
        nodes = [node for node in self.nodes.values() if node.node_id in node_ids]
        return sorted(nodes, key=lambda node: node.node_id)

    # For replay.

    def changed(self, partition: Partition) -> PartitionDelta | None:
        """Increment the version of a partition. Return a delta to fill in, or None without watchers."""
        partition.version += 1
        if partition.key not in self.watched:
            return None
        delta = partition.delta()
        self.changes.append(delta)
        return delta

    def cluster_changed(self) -> ClusterDelta:
        """Increment the version of the cluster, and return a delta to fill in."""
        self.cluster_version += 1
        delta = ClusterDelta(version=self.cluster_version)
        self.changes.append(delta)
        return delta
