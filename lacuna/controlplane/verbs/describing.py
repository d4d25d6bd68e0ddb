"""DescribeCluster and DescribeMerges: overviews of the cluster, and of merges and compaction."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from lacuna.controlplane.shared.rights import QUESTIONS
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.rewriting import TopicRewritten, waiting_in
from lacuna.controlplane.state.settings import DESCRIBED_EXTENTS
from lacuna.controlplane.state.state import NO_NODE, State
from lacuna.controlplane.v1.cluster_pb2 import (
    AgentDescription,
    ClusterDescribed,
    DescribeCluster,
    ImporterDescription,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.log_pb2 import DescribeMerges, MergesDescribed, TopicMerges
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


class Totals(NamedTuple):
    """Totals for the whole cluster. `partitions_blocked` counts partitions in which records wait for a transaction."""

    extents: int
    objects: int
    dead_ranges: int
    partitions_blocked: int
    oldest_transaction_ms: int


def totals(state: State, now_ms: int) -> Totals:
    """Compute the totals, in about 10 ms for 20,000 partitions."""
    partitions = state.partitions.values()
    begun = [found.start_time_ms for found in state.transactional_ids.values() if found.is_ongoing]
    return Totals(
        extents=sum(len(each.extents) for each in partitions),
        objects=len(state.segments),
        dead_ranges=sum(len(each.dead) for each in partitions),
        partitions_blocked=sum(
            1
            for each in partitions
            if each.ongoing and each.high_watermark > each.last_stable_offset
        ),
        oldest_transaction_ms=max(now_ms - min(begun), 0) if begun else 0,
    )


def describe_cluster(turn: Turn, _command: DescribeCluster) -> Reply:
    """Describe the agents and importers from their last reports, with totals for the cluster."""
    state = turn.state
    nodes = {node.node_id: node for node in state.nodes.values()}
    leases = [each for each in state.leases.values() if each.node_id != NO_NODE]
    sums = totals(state, turn.now_ms)
    answer = ClusterDescribed(
        agents=[
            AgentDescription(
                lease_id=lease.lease_id,
                agent=nodes[lease.node_id],
                is_hidden=state.is_hidden(lease),
                report=state.reports.get(lease.lease_id),
            )
            for lease in sorted(leases, key=lambda lease: (lease.node_id, lease.lease_id))
        ],
        importers=[
            ImporterDescription(lease_id=lease_id, report=report)
            for lease_id, report in sorted(state.import_reports.items())
        ],
        **sums._asdict(),
    )
    return Reply(cluster_described=answer)


def describe_merges(turn: Turn, command: DescribeMerges) -> Reply:
    """Describe merges and compaction since this control plane became the leader, and what is waiting to be merged in
    these topics.

    No more than about DESCRIBED_EXTENTS extents are examined; the partitions left out are counted.
    """
    state = turn.state
    rewriting = state.rewriting
    answer = MergesDescribed(
        since_ms=rewriting.since_ms,
        merged=rewriting.total.merged,
        compacted=rewriting.total.compacted,
        refused=rewriting.refused,
        objects_deleted=rewriting.objects_deleted,
        bytes_deleted=rewriting.bytes_deleted,
        objects_replaced=len(state.segments.replaced),
        runs=reversed(rewriting.runs),
    )
    room = DESCRIBED_EXTENTS
    for topic_id in command.topic_ids:
        topic = state.topics.get(topic_id)
        if topic is None:
            continue
        done = rewriting.topics.get(topic_id, TopicRewritten())
        found = answer.topics.add(topic_id=topic_id, merged=done.merged, compacted=done.compacted)
        room -= _look(found, topic.partitions, rewriting.small_bytes, room)
    return Reply(merges_described=answer)


def _look(found: TopicMerges, partitions: Iterable[Partition], small_bytes: int, room: int) -> int:
    """Add up what is waiting to be merged in these partitions, until at least `room` partitions and extents have been
    examined. Return how many were examined.
    """
    looked = 0
    for partition in partitions:
        if looked >= room:
            found.partitions_left_out += 1
            continue
        waiting = waiting_in(partition, small_bytes)
        looked += 1 + waiting.looked_at
        found.small_extents += waiting.small_extents
        found.small_bytes += waiting.small_bytes
        found.aborted_offsets += waiting.aborted_offsets
        found.aborted_bytes += waiting.aborted_bytes
    return looked


VERBS: Final = (
    Verb(describe_cluster, looks=True, needs=QUESTIONS["describe_cluster"]),
    Verb(describe_merges, looks=True, needs=QUESTIONS["describe_merges"]),
)
