"""The metrics of a control plane. Only a leader reports those about the state. docs/metrics.md lists them."""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from lacuna.controlplane.node import Node
from lacuna.controlplane.runtime import Runtime
from lacuna.controlplane.runtime_settings import RuntimeLoad, RuntimeSettings
from lacuna.controlplane.service import RunningControlPlane
from lacuna.controlplane.shared.log.behind import Behind, behind
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.shared_service import RunningNode
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.rewriting import waiting_in
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import ImportReport
from lacuna.controlplane.v1.log_pb2 import Rewritten
from lacuna.controlplane.verbs.cleaning import compacted, dirt_in
from lacuna.controlplane.verbs.describing import Totals, totals
from lacuna.observing.endpoint import Observed
from lacuna.observing.families import Families
from lacuna.observing.metric import Metric, counter, counters, gauge, gauges

#: How many partitions have metrics of their own: those whose last stable offset is furthest behind.
_MOST_PARTITIONS: Final = 50
#: How many committed offsets have metrics of their own. The rest count only towards the totals of their groups.
_MOST_GROUP_PARTITIONS: Final = 10_000
#: How many committed offsets are examined, which takes half a second. The rest are only counted.
_MOST_LAGS: Final = 50_000
#: How many partitions' mergeable extents are counted, which takes a second if many extents are small.
_MOST_WAITING: Final = 10_000
#: After this many items, which take a few milliseconds, other tasks in the event loop get their turn.
_AT_A_TIME: Final = 256


def observe_control_plane(
    observed: Observed, running: RunningControlPlane | RunningNode, settings: RuntimeSettings
) -> None:
    async def add(families: Families) -> None:
        if isinstance(running, RunningNode):
            await _add_node(families, running.node, settings)
        else:
            await _add_leader(families, running.runtime, settings)

    observed.shows(add)


async def _add_leader(families: Families, runtime: Runtime, settings: RuntimeSettings) -> None:
    await families.add(_ANY, True)
    await families.add(_RUNTIME, _Loaded(runtime, runtime.load(), settings))
    state, now_ms = runtime.state, runtime.now_ms()
    await families.add(_STATE, _Summed(state, now_ms, totals(state, now_ms)))
    await families.add(_WAITING, await _waiting_in(state))
    await families.add(_DIRT, await _dirt_in(state, now_ms))
    await families.add(_LAGS, await _lags_in(state, now_ms))


async def _add_node(families: Families, node: Node, settings: RuntimeSettings) -> None:
    if node.runtime is not None:
        await _add_leader(families, node.runtime, settings)
    else:
        await families.add(_ANY, False)
    await families.add(_NODE, node)


_ANY: Final[tuple[Metric[bool], ...]] = (
    gauge(
        "lacuna_controlplane_leader", "1 if this control plane is the leader.", lambda leads: leads
    ),
)


def _standby_lags(node: Node) -> list[tuple[str, int]]:
    status = node.status()
    return [(each.address, max(status.position - each.position, 0)) for each in status.standbys]


_NODE: Final[tuple[Metric[Node], ...]] = (
    gauge(
        "lacuna_controlplane_epoch",
        "The leader's epoch.",
        lambda node: node.status().epoch,
    ),
    gauge(
        "lacuna_controlplane_caught_up",
        "1 if this control plane is the leader, or could take over immediately.",
        lambda node: node.is_ready,
    ),
    gauges(
        "lacuna_controlplane_standby_lag_records",
        "Journal records that a standby has not replayed yet.",
        ("standby",),
        _standby_lags,
    ),
)


class _Loaded(NamedTuple):
    """A control plane that is the leader, with the fill levels and limits of its queues."""

    runtime: Runtime
    load: RuntimeLoad
    settings: RuntimeSettings


