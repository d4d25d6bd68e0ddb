"""The metrics of a control plane. Only the leader has those of the state; docs/metrics.md lists them."""

import asyncio
import heapq
from collections import Counter
from itertools import islice
from typing import Final

from lacuna.controlplane.node import Node
from lacuna.controlplane.runtime import Runtime, RuntimeSettings
from lacuna.controlplane.service import RunningControlPlane
from lacuna.controlplane.shared.log.behind import Behind, behind
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.shared_service import RunningNode
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.state import State
from lacuna.controlplane.state.totals import Totals, totals
from lacuna.controlplane.state.waiting import waiting_in
from lacuna.observing.endpoint import Observed
from lacuna.observing.families import Families

#: How many partitions are told apart, those whose last stable offset is furthest behind.
_MOST_PARTITIONS: Final = 50
#: How many partitions of groups are told apart; of further ones only the sums of their groups.
_MOST_GROUP_PARTITIONS: Final = 10_000
#: How many are looked at, which takes half a second; those that are left out are counted.
_MOST_LAGS: Final = 50_000
#: How many partitions are searched for what waits to be merged, which takes a second if there are many small extents.
_MOST_WAITING: Final = 10_000
#: After so many, which take a few milliseconds, others in the event loop have their turn.
_AT_A_TIME: Final = 256


def observe_control_plane(
    observed: Observed, running: RunningControlPlane | RunningNode, settings: RuntimeSettings
) -> None:
    """Have a process show a control plane."""

    async def add(families: Families) -> None:
        if isinstance(running, RunningNode):
            await add_node(families, running.node, settings)
        else:
            await add_leader(families, running.plane, settings)

    observed.shows(add)


async def add_leader(families: Families, plane: Runtime, settings: RuntimeSettings) -> None:
    """Add all metrics of a control plane that leads."""
    families.gauge("lacuna_controlplane_leader", "1 if this control plane leads.", 1)
    families.gauge(
        "lacuna_controlplane_time_doubtful",
        "1 while the clocks disagree with the control plane's time, and nothing is deleted by age.",
        plane.time.is_doubtful,
    )
    families.gauge(
        "lacuna_controlplane_clocks_ahead_seconds",
        "How far the clocks are ahead of the control plane's time; negative if they are behind.",
        plane.time.apart_ms / 1000,
    )
    _add_load(families, plane, settings)
    sums = totals(plane.state, plane.now_ms())
    _add_state(families, plane.state, sums)
    _add_transactions(families, plane.state, plane.now_ms(), sums)
    _add_rewriting(families, plane.state)
    await _add_waiting(families, plane.state)
    await _add_groups(families, plane.state, plane.now_ms())


async def add_node(families: Families, node: Node, settings: RuntimeSettings) -> None:
    """Add all metrics of one of several control planes on a journal."""
    if node.plane is not None:
        await add_leader(families, node.plane, settings)
    else:
        families.gauge("lacuna_controlplane_leader", "1 if this control plane leads.", 0)
    status = node.status()
    families.gauge("lacuna_controlplane_epoch", "The leader's epoch.", status.epoch)
    families.gauge(
        "lacuna_controlplane_caught_up",
        "1 if this control plane leads, or could take over at once.",
        node.is_ready,
    )
    for standby in status.standbys:
        families.gauge(
            "lacuna_controlplane_standby_lag_records",
            "How many records of the journal a standby has not replayed.",
            max(status.position - standby.position, 0),
            standby=standby.address,
        )


def _add_load(families: Families, plane: Runtime, settings: RuntimeSettings) -> None:
    load = plane.load()
    families.counter("lacuna_journal_records", "Decided records.", load.decided_position)
    families.gauge(
        "lacuna_journal_durable_position", "The last durable record.", load.durable_position
    )
    families.gauge(
        "lacuna_journal_pending_records",
        "Decided records whose write has not begun.",
        load.pending_records,
    )
    families.gauge("lacuna_journal_pending_bytes", "Bytes of these records.", load.pending_bytes)
    families.gauge(
        "lacuna_journal_pending_limit_bytes",
        "The limit of pending bytes. Beyond it, commands wait in the backlog.",
        settings.max_held_bytes,
    )
    families.gauge(
        "lacuna_journal_records_since_snapshot",
        "Approximate number of records after the last snapshot, which a restart would replay.",
        load.records_since_snapshot,
    )
    families.gauge(
        "lacuna_deliveries_held", "Replies and deltas that wait for the journal.", load.held
    )
    families.gauge(
        "lacuna_deliveries_held_limit",
        "The limit of held deliveries. Beyond it, commands wait.",
        settings.max_held,
    )
    families.gauge("lacuna_backlog_commands", "Commands in the backlog.", load.backlog)
    families.gauge(
        "lacuna_backlog_limit_commands",
        "The limit of the backlog. Beyond it, the control plane rejects commands.",
        settings.max_backlog,
    )
    families.gauge(
        "lacuna_longest_step_seconds",
        "The longest decision since the start, for a command or a tick. The control plane decides nothing else "
        "meanwhile.",
        load.longest_step_ms / 1000,
    )
    families.gauge("lacuna_sessions", "Sessions of agents and jobs.", load.sessions)
    families.gauge(
        "lacuna_subscriptions", "Partitions watched, counted for each session.", load.subscriptions
    )


