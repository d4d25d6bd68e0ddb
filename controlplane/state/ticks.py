"""What is overdue: transactions, ids nobody uses, records past their retention, read pins."""

from controlplane.decision import Context
from controlplane.state.housekeeping import log_starts_moved, pins_ended
from controlplane.state.log_replay import HOUR_MS
from controlplane.state.partition import Partition, PartitionKey
from controlplane.state.settings import (
    MAX_PER_TICK,
    PRODUCER_ID_EXPIRATION_MS,
    RETENTION_CHECK_MS,
    RETENTION_SCAN,
)
from controlplane.state.state import State
from controlplane.state.transactions import coordinator_abort
from controlplane.topic_configs import effective, is_deleted_by_retention
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.journal_pb2 import (
    JournalRecord,
    LogStartMove,
    ProducersExpired,
    TransactionalIdsExpired,
)

#: With retention.ms no extent of a batch without a timestamp (-1) is ever old.
_NO_TIMESTAMP = -1


def tick_transactions(state: State, context: Context) -> list[JournalRecord]:
    """S8: aborts transactions past their timeout and bumps their epochs."""
    due = state.transaction_deadlines.due(context.now_ms, MAX_PER_TICK)
    return [
        coordinator_abort(
            state.producers[producer_id], context.now_ms, state.next_producer_id + number
        )
        for number, producer_id in enumerate(due)
    ]


def tick_transactional_ids(state: State, context: Context) -> list[JournalRecord]:
    """transactional.id.expiration.ms."""
    due = state.expirations.due(context.now_ms, MAX_PER_TICK)
    if not due:
        return []
    record = TransactionalIdsExpired(transactional_ids=due)
    return [JournalRecord(now_ms=context.now_ms, transactional_ids_expired=record)]


def tick_producers(state: State, context: Context) -> list[JournalRecord]:
    """producer.id.expiration.ms, to the hour: windows are filed under the hour of their last use."""
    record = ProducersExpired()
    left = MAX_PER_TICK
    for hour in sorted(state.window_hours):
        if (hour + 1) * HOUR_MS + PRODUCER_ID_EXPIRATION_MS > context.now_ms or left <= 0:
            break
        expired, looked = _take_expired(state, hour, left)
        left -= looked
        for (topic_id, index), producer_id in expired:
            last = record.partitions[-1] if record.partitions else None
            if last is None or (last.partition.topic_id, last.partition.partition) != (
                topic_id,
                index,
            ):
                partition = TopicPartition(topic_id=topic_id, partition=index)
                last = record.partitions.add()
                last.partition.CopyFrom(partition)
            last.producer_ids.append(producer_id)
    if not record.partitions:
        return []
    return [JournalRecord(now_ms=context.now_ms, producers_expired=record)]


def _take_expired(
    state: State, hour: int, limit: int
) -> tuple[list[tuple[PartitionKey, int]], int]:
    """Takes windows off the file of that hour: those not used later, sorted; and how many were looked at.

    One of an ongoing transaction is filed an hour later, to be looked at again.
    """
    filed = state.window_hours[hour]
    expired: list[tuple[PartitionKey, int]] = []
    looked = 0
    while filed and looked < limit:
        key, producer_ids = filed.popitem()
        partition = state.partitions.get(key)
        while producer_ids and looked < limit:
            producer_id = producer_ids.pop()
            looked += 1
            window = partition.producers.get(producer_id) if partition else None
            if partition is None or window is None or window.last_used_ms // HOUR_MS > hour:
                continue
            if producer_id in partition.ongoing:
                state.file_window(partition, producer_id, hour + 1)
            else:
                expired.append((key, producer_id))
        if producer_ids:
            filed[key] = producer_ids
    if not filed:
        del state.window_hours[hour]
    return sorted(expired), looked


def tick_retention(state: State, context: Context) -> list[JournalRecord]:
    """retention.ms and retention.bytes: whole extents from the front, below the LSO.

    A tick looks at RETENTION_SCAN partitions and the next one goes on, so that it costs the same with however many.
    """
    moves: list[LogStartMove] = []
    limits: dict[bytes, _Limits] = {}
    for partition in _in_turn(state):
        topic_id = partition.key[0]
        if topic_id not in limits:
            limits[topic_id] = _limits_of(state.topics[topic_id].configs)
        retention_ms, retention_bytes = limits[topic_id]
        oldest_ms = _oldest_ms(state, partition.key, retention_ms, context.now_ms)
        offset = _retained_from(partition, oldest_ms, retention_bytes)
        if oldest_ms is not None and not _may_go_on(partition, offset):
            state.retention_ages[partition.key] = context.now_ms
        if offset > partition.log_start_offset:
            moves.append(LogStartMove(partition=partition.message, log_start_offset=offset))
    state.retention_ticked_ms = context.now_ms
    return [log_starts_moved(moves, context.now_ms)] if moves else []


def _in_turn(state: State) -> list[Partition]:
    """The next partitions to look at; each once before any comes again."""
    queue = state.retention_queue
    if not queue:
        queue.extend(each.key for topic in state.topics.values() for each in topic.partitions)
        queue.reverse()
        ages = state.retention_ages
        state.retention_ages = {key: ages[key] for key in queue if key in ages}
    keys = queue[-RETENTION_SCAN:]
    del queue[-RETENTION_SCAN:]
    return [state.partitions[key] for key in reversed(keys) if key in state.partitions]


#: Milliseconds and bytes, -1: no limit.
_Limits = tuple[int, int]


def _limits_of(configs: dict[str, str]) -> _Limits:
    if not is_deleted_by_retention(configs):
        return -1, -1
    return int(effective(configs, "retention.ms")), int(effective(configs, "retention.bytes"))


def _oldest_ms(state: State, key: PartitionKey, retention_ms: int, now_ms: int) -> int | None:
    """Records of before go; None: none does, or it is not yet time to look at them again."""
    ticked_ms = state.retention_ticked_ms
    looked_ms = state.retention_ages.setdefault(key, now_ms if ticked_ms is None else ticked_ms)
    if retention_ms < 0 or now_ms < looked_ms + min(retention_ms, RETENTION_CHECK_MS):
        return None
    return now_ms - retention_ms


def _retained_from(partition: Partition, oldest_ms: int | None, retention_bytes: int) -> int:
    """The new log start offset: the end of the extents that retention takes."""
    extents = partition.extents
    offset = partition.log_start_offset
    spare = partition.size_bytes - retention_bytes if retention_bytes >= 0 else -1
    for index in range(min(len(extents), MAX_PER_TICK)):
        if extents.next_offsets[index] > partition.last_stable_offset:
            break
        timestamp = extents.max_timestamps[index]
        is_old = oldest_ms is not None and _NO_TIMESTAMP < timestamp < oldest_ms
        spare -= extents.sizes[index]
        if not is_old and spare < 0:
            break
        offset = extents.next_offsets[index]
    return offset


def _may_go_on(partition: Partition, offset: int) -> bool:
    """Whether all that a tick may take of a partition was taken, so that there may be more."""
    extents = partition.extents
    return len(extents) > MAX_PER_TICK and offset == extents.next_offsets[MAX_PER_TICK - 1]


def tick_pins(state: State, context: Context) -> list[JournalRecord]:
    """Read pins whose time is over."""
    pins = state.segments.pins
    due = [pin_id for pin_id, pin in pins.items() if pin.ends_ms <= context.now_ms]
    return [pins_ended(due, context.now_ms)] if due else []