_RUNTIME: Final[tuple[Metric[_Loaded], ...]] = (
    gauge(
        "lacuna_controlplane_time_doubtful",
        "1 while the clocks disagree with the control plane's time. Meanwhile, no records are deleted based on age.",
        lambda leader: leader.runtime.time.is_doubtful,
    ),
    gauge(
        "lacuna_controlplane_clocks_ahead_seconds",
        "Seconds by which the clocks are ahead of the control plane's time; negative if they are behind.",
        lambda leader: leader.runtime.time.apart_ms / 1000,
    ),
    counter(
        "lacuna_journal_records", "Decided records.", lambda leader: leader.load.decided_position
    ),
    gauge(
        "lacuna_journal_durable_position",
        "Position of the last durable record.",
        lambda leader: leader.load.durable_position,
    ),
    gauge(
        "lacuna_journal_pending_records",
        "Records that have been decided but whose write has not begun.",
        lambda leader: leader.load.pending_records,
    ),
    gauge(
        "lacuna_journal_pending_bytes",
        "Bytes of records that have been decided but whose write has not begun.",
        lambda leader: leader.load.pending_bytes,
    ),
    gauge(
        "lacuna_journal_pending_limit_bytes",
        "The limit on pending bytes. Beyond it, commands wait in the backlog.",
        lambda leader: leader.settings.max_held_bytes,
    ),
    gauge(
        "lacuna_journal_records_since_snapshot",
        "Approximate number of records since the last snapshot. A restart would replay them.",
        lambda leader: leader.load.records_since_snapshot,
    ),
    gauge(
        "lacuna_deliveries_held",
        "Replies and deltas that are waiting for the journal.",
        lambda leader: leader.load.held,
    ),
    gauge(
        "lacuna_deliveries_held_limit",
        "The limit on held deliveries. Beyond it, commands wait.",
        lambda leader: leader.settings.max_held,
    ),
    gauge(
        "lacuna_backlog_commands",
        "Commands in the backlog.",
        lambda leader: leader.load.backlog,
    ),
    gauge(
        "lacuna_backlog_limit_commands",
        "The limit on the backlog. Beyond it, the control plane rejects commands.",
        lambda leader: leader.settings.max_backlog,
    ),
    gauge(
        "lacuna_longest_step_seconds",
        "Duration of the longest decision since the start, for a command or a tick. During this time, the "
        "control plane makes no other decisions.",
        lambda leader: leader.load.longest_step_ms / 1000,
    ),
    gauge(
        "lacuna_sessions",
        "Sessions of agents and jobs.",
        lambda leader: leader.load.sessions,
    ),
    gauge(
        "lacuna_subscriptions",
        "Partitions that sessions watch, counted once per session.",
        lambda leader: leader.load.subscriptions,
    ),
)


class _Summed(NamedTuple):
    """The current state, and totals computed from it."""

    state: State
    now_ms: int
    sums: Totals


def _of_topics(seen: _Summed, value: Callable[[Partition], int]) -> list[tuple[str, int]]:
    """Return the sum of `value` over the partitions of each topic, by topic name."""
    return sorted(
        (each.name, sum(map(value, each.partitions))) for each in seen.state.topics.values()
    )


def _by_work(seen: _Summed) -> Iterator[tuple[str, Rewritten]]:
    total = seen.state.rewriting.total
    yield "merge", total.merged
    yield "compaction", total.compacted


def _transactional_ids(seen: _Summed) -> list[tuple[str, int]]:
    states = Counter(each.state.value for each in seen.state.transactional_ids.values())
    return [
        (name, states[name]) for name in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort")
    ]


def _groups(seen: _Summed) -> list[tuple[str, str, int]]:
    groups = seen.state.groups
    counts: Counter[tuple[str, str]] = Counter()
    for live in groups.live.groups.values():
        counts["classic", live.state.value] += 1
    for group in groups.consumers.values():
        counts["consumer", group.state.value] += 1
    for share in groups.shares.values():
        counts["share", share.state] += 1
    for streams in groups.streams.values():
        counts["streams", streams.state.value] += 1
    return [(kind, name, count) for (kind, name), count in sorted(counts.items())]


def _share_records(seen: _Summed) -> list[tuple[str, int]]:
    counts = {"available": 0, "acquired": 0, "archiving": 0}
    for share in seen.state.groups.shares.values():
        for partition in share.partitions.values():
            for run in partition.runs:
                if not run.is_final:
                    counts[run.state.name.lower()] += run.end_offset - run.first_offset
    return [*counts.items()]


def _furthest_behind(state: State) -> list[tuple[str, str, Partition]]:
    waiting = [each for each in state.partitions.values() if each.ongoing]
    return [
        (state.topics[each.key[0]].name, str(each.key[1]), each)
        for each in heapq.nlargest(_MOST_PARTITIONS, waiting, key=_behind)
    ]


