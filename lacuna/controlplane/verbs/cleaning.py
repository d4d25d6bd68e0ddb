"""PlanCleaning, PlanCleaningRange and FinishCleaning: agents compact by key, one pass over a partition at a time.

docs/adr/0073-agents-compact-by-key.md explains why a pass is correct wherever it stops. Kafka's rules determine when a
pass begins.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.log.live import live_mask
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.shared.topic_configs import effective, is_compacted
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.settings import CLEANING_EXTENTS, CLEANING_SCAN, CLEANING_TOPICS
from lacuna.controlplane.state.state import State, TopicState
from lacuna.controlplane.v1.cluster_pb2 import Outcome
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, PartitionCleaned
from lacuna.controlplane.v1.log_pb2 import (
    CleaningPlan,
    CleaningRange,
    FinishCleaning,
    PlanCleaning,
    PlanCleaningRange,
)
from lacuna.controlplane.verbs.compaction import first_young, range_of, stable_end
from lacuna.controlplane.verbs.refusals import MalformedCommand
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb


class Dirt(NamedTuple):
    """The dirty part of a partition that can be cleaned now: the extents with index in [start, stop).

    `ratio` is their share of all bytes up to their end. `since_ms` is their oldest timestamp, or 0 if they have none.
    `is_due` means that max.compaction.lag.ms has passed, or that all tombstones in the clean part can be removed.
    """

    start: int
    stop: int
    size: int
    ratio: float
    since_ms: int
    is_due: bool

    def is_worth(self, least_ratio: float, min_bytes: int) -> bool:
        """Whether the partition is worth a pass."""
        return self.is_due or (self.size >= max(1, min_bytes) and self.ratio > least_ratio)


def dirt_in(
    state: State, partition: Partition, topic: TopicState, min_age_ms: int, now_ms: int
) -> Dirt:
    """Return the part of a partition's first CLEANING_SCAN dirty extents that can be cleaned."""
    extents, configs = partition.extents, topic.configs
    start = extents.first_ending_after(partition.compacted_to)
    stop = extents.first_ending_after(stable_end(state, partition, min_age_ms, now_ms))
    stop = min(max(start, stop), start + CLEANING_SCAN)
    if lag_ms := int(effective(configs, "min.compaction.lag.ms")):
        stop = first_young(partition, start, stop, now_ms - lag_ms)
    size = sum(extents.sizes[start:stop])
    clean_size = max(0, partition.size_bytes - sum(extents.sizes[start:]))
    since_ms = min((each for each in extents.max_timestamps[start:stop] if each > 0), default=0)
    is_late = 0 < since_ms < now_ms - int(effective(configs, "max.compaction.lag.ms"))
    is_due = is_late or 0 < partition.compact_again_ms <= now_ms
    return Dirt(start, stop, size, size / max(1, size + clean_size), since_ms, is_due)


def plan_cleaning(turn: Turn, command: PlanCleaning) -> Reply:
    """Choose the partition for an agent's next pass: one that is due or, if there is none, the one with the highest
    dirty ratio.

    Nothing durable changes. With many topics, each plan resumes where the previous one stopped.
    """
    state, now_ms = turn.state, turn.now_ms
    if command.lease_id not in state.leases:
        return Reply(cleaning_plan=CleaningPlan(error_code=ErrorCode.LEASE_EXPIRED))
    if command.min_age_ms < 0 or command.min_bytes < 0:
        raise MalformedCommand("ages and sizes in a cleaning plan must not be negative")
    state.cleanings.forget_old(now_ms)
    best: tuple[bool, float] | None = None
    plan = CleaningPlan(planned_at_ms=now_ms)
    for topic, partition in () if turn.context.is_time_doubtful else _candidates(state, command):
        dirt = dirt_in(state, partition, topic, command.min_age_ms, now_ms)
        least_ratio = float(effective(topic.configs, "min.cleanable.dirty.ratio"))
        rank = dirt.is_due, dirt.ratio
        if dirt.is_worth(least_ratio, command.min_bytes) and (best is None or rank > best):
            best = rank
            plan = _plan(topic, partition, dirt, now_ms)
    if plan.HasField("partition"):
        key = key_of(plan.partition)
        state.cleanings.go_on(key, command.lease_id, plan.end_offset, now_ms)
    return Reply(cleaning_plan=plan)


def _plan(topic: TopicState, partition: Partition, dirt: Dirt, now_ms: int) -> CleaningPlan:
    first_dirty = max(partition.compacted_to, partition.log_start_offset)
    stop = dirt.stop
    return CleaningPlan(
        partition=partition.message,
        planned_at_ms=now_ms,
        first_dirty_offset=first_dirty,
        end_offset=max(first_dirty, partition.extents.next_offsets[stop - 1] if stop else 0),
        delete_retention_ms=int(effective(topic.configs, "delete.retention.ms")),
        dirty_bytes=dirt.size,
    )