def _add_state(families: Families, state: State, sums: Totals) -> None:
    families.gauge("lacuna_agents", "Agents with a lease.", len(state.leased_agents()))
    families.gauge(
        "lacuna_agents_hidden",
        "Hidden agents: they have a lease, but clients are sent to others.",
        len(state.hidden_leases),
    )
    families.gauge("lacuna_leases", "Leases of agents and jobs.", len(state.leases))
    families.gauge("lacuna_topics", "Topics.", len(state.topics))
    families.gauge("lacuna_partitions", "Partitions.", len(state.partitions))
    families.gauge("lacuna_objects", "Objects with live records.", sums.objects)
    families.gauge("lacuna_extents", "Extents in the index.", sums.extents)
    families.gauge(
        "lacuna_dead_ranges", "Ranges of offsets of aborted records in the index.", sums.dead_ranges
    )
    for topic in sorted(state.topics.values(), key=lambda topic: topic.name):
        families.gauge(
            "lacuna_topic_size_bytes",
            "Bytes of a topic's records in the bucket.",
            sum(each.size_bytes for each in topic.partitions),
            topic=topic.name,
        )
        families.counter(
            "lacuna_topic_offsets",
            "Offsets assigned in a topic, including aborted records.",
            sum(each.high_watermark for each in topic.partitions),
            topic=topic.name,
        )
    families.gauge(
        "lacuna_idempotent_producers",
        "Producers known in a partition, counted for each partition.",
        state.windows.count,
    )
    families.gauge(
        "lacuna_idempotent_producers_limit",
        "The limit of known producers (producer.windows.max). Beyond it, those unused for longest are dropped.",
        state.windows.settings.producer_windows_max,
    )


def _add_rewriting(families: Families, state: State) -> None:
    rewriting = state.rewriting
    for by, done in (
        ("merge", rewriting.total.merged),
        ("compaction", rewriting.total.compacted),
    ):
        families.counter(
            "lacuna_rewrites",
            "Replacements of a partition's extents, by agents' merges or by compaction.",
            done.swaps,
            by=by,
        )
        for side, extents, size in (
            ("before", done.extents_before, done.bytes_before),
            ("after", done.extents_after, done.bytes_after),
        ):
            families.counter(
                "lacuna_rewritten_extents",
                "Extents before and after rewrites.",
                extents,
                by=by,
                side=side,
            )
            families.counter(
                "lacuna_rewritten_bytes",
                "Bytes of replaced extents, and of the extents that replaced them; the difference is reclaimed.",
                size,
                by=by,
                side=side,
            )
        families.counter(
            "lacuna_reclaimed_aborted_offsets",
            "Offsets of aborted records that merges or compaction removed.",
            done.aborted_offsets,
            by=by,
        )
    families.counter(
        "lacuna_rewrites_refused",
        "Rewrites of partitions that were rejected because the extents had changed since the plan.",
        rewriting.refused,
    )
    families.counter(
        "lacuna_deleted_objects",
        "Replaced objects that were deleted from the bucket.",
        rewriting.objects_deleted,
    )
    families.counter("lacuna_deleted_bytes", "Bytes of deleted objects.", rewriting.bytes_deleted)
    families.gauge(
        "lacuna_replaced_objects",
        "Replaced objects that are not deleted yet.",
        len(state.segments.replaced),
    )


async def _add_waiting(families: Families, state: State) -> None:
    extents = offsets = size = 0
    partitions = list(islice(state.partitions.values(), _MOST_WAITING))
    for count, partition in enumerate(partitions, 1):
        waiting = waiting_in(partition, state.rewriting.small_bytes)
        extents += waiting.small_extents
        offsets += waiting.aborted_offsets
        size += waiting.aborted_bytes
        if not count % _AT_A_TIME:
            await asyncio.sleep(0)
    families.gauge(
        "lacuna_merge_waiting_extents",
        "Extents below the last stable offset that are small enough to be merged.",
        extents,
    )
    families.gauge(
        "lacuna_merge_waiting_aborted_offsets",
        "Offsets of aborted records that are still stored.",
        offsets,
    )
    families.gauge("lacuna_merge_waiting_aborted_bytes", "Bytes of these records.", size)
    families.gauge(
        "lacuna_merge_waiting_left_out",
        "Partitions that these three metrics leave out, because there are too many.",
        len(state.partitions) - len(partitions),
    )


