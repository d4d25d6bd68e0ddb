"""Applies retention.ms and retention.bytes, to a few partitions per tick."""

from collections.abc import Iterator

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.shared.topic_configs import effective, is_deleted_by_retention
from lacuna.controlplane.state.front import Expiry, retention_ms_of
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.settings import (
    RETENTION_CHECK_MS,
    RETENTION_EXTENTS,
    RETENTION_SCAN,
)
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.journal_pb2 import LogStartMove
from lacuna.controlplane.verbs.housekeeping import log_starts_moved
from lacuna.controlplane.verbs.turn import Turn


def tick_retention(turn: Turn) -> None:
    """Remove expired extents from the front of each log, up to the last stable offset.

    A tick checks at most RETENTION_SCAN partitions and removes at most RETENTION_EXTENTS extents, so its cost does not
    grow with the cluster. The next tick continues.
    """
    state = turn.state
    moves: list[LogStartMove] = []
    limits: dict[bytes, _Limits] = {}
    left = RETENTION_EXTENTS
    for partition in _in_turn(state):
        topic_id = partition.key[0]
        if topic_id not in limits:
            limits[topic_id] = _limits_of(state.topics[topic_id].configs)
        retention_ms, retention_bytes = limits[topic_id]
        oldest_ms = _oldest_ms(state, partition.key, retention_ms, turn.now_ms)
        if turn.context.is_time_doubtful:
            oldest_ms = None
        removed = _count_past(partition, oldest_ms, retention_bytes, left)
        if oldest_ms is not None and removed < left:
            state.retention_ages[partition.key] = turn.now_ms
        if removed:
            offset = partition.extents.next_offsets[removed - 1]
            moves.append(LogStartMove(partition=partition.message, log_start_offset=offset))
            left -= removed
        if not left:
            break
    state.retention_ticked_ms = turn.now_ms
    if moves:
        turn.journal(log_starts_moved(moves))


def _in_turn(state: State) -> Iterator[Partition]:
    """Yield the next partitions to check. None is repeated before all have been checked."""
    queue = state.retention_queue
    if not queue:
        queue.extend(each.key for topic in state.topics.values() for each in topic.partitions)
        queue.reverse()
        ages = state.retention_ages
        state.retention_ages = {key: ages[key] for key in queue if key in ages}
    for _ in range(min(len(queue), RETENTION_SCAN)):
        partition = state.partitions.get(queue.pop())
        if partition is not None:
            yield partition


#: (milliseconds, bytes); -1 means no limit.
_Limits = tuple[int, int]


def _limits_of(configs: dict[str, str]) -> _Limits:
    if not is_deleted_by_retention(configs):
        return -1, -1
    return retention_ms_of(configs), int(effective(configs, "retention.bytes"))


def _oldest_ms(state: State, key: PartitionKey, retention_ms: int, now_ms: int) -> int | None:
    """Return the time before which records expire, or None if they never do or no check is due."""
    ticked_ms = state.retention_ticked_ms
    looked_ms = state.retention_ages.setdefault(key, now_ms if ticked_ms is None else ticked_ms)
    if retention_ms < 0 or now_ms < looked_ms + min(retention_ms, RETENTION_CHECK_MS):
        return None
    return now_ms - retention_ms


def _count_past(
    partition: Partition, oldest_ms: int | None, retention_bytes: int, most: int
) -> int:
    """Return how many extents to remove from the front, at most `most`."""
    extents = partition.extents
    end_offset = partition.last_stable_offset
    spare = partition.size_bytes - retention_bytes if retention_bytes >= 0 else -1
    expiry = None if oldest_ms is None else Expiry.of(partition, oldest_ms)
    for index in range(min(len(extents), most)):
        if extents.next_offsets[index] > end_offset:
            return index
        is_past = expiry is not None and expiry.covers(extents, index)
        spare -= extents.sizes[index]
        if not is_past and spare < 0:
            return index
    return min(len(extents), most)