def _candidates(state: State, command: PlanCleaning) -> Iterator[tuple[TopicState, Partition]]:
    """Yield compacted partitions that no other agent is cleaning, until about CLEANING_SCAN extents are examined."""
    avoided = set(map(key_of, command.avoided))
    left = CLEANING_SCAN
    for topic in _in_turn(state):
        if left <= 0:
            return
        state.cleaning_cursor += 1
        left -= 1
        for partition in compacted(topic):
            left -= (
                1
                + len(partition.extents)
                - partition.extents.first_ending_after(partition.compacted_to)
            )
            key = partition.key
            if key not in avoided and not state.cleanings.is_of_another(
                key, command.lease_id, state.leases
            ):
                yield topic, partition


def compacted(topic: TopicState) -> Iterable[Partition]:
    """Return the topic's partitions if it is compacted by key, otherwise none."""
    return topic.partitions if is_compacted(topic.configs) else ()


def _in_turn(state: State) -> Iterator[TopicState]:
    """Return up to CLEANING_TOPICS topics, starting where the last plan stopped."""
    topics = list(state.topics.values())
    if not topics:
        return iter(())
    state.cleaning_cursor %= len(topics)
    start = state.cleaning_cursor
    return islice(iter(topics[start:] + topics[:start]), CLEANING_TOPICS)


def plan_cleaning_range(turn: Turn, command: PlanCleaningRange) -> Reply:
    """Return the next extents of a pass, with up to `max_bytes` bytes of live extents. Nothing durable changes."""
    state = turn.state
    if command.lease_id not in state.leases:
        return _no_range(ErrorCode.LEASE_EXPIRED)
    if not 0 <= command.from_offset <= command.end_offset or command.max_bytes < 1:
        raise MalformedCommand("a cleaning range must have offsets in order and a positive size")
    partition = state.partitions.get(key_of(command.partition))
    if partition is None:
        return _no_range(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not is_compacted(state.topics[partition.key[0]].configs):
        return _no_range(ErrorCode.PLAN_STALE)
    state.cleanings.go_on(partition.key, command.lease_id, command.end_offset, turn.now_ms)
    start, stop = _extents_of_range(partition, command)
    if start == stop:
        return Reply(cleaning_range=CleaningRange())
    return Reply(
        cleaning_range=CleaningRange(range=range_of(partition, start, stop, has_more=False))
    )


def _extents_of_range(partition: Partition, command: PlanCleaningRange) -> tuple[int, int]:
    """Return the indexes [start, stop) of the extents in one range, which is empty if they are equal."""
    extents = partition.extents
    stable = extents.first_ending_after(partition.last_stable_offset)
    start = extents.first_ending_after(max(command.from_offset, partition.log_start_offset))
    end = min(stable, extents.first_ending_after(command.end_offset), start + CLEANING_EXTENTS)
    if start >= end:
        # If an extent is left, it extends beyond the end of the pass.
        is_across = start < stable and extents.base_offsets[start] < command.end_offset
        return start, start + is_across
    left = command.max_bytes
    for index, is_live in enumerate(live_mask(extents, partition.dead, start, end), start):
        left -= extents.sizes[index] if is_live else 0
        if left < 0 and index > start:
            return start, index
    return start, end


def _no_range(code: ErrorCode) -> Reply:
    return Reply(cleaning_range=CleaningRange(error_code=code))


def finish_cleaning(turn: Turn, command: FinishCleaning) -> Reply:
    """Record the offset up to which a pass has cleaned a partition, unless it has already been cleaned further."""
    state = turn.state
    if command.lease_id not in state.leases:
        return Reply(cleaning_finished=Outcome(error_code=ErrorCode.LEASE_EXPIRED))
    if command.cleaned_to < 0 or command.clean_again_ms < 0:
        raise MalformedCommand("a cleaning's offset and time must not be negative")
    partition = state.partitions.get(key_of(command.partition))
    if partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return Reply(cleaning_finished=Outcome(error_code=code))
    state.cleanings.end(partition.key)
    cleaned_to = min(command.cleaned_to, partition.last_stable_offset)
    new = cleaned_to, command.clean_again_ms
    if cleaned_to >= partition.compacted_to and new != (
        partition.compacted_to,
        partition.compact_again_ms,
    ):
        cleaned = PartitionCleaned(
            partition=partition.message,
            compacted_to=cleaned_to,
            compact_again_ms=command.clean_again_ms,
        )
        turn.journal(JournalRecord(partition_cleaned=cleaned))
    return Reply(cleaning_finished=Outcome())


def replay_partition_cleaned(state: State, record: PartitionCleaned, _now_ms: int) -> None:
    partition = state.partitions[key_of(record.partition)]
    partition.compacted_to = record.compacted_to
    partition.compact_again_ms = record.compact_again_ms
    state.changed(partition)  # watchers know what may be missing at the front


VERBS: Final = (
    Verb(plan_cleaning, looks=True),
    Verb(plan_cleaning_range, looks=True),
    Verb(finish_cleaning),
)
REPLAYS: Final = (replay_partition_cleaned,)
