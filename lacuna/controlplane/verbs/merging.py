"""PlanMerge: finds runs of small or dead extents to rewrite as larger objects."""

from collections.abc import Iterator, Sequence, Set
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.live import live_mask
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.shared.topic_configs import effective, is_compacted
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.segments import SegmentKey
from lacuna.controlplane.state.settings import MERGE_PARTITIONS, MERGE_SCAN, MERGE_WINDOW
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.log_pb2 import MergePlan, MergePlanPartition, PlanMerge
from lacuna.controlplane.verbs.compaction import first_young
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb
from lacuna.logstore.segments.hot import is_hot

#: Rounds for hot extents begin twice in the age that records must have.
_PAUSES_AN_AGE: Final = 2


def plan_merge(turn: Turn, command: PlanMerge) -> Reply:
    """Plan a merge over partitions, continuing after the last plan, without partitions that another agent is merging.

    Hot extents wait until there are many of them, for the next round, or until the journal is half full.

    This changes nothing durable. The following swap is fenced by the extents themselves.
    """
    state = turn.state
    if command.lease_id not in state.leases:
        return Reply(merge_plan=MergePlan(error_code=ErrorCode.LEASE_EXPIRED))
    state.rewriting.small_bytes = command.small_bytes
    min_age_ms, now_ms = command.min_age_ms, turn.now_ms
    horizons = state.merge_horizons
    horizons.move(state.partitions.values(), min_age_ms, now_ms)
    state.merges_under_way.forget_old(now_ms)
    avoided = {(each.lease_id, each.sequence) for each in command.avoided}
    planned: list[MergePlanPartition] = []
    waiting: list[MergePlanPartition] = []
    bytes_left, extents_left = command.max_bytes, MERGE_SCAN
    state.hot_rounds.begin(len(state.partitions), min_age_ms // _PAUSES_AN_AGE, now_ms)
    for partition in _in_turn(state):
        found = len(planned) + len(waiting)
        if bytes_left <= 0 or extents_left <= 0 or found >= MERGE_PARTITIONS:
            break
        state.merge_cursor += 1
        is_of_round = state.hot_rounds.visit(now_ms)
        if state.merges_under_way.is_of_another(partition.key, command.lease_id, state.leases):
            continue
        extents_left -= 1 + min(len(partition.extents), MERGE_WINDOW)
        end_offset = partition.last_stable_offset
        if min_age_ms > 0:
            end_offset = horizons.stable_for(partition.key, min_age_ms, now_ms)
        cleaned_to = state.cleanings.end_offset(partition.key, now_ms)
        keeps_dead = bool(state.topics[partition.key[0]].mirror_source)
        run = _find_run(
            partition, command, bytes_left, cleaned_to, end_offset, avoided, keeps_dead=keeps_dead
        )
        if run is not None:
            plan = _plan(partition, *run)
            plan.superseded_to = _superseded_to(turn, partition, *run)
            has_hot = any(map(is_hot, plan.extents.lease_ids))
            if has_hot and is_of_round:
                state.hot_rounds.found(len(state.partitions))
            is_due = is_of_round or state.hot_intake.is_half_full or not has_hot
            (planned if is_due else waiting).append(plan)
            bytes_left -= sum(plan.extents.sizes)
    extents_waiting = sum(len(plan.extents.sizes) for plan in waiting)
    if bytes_left <= command.max_bytes // 2 or extents_waiting >= MERGE_WINDOW // 2:
        planned += waiting
    for plan in planned:
        state.merges_under_way.begin(key_of(plan.partition), command.lease_id, now_ms)
    return Reply(merge_plan=MergePlan(partitions=planned))


def _in_turn(state: State) -> Iterator[Partition]:
    """Return each partition once, beginning where the last plan stopped."""
    partitions = list(state.partitions.values())
    if not partitions:
        return iter(())
    state.merge_cursor %= len(partitions)
    return iter(partitions[state.merge_cursor :] + partitions[: state.merge_cursor])


def _find_run(
    partition: Partition,
    command: PlanMerge,
    max_bytes: int,
    cleaned_to: int,
    end_offset: int,
    avoided: Set[SegmentKey],
    *,
    keeps_dead: bool,
) -> tuple[int, int] | None:
    """Return the indexes [start, stop) of the first run in [cleaned_to, end_offset) that is worth merging, or None.

    A run is worth merging if it has enough extents or a dead one. Otherwise, if it has hot extents, whose bytes are to
    leave the journal, it is reduced to these, so that what was merged lately is not written again with every few
    records. Its live bytes are at most `max_bytes`, and none of them is in one of the `avoided` segments. Only the
    newest MERGE_WINDOW extents are examined. Older ones were examined before, and re-enter the window as newer ones
    are merged.

    A mirror keeps its dead extents, since its importer was told to copy aborted records: a run of it ends before one.
    """
    extents = partition.extents
    end = extents.first_ending_after(end_offset)
    least = max(1, command.min_extents)
    start = min(end, max(0, end - MERGE_WINDOW, extents.first_at_or_after(cleaned_to)))
    hot = [*map(is_hot, extents.lease_ids[start:end])]
    if end - start < least and not len(partition.dead) and not any(hot):
        return None
    run_start, run_bytes, has_dead = start, 0, False
    is_live = live_mask(extents, partition.dead, start, end)
    for index in range(start, end):
        size = extents.sizes[index]
        is_dead = not is_live[index - start]
        is_candidate = (
            not keeps_dead
            if is_dead
            else (size < command.small_bytes or hot[index - start])
            and (not avoided or (extents.lease_ids[index], extents.sequences[index]) not in avoided)
        )
        added = 0 if is_dead else size
        if is_candidate and run_bytes + added <= max_bytes:
            run_bytes += added
            has_dead = has_dead or is_dead
            continue
        if index - run_start >= least or has_dead:
            return run_start, index
        if any(hot[run_start - start : index - start]):
            return _hot_part(hot, start, run_start, index)
        run_start, run_bytes, has_dead = index + 1, 0, False
    if end - run_start >= least or has_dead:
        return run_start, end
    return _hot_part(hot, start, run_start, end) if any(hot[run_start - start :]) else None


def _superseded_to(turn: Turn, partition: Partition, start: int, stop: int) -> int:
    """Return the offset below which later records of a merge supersede earlier ones; 0 if none may."""
    configs = turn.state.topics[partition.key[0]].configs
    if not is_compacted(configs) or turn.context.is_time_doubtful:
        return 0
    if lag_ms := int(effective(configs, "min.compaction.lag.ms")):
        stop = first_young(partition, start, stop, turn.now_ms - lag_ms)
    return partition.extents.next_offsets[stop - 1] if start < stop else 0


def _hot_part(hot: Sequence[bool], start: int, run_start: int, run_end: int) -> tuple[int, int]:
    """Return where the first hot extent of a run is, and where the last one ends; `hot` begins at index `start`."""
    first, last = run_start, run_end - 1
    while not hot[first - start]:
        first += 1
    while not hot[last - start]:
        last -= 1
    return first, last + 1


def _plan(partition: Partition, start: int, stop: int) -> MergePlanPartition:
    extents = partition.extents
    first_offset, end_offset = extents.base_offsets[start], extents.next_offsets[stop - 1]
    dead = partition.dead.within(first_offset, end_offset)
    return MergePlanPartition(
        partition=partition.message,
        first_offset=first_offset,
        end_offset=end_offset,
        extents=extents.slice(start, stop),
        dead_first_offsets=dead.firsts,
        dead_end_offsets=dead.ends,
    )


VERBS: Final = (Verb(plan_merge, looks=True),)
