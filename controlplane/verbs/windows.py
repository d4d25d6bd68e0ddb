"""Expires idempotence windows that were not used for long (S8, S10)."""

from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.state.settings import HOUR_MS, MAX_PER_TICK, PRODUCER_ID_EXPIRATION_MS
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.journal_pb2 import JournalRecord, ProducersExpired
from lacuna.controlplane.verbs.turn import Turn


def tick_producers(turn: Turn) -> None:
    """Expire windows not used for producer.id.expiration.ms; they are filed by hour, so it can be an hour longer."""
    state, record = turn.state, ProducersExpired()
    left = MAX_PER_TICK
    for hour in sorted(state.window_hours):
        if (hour + 1) * HOUR_MS + PRODUCER_ID_EXPIRATION_MS > turn.now_ms or left <= 0:
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
    if record.partitions:
        turn.journal(JournalRecord(producers_expired=record))


def _take_expired(
    state: State, hour: int, limit: int
) -> tuple[list[tuple[PartitionKey, int]], int]:
    """Remove up to `limit` windows from the file of that hour.

    Return those that were not used later, as sorted (partition, producer id) pairs, and how many were looked at. A
    window with an ongoing transaction is filed an hour later, to be looked at again.
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


def replay_producers_expired(state: State, record: ProducersExpired, _now_ms: int) -> None:
    """Remove expired idempotence windows."""
    for each in record.partitions:
        partition = state.partitions[key_of(each.partition)]
        for producer_id in each.producer_ids:
            del partition.producers[producer_id]