def _behind(partition: Partition) -> int:
    return partition.high_watermark - partition.last_stable_offset


def _blocked(seen: _Summed) -> Iterator[tuple[str, str, str, float]]:
    for topic, number, partition in _furthest_behind(seen.state):
        owner = seen.state.producers.get(next(iter(partition.ongoing)))
        if owner is None:
            yield topic, number, "", 0.0
        else:
            seconds = max(seen.now_ms - owner.start_time_ms, 0) / 1000
            yield topic, number, owner.transactional_id, seconds


def _imported(name: str, help_text: str, value: Callable[[ImportReport], int]) -> Metric[_Summed]:
    """Return a metric that sums `value` over the importers of each source."""

    def sums(seen: _Summed) -> list[tuple[str, int]]:
        found: Counter[str] = Counter()
        for report in seen.state.import_reports.values():
            found[report.source] += value(report)
        return sorted(found.items())

    return gauges(name, help_text, ("source",), sums)


_IMPORTS: Final = (
    _imported(
        "lacuna_import_workers",
        "Running importers, by the id of the cluster that they copy from.",
        lambda _: 1,
    ),
    _imported(
        "lacuna_import_partitions",
        "Partitions that importers copy.",
        lambda report: report.partitions,
    ),
    _imported(
        "lacuna_import_partitions_stopped",
        "Partitions that importers cannot copy any further. The importers' output gives the reason.",
        lambda report: report.stopped,
    ),
    _imported(
        "lacuna_import_lag_offsets",
        "Offsets that are decided at the source of an import but not copied yet.",
        lambda report: report.lag,
    ),
    _imported(
        "lacuna_import_undecided_offsets",
        "Offsets in or after transactions that are open at the source of an import.",
        lambda report: report.undecided,
    ),
    _imported(
        "lacuna_import_copied_bytes",
        "Bytes that the running importers have copied since they started.",
        lambda report: report.bytes_copied,
    ),
)
_STATE: Final[tuple[Metric[_Summed], ...]] = (
    gauge("lacuna_agents", "Agents with a lease.", lambda seen: len(seen.state.leased_agents())),
    gauge(
        "lacuna_agents_hidden",
        "Hidden agents: they have a lease, but clients are sent to other agents.",
        lambda seen: len(seen.state.hidden_leases),
    ),
    gauge("lacuna_leases", "Leases of agents and jobs.", lambda seen: len(seen.state.leases)),
    *_IMPORTS,
    gauge("lacuna_topics", "Topics.", lambda seen: len(seen.state.topics)),
    gauge("lacuna_partitions", "Partitions.", lambda seen: len(seen.state.partitions)),
    gauge("lacuna_objects", "Objects with live records.", lambda seen: seen.sums.objects),
    gauge("lacuna_extents", "Extents in the index.", lambda seen: seen.sums.extents),
    gauge(
        "lacuna_dead_ranges",
        "Offset ranges of aborted records in the index.",
        lambda seen: seen.sums.dead_ranges,
    ),
    gauges(
        "lacuna_topic_size_bytes",
        "Bytes of a topic's records in the bucket.",
        ("topic",),
        lambda seen: _of_topics(seen, lambda partition: partition.size_bytes),
    ),
    counters(
        "lacuna_topic_offsets",
        "Offsets assigned in a topic, including those of aborted records.",
        ("topic",),
        lambda seen: _of_topics(seen, lambda partition: partition.high_watermark),
    ),
    gauge(
        "lacuna_idempotent_producers",
        "Known producers, counted once per partition.",
        lambda seen: seen.state.windows.count,
    ),
    gauge(
        "lacuna_idempotent_producers_limit",
        "The limit on known producers (producer.windows.max). Beyond it, the least recently used ones are dropped.",
        lambda seen: seen.state.windows.settings.producer_windows_max,
    ),
    gauge(
        "lacuna_unsettled_transaction_ranges",
        "Ranges of committed transactions, one per partition, before which a cut may have to end. "
        "Beyond about ten thousand ranges, earlier transactions are joined, so cuts may be lower than necessary.",
        lambda seen: seen.state.unsettled.count,
    ),
    gauges(
        "lacuna_transactional_ids",
        "Transactional ids by state.",
        ("state",),
        _transactional_ids,
    ),
    gauge(
        "lacuna_oldest_transaction_seconds",
        "Age of the oldest ongoing transaction; 0 if there is none.",
        lambda seen: seen.sums.oldest_transaction_ms / 1000,
    ),
    gauge(
        "lacuna_partitions_blocked",
        "Partitions with records that are waiting for the end of a transaction.",
        lambda seen: seen.sums.partitions_blocked,
    ),
    gauges(
        "lacuna_lso_lag",
        "Offsets between the last stable offset and the high watermark, for the partitions with the most such offsets.",
        ("topic", "partition"),
        lambda seen: [(*place, _behind(each)) for *place, each in _furthest_behind(seen.state)],
    ),
    gauges(
        "lacuna_lso_blocked_seconds",
        "Age of the transaction that holds back the last stable offset, for the same partitions as lacuna_lso_lag.",
        ("topic", "partition", "transactional_id"),
        _blocked,
    ),
    counters(
        "lacuna_rewrites",
        "Replacements of a partition's extents, by agents' merges or by compaction.",
        ("by",),
        lambda seen: [(by, done.swaps) for by, done in _by_work(seen)],
    ),
    counters(
        "lacuna_rewritten_extents",
        "Extents before and after rewrites.",
        ("by", "side"),
        lambda seen: [
            (by, side, extents)
            for by, done in _by_work(seen)
            for side, extents in (("before", done.extents_before), ("after", done.extents_after))
        ],
    ),
    counters(
        "lacuna_rewritten_bytes",
        "Bytes of replaced extents, and of the extents that replaced them. The difference is reclaimed.",
        ("by", "side"),
        lambda seen: [
            (by, side, size)
            for by, done in _by_work(seen)
            for side, size in (("before", done.bytes_before), ("after", done.bytes_after))
        ],
    ),
    counters(
        "lacuna_reclaimed_aborted_offsets",
        "Offsets of aborted records that merges or compaction removed.",
        ("by",),
        lambda seen: [(by, done.aborted_offsets) for by, done in _by_work(seen)],
    ),
    counter(
        "lacuna_rewrites_refused",
        "Rewrites of partitions that were rejected because the extents had changed after the rewrite was planned.",
        lambda seen: seen.state.rewriting.refused,
    ),
    counter(
        "lacuna_deleted_objects",
        "Replaced objects that have been deleted from the bucket.",
        lambda seen: seen.state.rewriting.objects_deleted,
    ),
    counter(
        "lacuna_deleted_bytes",
        "Bytes of deleted objects.",
        lambda seen: seen.state.rewriting.bytes_deleted,
    ),
    gauge(
        "lacuna_replaced_objects",
        "Replaced objects that have not been deleted yet.",
        lambda seen: len(seen.state.segments.replaced),
    ),
    gauge(
        "lacuna_hot_bytes",
        "Bytes of hot segments that the journal holds until merging has moved them to the bucket.",
        lambda seen: seen.state.hot_intake.kept_bytes,
    ),
    gauge(
        "lacuna_hot_limit_bytes",
        "The limit on bytes of hot segments (hot.max.bytes). Beyond it, agents write their segments to the bucket.",
        lambda seen: seen.state.hot_intake.max_bytes,
    ),
    counter(
        "lacuna_hot_refused",
        "Segments that agents wrote to the bucket instead of the journal because hot.max.bytes "
        "or hot.bytes.per.second was exceeded.",
        lambda seen: seen.state.hot_intake.refused,
    ),
    gauge(
        "lacuna_groups_kept_bytes",
        "Total bytes that groups store in the control plane.",
        lambda seen: seen.state.groups.kept_bytes,
    ),
    gauge(
        "lacuna_groups_kept_limit_bytes",
        "The limit on bytes that all groups store (groups.max.bytes). Beyond it, members and offsets are rejected.",
        lambda seen: seen.state.groups.settings.groups_max_bytes,
    ),
    gauge(
        "lacuna_groups_kept_principal_bytes",
        "Bytes that the groups of the largest principal store. The anonymous principal is not counted.",
        lambda seen: max(seen.state.groups.owners.held.values(), default=0),
    ),
    gauge(
        "lacuna_groups_kept_principal_limit_bytes",
        "The limit on bytes that one principal's groups store (principal.max.percent). "
        "Beyond it, the principal's members and offsets are rejected.",
        lambda seen: seen.state.groups.settings.share_of(
            seen.state.groups.settings.groups_max_bytes
        ),
    ),
    gauge(
        "lacuna_transactional_ids_kept_bytes",
        "Bytes that all transactional ids together store in the control plane.",
        lambda seen: seen.state.id_owners.size,
    ),
    gauges(
        "lacuna_groups",
        "Groups in memory by protocol and state.",
        ("type", "state"),
        _groups,
    ),
    gauges(
        "lacuna_share_records",
        "Records that share groups have not finished, by state: acquired by a member, available again, or waiting for "
        "the dead-letter queue.",
        ("state",),
        _share_records,
    ),
    counters(
        "lacuna_share_records_decided",
        "Records of share groups by outcome: acquired, acknowledged in one of the ways that KIP-932 "
        "defines, or given back because a lock timed out or a member left. Records that the group "
        "gave up on are buried in the dead-letter queue, or lost because the queue could not be used.",
        ("what",),
        lambda seen: sorted(seen.state.groups.shared.items()),
    ),
)


