"""Applies retention.ms and retention.bytes, to a few partitions in each tick."""

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.shared.topic_configs import effective, is_deleted_by_retention
from lacuna.controlplane.state.front import is_old, retention_ms_of
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.settings import MAX_PER_TICK, RETENTION_CHECK_MS, RETENTION_SCAN
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.journal_pb2 import LogStartMove
from lacuna.controlplane.verbs.housekeeping import log_starts_moved
from lacuna.controlplane.verbs.turn import Turn


def tick_retention(turn: Turn) -> None:
    """Apply retention.ms and retention.bytes: remove whole extents from the front, up to the last stable offset.

    Each tick checks RETENTION_SCAN partitions and the next tick continues, so the cost of a tick does not grow with
    the number of partitions.
    """
    state = turn.state
    moves: list[LogStartMove] = []
    limits: dict[bytes, _Limits] = {}
    for partition in _in_turn(state):
        topic_id = partition.key[0]
        if topic_id not in limits:
            limits[topic_id] = _limits_of(state.topics[topic_id].configs)
        retention_ms, retention_bytes = limits[topic_id]
        oldest_ms = _oldest_ms(state, partition.key, retention_ms, turn.now_ms)
        offset = _retained_from(partition, oldest_ms, retention_bytes)
        if oldest_ms is not None and not _may_go_on(partition, offset):
            state.retention_ages[partition.key] = turn.now_ms
        if offset > partition.log_start_offset:
            moves.append(LogStartMove(partition=partition.message, log_start_offset=offset))
    state.retention_ticked_ms = turn.now_ms
    if moves:
        turn.journal(log_starts_moved(moves))


def _in_turn(state: State) -> list[Partition]:
    """Return the next partitions to check; each is checked once before any is checked again."""
    queue = state.retention_queue
    if not queue:
        queue.extend(each.key for topic in state.topics.values() for each in topic.partitions)
        queue.reverse()
        ages = state.retention_ages
        state.retention_ages = {key: ages[key] for key in queue if key in ages}
    keys = queue[-RETENTION_SCAN:]
    del queue[-RETENTION_SCAN:]
    return [state.partitions[key] for key in reversed(keys) if key in state.partitions]


#: (milliseconds, bytes); -1 is no limit.
_Limits = tuple[int, int]


def _limits_of(configs: dict[str, str]) -> _Limits:
    if not is_deleted_by_retention(configs):
        return -1, -1
    return retention_ms_of(configs), int(effective(configs, "retention.bytes"))


def _oldest_ms(state: State, key: PartitionKey, retention_ms: int, now_ms: int) -> int | None:
    """Return the time before which records expire; None if none do, or it is too early to check them again."""
    ticked_ms = state.retention_ticked_ms
    looked_ms = state.retention_ages.setdefault(key, now_ms if ticked_ms is None else ticked_ms)
    if retention_ms < 0 or now_ms < looked_ms + min(retention_ms, RETENTION_CHECK_MS):
        return None
    return now_ms - retention_ms


def _retained_from(partition: Partition, oldest_ms: int | None, retention_bytes: int) -> int:
    """Return the log start offset after retention: the end of the extents to remove."""
    extents = partition.extents
    offset = partition.log_start_offset
    spare = partition.size_bytes - retention_bytes if retention_bytes >= 0 else -1
    for index in range(min(len(extents), MAX_PER_TICK)):
        if extents.next_offsets[index] > partition.last_stable_offset:
            break
        is_past = oldest_ms is not None and is_old(extents.max_timestamps[index], oldest_ms)
        spare -= extents.sizes[index]
        if not is_past and spare < 0:
            break
        offset = extents.next_offsets[index]
    return offset


def _may_go_on(partition: Partition, offset: int) -> bool:
    """Whether `offset` is the most that one tick can reach in the partition, so that there may be more to remove."""
    extents = partition.extents
    return len(extents) > MAX_PER_TICK and offset == extents.next_offsets[MAX_PER_TICK - 1]