def _add_transactions(families: Families, state: State, now_ms: int, sums: Totals) -> None:
    states = Counter(found.state.value for found in state.transactional_ids.values())
    for name in ("Empty", "Ongoing", "CompleteCommit", "CompleteAbort"):
        families.gauge(
            "lacuna_transactional_ids", "Transactional ids by state.", states[name], state=name
        )
    families.gauge(
        "lacuna_oldest_transaction_seconds",
        "Age of the oldest ongoing transaction; 0 without one.",
        sums.oldest_transaction_ms / 1000,
    )
    families.gauge(
        "lacuna_partitions_blocked",
        "Partitions with records that wait for the end of a transaction.",
        sums.partitions_blocked,
    )
    waiting = [each for each in state.partitions.values() if each.ongoing]
    for partition in heapq.nlargest(_MOST_PARTITIONS, waiting, key=_behind):
        labels = {
            "topic": state.topics[partition.key[0]].name,
            "partition": str(partition.key[1]),
        }
        owner = state.producers.get(next(iter(partition.ongoing)))
        families.gauge(
            "lacuna_lso_lag",
            "Offsets between the last stable offset and the high watermark, for the partitions with the most.",
            _behind(partition),
            **labels,
        )
        families.gauge(
            "lacuna_lso_blocked_seconds",
            "Age of the transaction that holds the last stable offset of these partitions.",
            max(now_ms - owner.start_time_ms, 0) / 1000 if owner is not None else 0.0,
            **labels,
            transactional_id="" if owner is None else owner.transactional_id,
        )


def _behind(partition: Partition) -> int:
    return partition.high_watermark - partition.last_stable_offset


async def _add_groups(families: Families, state: State, now_ms: int) -> None:
    families.gauge(
        "lacuna_groups_kept_bytes",
        "Bytes that all groups together store in the control plane.",
        state.groups.kept_bytes,
    )
    families.gauge(
        "lacuna_groups_kept_limit_bytes",
        "The limit of these bytes (groups.max.bytes). Beyond it, members and offsets are rejected.",
        state.groups.settings.groups_max_bytes,
    )
    families.gauge(
        "lacuna_groups_kept_principal_bytes",
        "Bytes that the groups of the largest principal store. The anonymous principal is not counted.",
        max(state.groups.owners.held.values(), default=0),
    )
    families.gauge(
        "lacuna_groups_kept_principal_limit_bytes",
        "The limit of these bytes (principal.max.percent). Beyond it, members and offsets of the principal are "
        "rejected.",
        state.groups.settings.share_of(state.groups.settings.groups_max_bytes),
    )
    families.gauge(
        "lacuna_transactional_ids_kept_bytes",
        "Bytes that all transactional ids together store in the control plane.",
        state.id_owners.size,
    )
    groups = state.groups
    kinds: Counter[tuple[str, str]] = Counter()
    for live in groups.live.groups.values():
        kinds["classic", live.state.value] += 1
    for group in groups.consumers.values():
        kinds["consumer", group.state.value] += 1
    for (kind, name), count in sorted(kinds.items()):
        families.gauge(
            "lacuna_groups", "Groups in memory by protocol and state.", count, type=kind, state=name
        )
    await _add_lags(families, state, now_ms)


def _positions(state: State) -> list[tuple[str, PartitionKey, int]]:
    """Return the committed offset of each group in each partition, by group, as far as they are looked at."""
    committed = (
        (group_id, key, stored.offset)
        for group_id, offsets in sorted(state.groups.offsets.committed.items())
        for key, stored in offsets.items()
    )
    return list(islice(committed, _MOST_LAGS))


async def _add_lags(families: Families, state: State, now_ms: int) -> None:
    """Add them under the names that exporters of lag use."""
    sums: dict[str, int] = {}
    most: dict[str, float] = {}
    known: dict[tuple[PartitionKey, int], Behind] = {}
    for count, (group_id, key, offset) in enumerate(_positions(state)):
        if count % _AT_A_TIME == _AT_A_TIME - 1:
            await asyncio.sleep(0)
        partition = state.partitions.get(key)
        if partition is None:
            continue  # it was deleted meanwhile
        lag = known.get((key, offset))
        if lag is None:
            lag = known[key, offset] = behind(partition, offset)
        seconds = lag.seconds(now_ms)
        sums[group_id] = sums.get(group_id, 0) + lag.offsets
        most[group_id] = max(most.get(group_id, 0.0), seconds)
        if count >= _MOST_GROUP_PARTITIONS:
            continue
        labels = {
            "consumergroup": group_id,
            "topic": state.topics[key[0]].name,
            "partition": str(key[1]),
        }
        families.gauge("kafka_consumergroup_current_offset", "Committed offset.", offset, **labels)
        families.gauge(
            "kafka_consumergroup_lag",
            "Offsets that a read_committed consumer has not read yet, without holes, aborted and control records.",
            lag.offsets,
            **labels,
        )
        families.gauge(
            "kafka_consumergroup_lag_seconds",
            "Age of the oldest unread records.",
            seconds,
            **labels,
        )
    all_offsets = sum(map(len, state.groups.offsets.committed.values()))
    families.gauge(
        "lacuna_lags_left_out",
        "Committed offsets without a lag metric, because there are too many.",
        max(all_offsets - _MOST_LAGS, 0),
    )
    for group_id, offsets in sums.items():
        families.gauge(
            "kafka_consumergroup_lag_sum",
            "Sum of the group's lag over all partitions.",
            offsets,
            consumergroup=group_id,
        )
        families.gauge(
            "kafka_consumergroup_max_lag_seconds",
            "The group's largest lag in seconds in any partition.",
            most[group_id],
            consumergroup=group_id,
        )