@dataclass(slots=True)
class _Waiting:
    """Records waiting to be merged."""

    extents: int = 0
    aborted_offsets: int = 0
    aborted_bytes: int = 0
    left_out: int = 0


async def _waiting_in(state: State) -> _Waiting:
    partitions = list(islice(state.partitions.values(), _MOST_WAITING))
    sums = _Waiting(left_out=len(state.partitions) - len(partitions))
    for count, partition in enumerate(partitions, 1):
        waiting = waiting_in(partition, state.rewriting.small_bytes)
        sums.extents += waiting.small_extents
        sums.aborted_offsets += waiting.aborted_offsets
        sums.aborted_bytes += waiting.aborted_bytes
        if not count % _AT_A_TIME:
            await asyncio.sleep(0)
    return sums


_WAITING: Final[tuple[Metric[_Waiting], ...]] = (
    gauge(
        "lacuna_merge_waiting_extents",
        "Extents below the last stable offset that are small enough to be merged.",
        lambda waiting: waiting.extents,
    ),
    gauge(
        "lacuna_merge_waiting_aborted_offsets",
        "Offsets of aborted records that are still stored.",
        lambda waiting: waiting.aborted_offsets,
    ),
    gauge(
        "lacuna_merge_waiting_aborted_bytes",
        "Bytes of aborted records that are still stored.",
        lambda waiting: waiting.aborted_bytes,
    ),
    gauge(
        "lacuna_merge_waiting_left_out",
        "Partitions left out of the lacuna_merge_waiting metrics, because there are too many.",
        lambda waiting: waiting.left_out,
    ),
)


