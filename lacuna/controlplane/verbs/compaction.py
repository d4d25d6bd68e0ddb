"""PlanCompaction: chooses the extents of a partition that a job should rewrite, and the fence for their swap.

docs/adr/0012-compaction-plans.md explains when a compacted topic is worth rewriting, and where a range may be cut.
"""

from collections.abc import Iterator
from itertools import compress, count, repeat
from operator import lt
from typing import Final

from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.extents import (
    FLAG_LOG_APPEND_TIME,
    LARGEST_EXTENT_BYTES,
    fence_of,
)
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.shared.rights import Need, on_topics
from lacuna.controlplane.shared.topic_configs import effective, is_compacted
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.settings import COMPACTION_EXTENTS
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.log_pb2 import CompactionPlan, CompactionRange, PlanCompaction
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

#: Indexes [start, stop) of the extents to rewrite.
_Run = tuple[int, int]


def plan_compaction(turn: Turn, command: PlanCompaction) -> Reply:
    """Plan at most one range per partition. Nothing durable changes."""
    if not command.partitions:
        raise MalformedCommand("a compaction plan must name at least one partition")
    if len(set(map(key_of, command.partitions))) != len(command.partitions):
        raise MalformedCommand("a compaction plan must name each partition only once")
    if command.small_bytes < 0 or command.max_extents < 0 or command.min_age_ms < 0:
        raise MalformedCommand("sizes, ages and bounds in a compaction plan must not be negative")
    from_offsets = command.from_offsets or [0] * len(command.partitions)
    if len(from_offsets) != len(command.partitions):
        raise MalformedCommand(
            "a compaction plan must have no from_offsets, or one for each partition"
        )
    if turn.context.is_time_doubtful:
        return Reply(compaction_plan=CompactionPlan(planned_at_ms=turn.now_ms))
    state = turn.state
    state.compaction_horizons.move(state.partitions.values(), command.min_age_ms, turn.now_ms)
    plan = CompactionPlan(planned_at_ms=turn.now_ms)
    left = min(command.max_extents or COMPACTION_EXTENTS, COMPACTION_EXTENTS)
    for at, wanted in enumerate(command.partitions):
        if left <= 0:
            plan.left_out.extend(command.partitions[at:])
            break
        partition = state.partitions.get(key_of(wanted))
        if partition is None:
            continue
        found = _plan_partition(state, partition, command, turn.now_ms, left, from_offsets[at])
        if found is not None:
            range_, extents = found
            plan.ranges.append(range_)
            left -= extents
    return Reply(compaction_plan=plan)


def _plan_partition(
    state: State,
    partition: Partition,
    command: PlanCompaction,
    now_ms: int,
    most: int,
    from_offset: int,
) -> tuple[CompactionRange, int] | None:
    configs = state.topics[partition.key[0]].configs
    end = partition.extents.first_ending_after(
        stable_end(state, partition, command.min_age_ms, now_ms)
    )
    if is_compacted(configs):
        lag_ms = int(effective(configs, "min.compaction.lag.ms"))
        clean = min(end, partition.extents.first_ending_after(partition.compacted_to))
        end = first_young(partition, clean, end, now_ms - lag_ms) if lag_ms else end
        run = _superseding_run(partition, command, end, now_ms, most, from_offset)
    else:
        run = _worth_run(partition, command, end, from_offset)
    if run is None:
        return None
    start, stop = run[0], min(run[1], run[0] + most)
    found = range_of(partition, start, stop, has_more=stop < run[1])
    found.cleanup_policy = effective(configs, "cleanup.policy")
    found.retention_ms = int(effective(configs, "retention.ms"))
    found.delete_retention_ms = int(effective(configs, "delete.retention.ms"))
    found.min_compaction_lag_ms = int(effective(configs, "min.compaction.lag.ms"))
    return found, stop - start


def stable_end(state: State, partition: Partition, min_age_ms: int, now_ms: int) -> int:
    """Return the offset up to which the partition has been stable for at least `min_age_ms`."""
    if not min_age_ms:
        return partition.last_stable_offset
    horizons = (state.merge_horizons, state.compaction_horizons)
    return max(each.stable_for(partition.key, min_age_ms, now_ms) for each in horizons)


def range_of(partition: Partition, start: int, stop: int, *, has_more: bool) -> CompactionRange:
    """Return the extents with index in [start, stop) and the fence for their swap, but not the topic's configs."""
    extents = partition.extents
    first_offset, end_offset = extents.base_offsets[start], extents.next_offsets[stop - 1]
    if not start:
        first_offset = min(first_offset, partition.log_start_offset)
    columns = extents.columns(start, stop)
    return CompactionRange(
        partition=partition.message,
        version=partition.version,
        first_offset=first_offset,
        end_offset=end_offset,
        extents=columns,
        dead=partition.dead.within(first_offset, end_offset).pairs(),
        fence=fence_of(columns),
        log_start_offset=partition.log_start_offset,
        last_stable_offset=partition.last_stable_offset,
        has_more=has_more,
        compacted_to=min(partition.compacted_to, end_offset),
    )


