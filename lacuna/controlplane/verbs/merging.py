"""PlanMerge: finds runs of small or dead extents to rewrite into larger objects."""

from collections.abc import Iterator
from typing import Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import ExtentTable
from lacuna.controlplane.shared.log.choosing import DEAD, HOT, LARGE, find_run, kinds_of
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.shared.topic_configs import effective, is_compacted
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.settings import MERGE_EXTENTS, MERGE_PARTITIONS, MERGE_WINDOW
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.log_pb2 import CompactionRange, MergePlan, PlanMerge
from lacuna.controlplane.verbs.compaction import first_young, range_of
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb
from lacuna.logstore.segments.hot import is_hot

#: How many rounds for hot extents begin within the minimum age of records.
_PAUSES_AN_AGE: Final = 2
#: How many extents can be examined in the time it takes to plan one (unless segments are avoided), and how many can be
#: planned in the time of a visit.
_EXAMINED_AT_ONCE: Final = 64
_EXTENTS_A_VISIT: Final = 8


def plan_merge(turn: Turn, command: PlanMerge) -> Reply:
    """Plan a merge, continuing where the last plan ended and skipping partitions that another agent is merging.

    Hot extents wait until there are many, until the next round, or until the journal is half full. Nothing durable
    changes: the swap is fenced by the digest of the planned extents.
    """
    state, now_ms = turn.state, turn.now_ms
    if command.lease_id not in state.leases:
        return Reply(merge_plan=MergePlan(error_code=ErrorCode.LEASE_EXPIRED))
    state.rewriting.small_bytes = command.small_bytes
    state.merge_horizons.move(state.partitions.values(), command.min_age_ms, now_ms)
    state.merges_under_way.forget_old(now_ms)
    state.hot_rounds.begin(len(state.partitions), command.min_age_ms // _PAUSES_AN_AGE, now_ms)
    planner = _Planner(turn, command)
    visited: set[PartitionKey] = set()
    while not planner.is_full and len(visited) < len(state.partitions):
        key = state.merge_turn.next(state.partitions)
        # A key recurs if the next round has begun, because partitions were created during this one.
        if key in visited:
            break
        visited.add(key)
        planner.visit(state.partitions[key])
    planned = planner.due()
    for plan in planned:
        state.merges_under_way.begin(key_of(plan.partition), command.lease_id, now_ms)
    return Reply(merge_plan=MergePlan(partitions=planned))


class _Planner:
    """A plan under construction, and the room left in it."""

    def __init__(self, turn: Turn, command: PlanMerge) -> None:
        self._turn = turn
        self._command = command
        self._avoided = {(each.lease_id, each.sequence) for each in command.avoided}
        self._planned: list[CompactionRange] = []
        self._waiting: list[CompactionRange] = []
        self._bytes_left = command.max_bytes
        self._extents_left = MERGE_EXTENTS
        self._extents_waiting = 0

    @property
    def is_full(self) -> bool:
        partitions = len(self._planned) + len(self._waiting)
        left = min(self._bytes_left, self._extents_left, MERGE_PARTITIONS - partitions)
        return left <= 0

    def due(self) -> list[CompactionRange]:
        is_much = (
            self._bytes_left <= self._command.max_bytes // 2
            or self._extents_waiting >= MERGE_WINDOW // 2
        )
        return self._planned + self._waiting if is_much else self._planned

    def visit(self, partition: Partition) -> None:
        """Add a run of the partition if one is worth merging."""
        state, now_ms = self._turn.state, self._turn.now_ms
        examined = min(len(partition.extents), MERGE_WINDOW)
        examining = examined // (1 if self._avoided else _EXAMINED_AT_ONCE)
        self._extents_left -= (_EXTENTS_A_VISIT if examined else 1) + examining
        is_of_round = state.hot_rounds.visit(now_ms)
        lease_id = self._command.lease_id
        is_of_another = state.merges_under_way.is_of_another(partition.key, lease_id, state.leases)
        if is_of_another or not examined:
            return
        start, stop = self._find_run(partition)
        if start == stop:
            return
        size = sum(partition.extents.sizes[start:stop])
        state.merge_turn.found(stop - start, size)
        plan = range_of(partition, start, stop, has_more=False)
        plan.superseded_to = _superseded_to(self._turn, partition, start, stop)
        has_hot = any(map(is_hot, partition.extents.lease_ids[start:stop]))
        if has_hot and is_of_round:
            state.hot_rounds.found(len(state.partitions))
        if is_of_round or state.hot_intake.is_half_full or not has_hot:
            self._planned.append(plan)
        else:
            self._waiting.append(plan)
            self._extents_waiting += stop - start
        self._bytes_left -= size
        self._extents_left -= stop - start

    def _find_run(self, partition: Partition) -> tuple[int, int]:
        """Return the indexes [start, stop) of the first run worth merging; an empty range if there is none.

        Only the newest MERGE_WINDOW extents that are old enough and not being cleaned are examined; older ones re-enter
        the window as newer ones are merged. A run ends before a live extent of an avoided segment. In a mirror, it also
        ends before a dead extent, since it is there only because the importer was configured to copy aborted records.

        If many partitions have runs, the runs are short and of equal length, so that one plan covers many partitions
        with extents in the same objects.
        """
        state, command, now_ms = self._turn.state, self._command, self._turn.now_ms
        end_offset = partition.last_stable_offset
        if command.min_age_ms > 0:
            end_offset = state.merge_horizons.stable_for(partition.key, command.min_age_ms, now_ms)
        extents = partition.extents
        stop = extents.first_ending_after(end_offset)
        cleaned = extents.first_at_or_after(state.cleanings.end_offset(partition.key, now_ms))
        start = min(stop, max(0, stop - MERGE_WINDOW, cleaned))
        kinds = kinds_of(extents, partition.dead, start, stop, command.small_bytes)
        for index in self._avoided_in(extents, start, stop):
            if kinds[index - start] != DEAD:
                kinds[index - start] = LARGE
        least = max(1, command.min_extents)
        if stop - start < least and DEAD not in kinds and HOT not in kinds:
            return stop, stop
        first, last = find_run(
            kinds,
            extents.sizes[start:stop],
            least,
            state.merge_turn.most(least, command.small_bytes, MERGE_EXTENTS),
            self._bytes_left,
            bool(state.topics[partition.key[0]].mirror_source),
        )
        return start + first, start + last

    def _avoided_in(self, extents: ExtentTable, start: int, stop: int) -> Iterator[int]:
        """Yield the indexes in [start, stop) of extents in avoided segments."""
        if self._avoided:
            rows = zip(extents.lease_ids[start:stop], extents.sequences[start:stop], strict=True)
            yield from (start + at for at, segment in enumerate(rows) if segment in self._avoided)


def _superseded_to(turn: Turn, partition: Partition, start: int, stop: int) -> int:
    """Return the offset below which later records in a merge supersede earlier ones, or 0 if they must not."""
    configs = turn.state.topics[partition.key[0]].configs
    if not is_compacted(configs) or turn.context.is_time_doubtful:
        return 0
    if lag_ms := int(effective(configs, "min.compaction.lag.ms")):
        stop = first_young(partition, start, stop, turn.now_ms - lag_ms)
    return partition.extents.next_offsets[stop - 1] if start < stop else 0


VERBS: Final = (Verb(plan_merge, looks=True),)
