"""Serializes the state and restores it. Equal states give equal bytes: every collection is written in one order."""

from array import array

from lacuna.controlplane.shared.history import History, next_second_ms
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.state.formats import (
    FORMAT_WITHOUT_SECURITY,
    SNAPSHOT_FORMAT,
    LaterFormatError,
)
from lacuna.controlplane.state.groups.store import Groups
from lacuna.controlplane.state.partition import (
    BATCH_NUMBERS,
    Partition,
    ProducerWindow,
    history_of,
    spread_of,
)
from lacuna.controlplane.state.segments import LiveSegments, Pin, References, SegmentTable
from lacuna.controlplane.state.settings import (
    HOUR_MS,
    LEASE_DURATION_MS,
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from lacuna.controlplane.state.state import Lease, State, TopicState, plain
from lacuna.controlplane.state.transactional import TransactionalId, TransactionState
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.group_records_pb2 import GroupsSnapshot
from lacuna.controlplane.v1.log_pb2 import SegmentCommitted
from lacuna.controlplane.v1.snapshot_pb2 import (
    LeaseSnapshot,
    PartitionSnapshot,
    PinsSnapshot,
    SegmentsSnapshot,
    StateSnapshot,
    TopicSnapshot,
    TransactionalIdSnapshot,
    TransactionPartitionSnapshot,
)

_COUNTERS = (
    "cluster_id",
    "clock_ms",
    "cluster_version",
    "next_lease_id",
    "next_node_id",
    "next_producer_id",
    "next_transaction",
    "next_pin_id",
)

_TRANSACTIONAL_FIELDS = (
    "transactional_id",
    "producer_id",
    "producer_epoch",
    "last_producer_epoch",
    "previous_producer_id",
    "transaction_timeout_ms",
    "transaction",
    "start_time_ms",
    "last_update_ms",
    "ended_producer_id",
    "ended_producer_epoch",
    "is_ended_by_coordinator",
)


def snapshot(state: State) -> bytes:
    """Serialize all durable state."""
    message = StateSnapshot(
        format_version=SNAPSHOT_FORMAT if state.security else FORMAT_WITHOUT_SECURITY,
        nodes=state.nodes.values(),
        leases=[_lease(lease) for lease in state.leases.values()],
        ended_lease_ids=state.ended_leases.keys(),
        ended_lease_ms=state.ended_leases.values(),
        topics=[_topic(topic) for topic in state.topics.values()],
        transactional_ids=_transactional_ids(state),
        segments=_segments(state.segments),
        pins=_pins(state.segments),
        groups=state.groups.to_snapshot().SerializeToString(deterministic=True),
        security=state.security.snapshot(),
    )
    for name in _COUNTERS:
        setattr(message, name, getattr(state, name))
    return message.SerializeToString(deterministic=True)


def restore(snapshot: bytes) -> State:
    """Return the state that `snapshot` serialized, without watchers.

    Raises LaterFormatError, and DecodeError if the bytes are malformed.
    """
    message = StateSnapshot.FromString(snapshot)
    if message.format_version > SNAPSHOT_FORMAT:
        raise LaterFormatError(
            f"format {message.format_version}, and this version reads up to {SNAPSHOT_FORMAT}"
        )
    state = State()
    for name in _COUNTERS:
        setattr(state, name, getattr(message, name))
    for node in message.nodes:
        state.nodes[node.host, node.port] = node
    for lease in message.leases:
        state.leases[lease.lease_id] = _read_lease(lease)
    state.ended_leases = dict(zip(message.ended_lease_ids, message.ended_lease_ms, strict=True))
    state.security.apply(message.security)
    for topic in message.topics:
        _read_topic(state, topic)
    for each in message.transactional_ids:
        _read_transactional_id(state, each)
    _read_segments(state.segments, message.segments, message.pins)
    state.groups = Groups.from_snapshot(GroupsSnapshot.FromString(message.groups))
    return state


# Leases


def _lease(lease: Lease) -> LeaseSnapshot:
    return LeaseSnapshot(
        lease_id=lease.lease_id,
        node_id=lease.node_id,
        forgotten_sequence=lease.forgotten_sequence,
        recent_sequences=lease.recent.keys(),
        recent_verdicts=map(SegmentCommitted.FromString, lease.recent.values()),
        duration_ms=lease.duration_ms,
    )


def _read_lease(message: LeaseSnapshot) -> Lease:
    duration_ms = message.duration_ms or LEASE_DURATION_MS
    lease = Lease(message.lease_id, message.node_id, duration_ms)
    lease.forgotten_sequence = message.forgotten_sequence
    for sequence, verdicts in zip(message.recent_sequences, message.recent_verdicts, strict=True):
        lease.recent[sequence] = verdicts.SerializeToString()
    return lease


# Topics


def _topic(topic: TopicState) -> TopicSnapshot:
    partitions = [_partition(partition) for partition in topic.partitions]
    return TopicSnapshot(topic=topic.message(), partitions=partitions)


def _partition(partition: Partition) -> PartitionSnapshot:
    windows = sorted(partition.producers.items())
    batches = array("q")
    for _, window in windows:
        batches.extend(window.batches)
    return PartitionSnapshot(
        partition=partition.key[1],
        version=partition.version,
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        extents=partition.extents.slice(0, len(partition.extents)),
        dead_first_offsets=partition.dead.firsts,
        dead_end_offsets=partition.dead.ends,
        producer_ids=[producer_id for producer_id, _ in windows],
        producer_epochs=[window.producer_epoch for _, window in windows],
        last_timestamps=[window.last_timestamp for _, window in windows],
        last_used_ms=[window.last_used_ms for _, window in windows],
        batch_counts=[len(window.batches) // BATCH_NUMBERS for _, window in windows],
        base_sequences=batches[::4],
        last_sequences=batches[1::4],
        base_offsets=batches[2::4],
        append_times=batches[3::4],
        ongoing_producer_ids=partition.ongoing.keys(),
        ongoing_first_offsets=partition.ongoing.values(),
        compacted_to=partition.compacted_to,
        compact_again_ms=partition.compact_again_ms,
        vacated_to=partition.vacated_to,
        history=partition.history.message(),
    )


def _read_topic(state: State, message: TopicSnapshot) -> None:
    found, inherited = message.topic, set(message.topic.inherited)
    own = {name: value for name, value in found.configs.items() if name not in inherited}
    topic = TopicState(found.topic_id, found.name, own, state.topic_defaults)
    state.topics[topic.topic_id] = topic
    state.topics_by_name[topic.name] = topic
    state.topics_by_plain_name[plain(topic.name)] = topic
    for each in message.partitions:
        partition = _read_partition(state, (topic.topic_id, each.partition), each)
        topic.partitions.append(partition)
        state.partitions[partition.key] = partition
        for producer_id, window in partition.producers.items():
            state.file_window(partition, producer_id, window.last_used_ms // HOUR_MS)


def _read_partition(state: State, key: PartitionKey, message: PartitionSnapshot) -> Partition:
    if message.HasField("history"):
        history = History.of(message.history, spread_of(key))
    else:  # an earlier version kept none
        history = history_of(key, next_second_ms(state.clock_ms))
    partition = Partition(key, history)
    partition.version = message.version
    partition.log_start_offset = message.log_start_offset
    partition.high_watermark = message.high_watermark
    partition.compacted_to = message.compacted_to
    partition.compact_again_ms = message.compact_again_ms
    partition.vacated_to = message.vacated_to
    partition.extents.append(message.extents)
    partition.size_bytes = sum(message.extents.sizes)
    partition.dead.firsts.extend(message.dead_first_offsets)
    partition.dead.ends.extend(message.dead_end_offsets)
    partition.ongoing.update(
        zip(message.ongoing_producer_ids, message.ongoing_first_offsets, strict=True)
    )
    _read_windows(partition, message)
    return partition


def _read_windows(partition: Partition, message: PartitionSnapshot) -> None:
    batches = array("q", bytes(8 * BATCH_NUMBERS * len(message.base_sequences)))
    batches[::4] = array("q", message.base_sequences)
    batches[1::4] = array("q", message.last_sequences)
    batches[2::4] = array("q", message.base_offsets)
    batches[3::4] = array("q", message.append_times)
    rows = zip(
        message.producer_ids,
        message.producer_epochs,
        message.last_timestamps,
        message.last_used_ms,
        message.batch_counts,
        strict=True,
    )
    at = 0
    for producer_id, producer_epoch, last_timestamp, last_used_ms, count in rows:
        window = ProducerWindow(producer_epoch)
        window.last_timestamp = last_timestamp
        window.last_used_ms = last_used_ms
        end = at + count * BATCH_NUMBERS
        window.batches = batches[at:end]
        at = end
        partition.producers[producer_id] = window


# Transactional ids


def _transactional_ids(state: State) -> list[TransactionalIdSnapshot]:
    has_offsets = state.internal.has_begun
    messages = []
    for found in state.transactional_ids.values():
        message = _transactional_id(found)
        if has_offsets:
            message.log_offset = found.log_offset
        messages.append(message)
    return messages


def _transactional_id(found: TransactionalId) -> TransactionalIdSnapshot:
    message = TransactionalIdSnapshot(
        state=found.state.value,
        group_ids=found.group_ids,
        partitions=[
            TransactionPartitionSnapshot(
                partition=TopicPartition(topic_id=topic_id, partition=partition), ranges=ranges
            )
            for (topic_id, partition), ranges in found.partitions.items()
        ],
    )
    for name in _TRANSACTIONAL_FIELDS:
        setattr(message, name, getattr(found, name))
    return message


def _read_transactional_id(state: State, message: TransactionalIdSnapshot) -> None:
    found = TransactionalId(message.transactional_id)
    for name in _TRANSACTIONAL_FIELDS:
        setattr(found, name, getattr(message, name))
    found.log_offset = message.log_offset
    found.enter(TransactionState(message.state))
    found.group_ids = dict.fromkeys(message.group_ids)
    for each in message.partitions:
        found.partitions[key_of(each.partition)] = array("q", each.ranges)
    state.add_transactional_id(found)
    state.producers[found.producer_id] = found
    if found.is_ongoing:
        deadline_ms = found.start_time_ms + found.transaction_timeout_ms
        state.transaction_deadlines.set(found.producer_id, deadline_ms)
    else:
        expires_ms = found.last_update_ms + TRANSACTIONAL_ID_EXPIRATION_MS
        state.expirations.set(found.transactional_id, expires_ms)


# Segments


def _segments(table: SegmentTable) -> SegmentsSnapshot:
    """Serialize live segments, ordered by key, then replaced ones in the order in which they were replaced."""
    found = table.live()
    message = SegmentsSnapshot(
        lease_ids=found.lease_ids,
        sequences=found.sequences,
        object_sizes=found.sizes,
        live_extents=found.live_extents,
        replaced_ms=array("q", (-1,)) * len(found.lease_ids),
        releasing_lease_ids=table.releasing.lease_ids,
        releasing_sequences=table.releasing.sequences,
    )
    for key, replaced_ms in table.replaced.items():
        message.lease_ids.append(key[0])
        message.sequences.append(key[1])
        message.object_sizes.append(table.size_of(key))
        message.live_extents.append(0)
        message.replaced_ms.append(replaced_ms)
    return message


def _pins(table: SegmentTable) -> PinsSnapshot:
    return PinsSnapshot(
        pin_ids=table.pins.keys(),
        starts_ms=[pin.starts_ms for pin in table.pins.values()],
        ends_ms=[pin.ends_ms for pin in table.pins.values()],
    )


def _read_segments(table: SegmentTable, message: SegmentsSnapshot, pins: PinsSnapshot) -> None:
    found = LiveSegments()
    found.lease_ids.extend(message.lease_ids)
    found.sequences.extend(message.sequences)
    found.sizes.extend(message.object_sizes)
    found.live_extents.extend(message.live_extents)
    count = len(found.live_extents) - found.live_extents.count(0)
    for column in (found.lease_ids, found.sequences, found.sizes, found.live_extents):
        del column[count:]
    table.add_live(found)
    replaced = zip(
        message.lease_ids[count:],
        message.sequences[count:],
        message.object_sizes[count:],
        message.replaced_ms[count:],
        strict=True,
    )
    table.releasing.extend(References(message.releasing_lease_ids, message.releasing_sequences))
    for lease_id, sequence, object_size, replaced_ms in replaced:
        table.add((lease_id, sequence), object_size, 0, replaced_ms)
    for pin_id, starts_ms, ends_ms in zip(pins.pin_ids, pins.starts_ms, pins.ends_ms, strict=True):
        table.pins[pin_id] = Pin(starts_ms, ends_ms)