# Topics that are compacted by key.


def first_young(partition: Partition, start: int, end: int, youngest_ms: int) -> int:
    """Return the index of the first extent in [start, end) too young to compact, or `end` (min.compaction.lag.ms).

    The age of an extent without a timestamp is measured from when it became readable.
    """
    extents = partition.extents
    are_young = map(lt, repeat(youngest_ms), extents.max_timestamps[start:end])
    end = next(compress(count(start), are_young), end)
    start = max(start, extents.first_ending_after(partition.stable_at(youngest_ms)))
    are_undated = map(lt, extents.max_timestamps[start:end], repeat(0))
    return next(compress(count(start), are_undated), end)


def _superseding_run(
    partition: Partition,
    command: PlanCompaction,
    end: int,
    now_ms: int,
    most: int,
    from_offset: int,
) -> _Run | None:
    """Return the extents to compact by key.

    Unless the part that is already compacted would fill the whole plan, they begin at the log start, since a record
    supersedes all earlier ones with its key.
    """
    clean = min(end, partition.extents.first_ending_after(partition.compacted_to))
    is_due = 0 < partition.compact_again_ms <= now_ms
    if clean < end:
        return (0, end) if clean < most else (clean, end)
    if is_due and not from_offset:
        return (0, end) if end else None
    return _worth_run(partition, command, end, from_offset)


# All other topics: dead extents and small extents are worth rewriting.


def _worth_run(
    partition: Partition, command: PlanCompaction, end: int, from_offset: int
) -> _Run | None:
    """Return the run from the first to the last extent worth rewriting, from `from_offset` up to the index `end`."""
    first = partition.extents.first_ending_after(from_offset)
    if command.rewrites_all:
        return (first, end) if first < end else None
    start, stop = _dead_run(partition, first, end)
    small_bytes = command.small_bytes
    before = _small_ones(partition, small_bytes, range(first, start - 1))
    start = next((index for index in before if _is_joinable(partition, small_bytes, index)), start)
    behind = _small_ones(partition, small_bytes, range(end - 2, max(stop, start) - 1, -1))
    last = next((index for index in behind if _is_joinable(partition, small_bytes, index)), None)
    stop = stop if last is None else last + 2
    if start >= stop:
        return None
    return _with_small_neighbours(partition, small_bytes, (start, stop), (first, end))


def _dead_run(partition: Partition, first: int, end: int) -> _Run:
    """Return the smallest range that contains all dead extents in [first, end), or (end, 0) if there are none."""
    if first >= end or not len(partition.dead):
        return end, 0
    extents = partition.extents
    dead = partition.dead.within(extents.base_offsets[first], extents.next_offsets[end - 1])
    if not len(dead):
        return end, 0
    return extents.first_ending_after(dead.firsts[0]), extents.first_at_or_after(dead.ends[-1])


def _small_ones(partition: Partition, small_bytes: int, indexes: range) -> Iterator[int]:
    """Yield the indexes of small extents. This must be cheap for a million extents, few of which are small."""
    if not indexes:
        return iter(())
    lowest, highest = min(indexes[0], indexes[-1]), max(indexes[0], indexes[-1])
    sizes = partition.extents.sizes[lowest : highest + 1][:: indexes.step]
    return compress(indexes, map(lt, sizes, repeat(small_bytes)))


def _is_joinable(partition: Partition, small_bytes: int, index: int) -> bool:
    """Whether a small extent can be joined with the next one, which must be small and have the same timestamp type."""
    extents = partition.extents
    next_size = extents.sizes[index + 1]
    return (
        next_size < small_bytes
        and extents.sizes[index] + next_size <= LARGEST_EXTENT_BYTES
        and not (extents.flags[index] ^ extents.flags[index + 1]) & FLAG_LOG_APPEND_TIME
    )


def _with_small_neighbours(partition: Partition, small_bytes: int, run: _Run, bounds: _Run) -> _Run:
    """Extend a run by adjacent small extents, which may gain small neighbours once the dead extents are gone."""
    sizes = partition.extents.sizes
    (start, stop), (first, end) = run, bounds
    if start > first and sizes[start - 1] < small_bytes:
        start -= 1
    if stop < end and sizes[stop] < small_bytes:
        stop += 1
    return start, stop


def _needs(command: PlanCompaction, state: State) -> Iterator[Need]:
    yield from on_topics(Operation.READ, command.partitions, state)
    if command.is_for_swap:
        yield from on_topics(Operation.ALTER, command.partitions, state)


VERBS: Final = (Verb(plan_compaction, looks=True, needs=_needs),)