class _Dirt(NamedTuple):
    """For compacted topics: the bytes that are waiting for a pass, the greatest age of these, and the partitions left
    out.
    """

    size: int = 0
    seconds: float = 0.0
    left_out: int = 0


async def _dirt_in(state: State, now_ms: int) -> _Dirt:
    candidates = [(topic, each) for topic in state.topics.values() for each in compacted(topic)]
    size = oldest_ms = 0
    for count, (topic, partition) in enumerate(candidates[:_MOST_WAITING], 1):
        dirt = dirt_in(state, partition, topic, 0, now_ms)
        size += dirt.size
        oldest_ms = min(oldest_ms or dirt.since_ms, dirt.since_ms or oldest_ms)
        if not count % _AT_A_TIME:
            await asyncio.sleep(0)
    seconds = max(now_ms - oldest_ms, 0) / 1000 if oldest_ms else 0.0
    return _Dirt(size, seconds, max(0, len(candidates) - _MOST_WAITING))


_DIRT: Final[tuple[Metric[_Dirt], ...]] = (
    gauge(
        "lacuna_clean_waiting_bytes",
        "Bytes of compacted topics that no pass has compacted yet, though their configs allow it.",
        lambda dirt: dirt.size,
    ),
    gauge(
        "lacuna_clean_waiting_seconds",
        "Age of the oldest record counted in lacuna_clean_waiting_bytes.",
        lambda dirt: dirt.seconds,
    ),
    gauge(
        "lacuna_clean_waiting_left_out",
        "Partitions left out of the lacuna_clean_waiting metrics, because there are too many.",
        lambda dirt: dirt.left_out,
    ),
)


class _Lag(NamedTuple):
    group_id: str
    topic: str
    partition: str
    committed: int
    offsets: int
    seconds: float

    @property
    def labels(self) -> tuple[str, str, str]:
        return self.group_id, self.topic, self.partition


class _Lags:
    """The lags of groups in partitions, up to a maximum number of them, and the total lag of each group."""

    def __init__(self, left_out: int) -> None:
        self.left_out = left_out
        self.of_partitions: list[_Lag] = []
        self.sums: dict[str, int] = {}
        self.most_seconds: dict[str, float] = {}

    def add(self, lag: _Lag) -> None:
        group = lag.group_id
        self.sums[group] = self.sums.get(group, 0) + lag.offsets
        self.most_seconds[group] = max(self.most_seconds.get(group, 0.0), lag.seconds)
        if len(self.of_partitions) < _MOST_GROUP_PARTITIONS:
            self.of_partitions.append(lag)


def _positions(state: State) -> list[tuple[str, PartitionKey, int]]:
    """Return the committed offsets of groups in partitions, up to a maximum number of them."""
    committed = (
        (group_id, key, stored.offset)
        for group_id, offsets in sorted(state.groups.offsets.committed.items())
        for key, stored in offsets.items()
    )
    return list(islice(committed, _MOST_LAGS))


async def _lags_in(state: State, now_ms: int) -> _Lags:
    all_offsets = sum(map(len, state.groups.offsets.committed.values()))
    lags = _Lags(max(all_offsets - _MOST_LAGS, 0))
    known: dict[tuple[PartitionKey, int], Behind] = {}
    for count, (group_id, key, offset) in enumerate(_positions(state)):
        if count % _AT_A_TIME == _AT_A_TIME - 1:
            await asyncio.sleep(0)
        partition = state.partitions.get(key)
        if partition is None:
            continue  # the topic was deleted in the meantime
        lag = known.get((key, offset))
        if lag is None:
            lag = known[key, offset] = behind(partition, offset)
        topic = state.topics[key[0]].name
        lags.add(_Lag(group_id, topic, str(key[1]), offset, lag.offsets, lag.seconds(now_ms)))
    return lags


#: These metrics have the names that other lag exporters use.
_LAGS: Final[tuple[Metric[_Lags], ...]] = (
    gauges(
        "kafka_consumergroup_current_offset",
        "Committed offset.",
        ("consumergroup", "topic", "partition"),
        lambda lags: [(*each.labels, each.committed) for each in lags.of_partitions],
    ),
    gauges(
        "kafka_consumergroup_lag",
        "Offsets that a read_committed consumer has not read yet, not counting holes, aborted records or control "
        "records.",
        ("consumergroup", "topic", "partition"),
        lambda lags: [(*each.labels, each.offsets) for each in lags.of_partitions],
    ),
    gauges(
        "kafka_consumergroup_lag_seconds",
        "Age of the oldest unread record.",
        ("consumergroup", "topic", "partition"),
        lambda lags: [(*each.labels, each.seconds) for each in lags.of_partitions],
    ),
    gauge(
        "lacuna_lags_left_out",
        "Committed offsets without a lag metric, because there are too many.",
        lambda lags: lags.left_out,
    ),
    gauges(
        "kafka_consumergroup_lag_sum",
        "The group's lag, summed over all partitions.",
        ("consumergroup",),
        lambda lags: lags.sums.items(),
    ),
    gauges(
        "kafka_consumergroup_max_lag_seconds",
        "The group's largest lag in seconds in any partition.",
        ("consumergroup",),
        lambda lags: lags.most_seconds.items(),
    ),
)

METRICS: Final[tuple[Metric[Any], ...]] = (
    *_ANY,
    *_NODE,
    *_RUNTIME,
    *_STATE,
    *_WAITING,
    *_DIRT,
    *_LAGS,
)
"""The metrics of a control plane, one row each."""
