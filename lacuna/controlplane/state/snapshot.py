"""Serializes the state and restores it. Equal states give equal bytes, since every collection has a fixed order.

A snapshot is a sequence of parts of a few MiB, since a protobuf message cannot exceed 2 GiB. Each part is a
StateSnapshot, and within this limit, so is the concatenation of all parts.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from lacuna.controlplane.shared.history import History
from lacuna.controlplane.shared.partitions import PartitionKey, key_of, named
from lacuna.controlplane.state.owners import NOBODY
from lacuna.controlplane.state.partition import (
    BATCH_NUMBERS,
    Partition,
    ProducerWindow,
    spread_of,
)
from lacuna.controlplane.state.past_cuts import Lowered
from lacuna.controlplane.state.segments import Pin, References, SegmentRows, SegmentTable
from lacuna.controlplane.state.settings import (
    TRANSACTIONAL_ID_EXPIRATION_MS,
)
from lacuna.controlplane.state.state import (
    Lease,
    State,
    TopicState,
    plain,
    size_of_group_of_transaction,
)
from lacuna.controlplane.state.transactional import TransactionalId, TransactionState
from lacuna.controlplane.state.unsettled import Spans
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.controlplane.v1.log_pb2 import SegmentCommitted
from lacuna.controlplane.v1.snapshot_pb2 import (
    LeaseSnapshot,
    PartitionSnapshot,
    PastCutSnapshot,
    PinsSnapshot,
    SegmentsSnapshot,
    StateSnapshot,
    TopicSnapshot,
    TransactionalIdSnapshot,
    TransactionPartitionSnapshot,
    UnsettledSnapshot,
)

# The formats of records and snapshots. A number is increased when earlier versions would misread new content, so that
# they reject it instead of dropping the parts that they do not know.
RECORD_FORMAT: Final = 1
SNAPSHOT_FORMAT: Final = 1

#: The size of a part, unless a single group or transaction is larger, and the number of rows serialized at a time.
PART_BYTES: Final = 4 << 20
PIECE_ROWS: Final = 50_000
_UNSETTLED_ROWS: Final = 1_000

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
    "log_offset",
)


class LaterFormatError(ValueError):
    """The content was written by a later version, and this version might misread it."""


def snapshot_parts(state: State) -> Iterator[bytes]:
    """Serialize all durable state in parts of about PART_BYTES. The state must not change meanwhile."""
    part: list[bytes] = []
    size = 0
    for piece in _pieces(state):
        data = piece.SerializeToString(deterministic=True)
        if part and size + len(data) > PART_BYTES:
            yield b"".join(part)
            part, size = [], 0
        part.append(data)
        size += len(data)
    yield b"".join(part)


def snapshot(state: State) -> bytes:
    """Serialize all durable state as one message. This fails for a large state (see `snapshot_parts`)."""
    return b"".join(snapshot_parts(state))


def restore(parts: Iterable[bytes]) -> State:
    """Return the state that `snapshot_parts` serialized, without watchers.

    Raises LaterFormatError, or DecodeError if the bytes are malformed.
    """
    state = State()
    for part in parts:
        restore_part(state, part)
    return state


def restore_part(state: State, part: bytes) -> None:
    """Add the next part of a snapshot to a state, which must be empty before the first. Raises like `restore`."""
    message = StateSnapshot.FromString(part)
    if message.format_version > SNAPSHOT_FORMAT:
        raise LaterFormatError(
            f"format {message.format_version}, but this version reads only formats up to {SNAPSHOT_FORMAT}"
        )
    _read_part(state, message)


def _pieces(state: State) -> Iterator[StateSnapshot]:
    """Yield small messages that together form the snapshot."""
    head = StateSnapshot(
        format_version=SNAPSHOT_FORMAT,
        nodes=state.nodes.values(),
        leases=[_lease(lease) for lease in state.leases.values()],
        ended_lease_ids=state.ended_leases.keys(),
        ended_lease_ms=state.ended_leases.values(),
        pins=_pins(state.segments),
        id_hours=state.id_ages.hours,
        id_firsts=state.id_ages.firsts,
        security=state.security.snapshot(),
        settle_at=state.unsettled.settle_at,
        past_cuts_from=state.past_cuts.first_second,
        past_cuts_thinned_at=state.past_cuts.thinned_at,
    )
    for name in _COUNTERS:
        setattr(head, name, getattr(state, name))
    yield head
    for topic in state.topics.values():
        principal = state.topic_owners.of.get(topic.topic_id, NOBODY)
        for entry in _topic(topic, principal):
            yield StateSnapshot(topics=[entry])
    for found in _transactional_ids(state):
        yield StateSnapshot(transactional_ids=[found])
    for some in state.unsettled.pieces(_UNSETTLED_ROWS):
        yield StateSnapshot(unsettled=[_unsettled(*each) for each in some])
    for second, lowered in state.past_cuts.rows():
        yield StateSnapshot(past_cuts=[_past_cut(second, lowered)])
    for segments in _segments(state.segments):
        yield StateSnapshot(segments=segments)
    for groups in state.groups.pieces():
        yield StateSnapshot(groups=groups)


def _read_part(state: State, message: StateSnapshot) -> None:
    for name in _COUNTERS:
        if value := getattr(message, name):
            setattr(state, name, value)
    for node in message.nodes:
        state.nodes[node.host, node.port] = node
    for lease in message.leases:
        state.leases[lease.lease_id] = _read_lease(lease)
    state.ended_leases.update(zip(message.ended_lease_ids, message.ended_lease_ms, strict=True))
    state.id_ages.hours.extend(message.id_hours)
    state.id_ages.firsts.extend(message.id_firsts)
    if message.HasField("security"):
        state.security.apply(message.security)
    for topic in message.topics:
        _read_topic(state, topic)
    for each in message.transactional_ids:
        _read_transactional_id(state, each)
    for unsettled in message.unsettled:
        spans = {
            key_of(each.partition): (each.ranges[0], each.ranges[1])
            for each in unsettled.partitions
        }
        state.unsettled.put(unsettled.transaction, spans)
    state.unsettled.settle_at = message.settle_at or state.unsettled.settle_at
    for past in message.past_cuts:
        keys = map(key_of, past.partitions)
        state.past_cuts.put(past.second, dict(zip(keys, past.ends, strict=True)))
    state.past_cuts.first_second = message.past_cuts_from or state.past_cuts.first_second
    state.past_cuts.thinned_at = message.past_cuts_thinned_at or state.past_cuts.thinned_at
    _read_segments(state.segments, message.segments, message.pins)
    state.groups.load(message.groups)


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
    lease = Lease(message.lease_id, message.node_id, message.duration_ms)
    lease.forgotten_sequence = message.forgotten_sequence
    for sequence, verdicts in zip(message.recent_sequences, message.recent_verdicts, strict=True):
        lease.recent[sequence] = verdicts.SerializeToString()
    return lease


# Topics


def _topic(topic: TopicState, principal: str) -> Iterator[TopicSnapshot]:
    """Yield a topic as one or more entries. Those after the first contain only its id and more rows."""
    entry = TopicSnapshot(topic=topic.message(), principal=principal)
    rows = 0
    for partition in topic.partitions:
        for piece in _partition(partition):
            if rows >= PIECE_ROWS:
                yield entry
                entry, rows = TopicSnapshot(topic=Topic(topic_id=topic.topic_id)), 0
            entry.partitions.append(piece)
            rows += 1 + _count_rows(piece)
    yield entry


def _count_rows(piece: PartitionSnapshot) -> int:
    many = (piece.extents.sizes, piece.dead_first_offsets, piece.base_offsets)
    return max(map(len, (*many, piece.producer_ids, piece.history.seconds)))


def _partition(partition: Partition) -> Iterator[PartitionSnapshot]:
    """Yield a partition in entries of at most PIECE_ROWS rows of a kind. Later entries contain only rows."""
    windows = sorted(partition.producers.items())
    counts = (len(partition.extents), len(partition.dead), len(windows))
    for start in range(0, max(*counts, 1), PIECE_ROWS):
        piece = PartitionSnapshot(partition=partition.key[1])
        if not start:
            _put_head(piece, partition)
        stop = start + PIECE_ROWS
        piece.extents.CopyFrom(partition.extents.slice(start, stop))
        piece.dead_first_offsets.extend(partition.dead.firsts[start:stop])
        piece.dead_end_offsets.extend(partition.dead.ends[start:stop])
        _put_windows(piece, windows[start:stop])
        yield piece


def _put_head(piece: PartitionSnapshot, partition: Partition) -> None:
    head = PartitionSnapshot(
        version=partition.version,
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        ongoing_producer_ids=partition.ongoing.keys(),
        ongoing_first_offsets=partition.ongoing.values(),
        compacted_to=partition.compacted_to,
        compact_again_ms=partition.compact_again_ms,
        vacated_to=partition.vacated_to,
        history=partition.history.message(),
        next_epoch=partition.next_epoch,
    )
    piece.MergeFrom(head)


def _put_windows(piece: PartitionSnapshot, windows: Sequence[tuple[int, ProducerWindow]]) -> None:
    batches = array("q")
    for producer_id, window in windows:
        batches.extend(window.batches)
        piece.producer_ids.append(producer_id)
        piece.producer_epochs.append(window.producer_epoch)
        piece.last_timestamps.append(window.last_timestamp)
        piece.last_used_ms.append(window.last_used_ms)
        piece.batch_counts.append(len(window.batches) // BATCH_NUMBERS)
    piece.base_sequences.extend(batches[::4])
    piece.last_sequences.extend(batches[1::4])
    piece.base_offsets.extend(batches[2::4])
    piece.append_times.extend(batches[3::4])


def _read_topic(state: State, message: TopicSnapshot) -> None:
    topic = state.topics.get(message.topic.topic_id)
    if topic is None:
        found, inherited = message.topic, set(message.topic.inherited)
        own = {name: value for name, value in found.configs.items() if name not in inherited}
        topic = TopicState(found.topic_id, found.name, own, state.topic_defaults)
        state.topics[topic.topic_id] = topic
        state.topics_by_name[topic.name] = topic
        state.topics_by_plain_name[plain(topic.name)] = topic
        state.topic_owners.own(topic.topic_id, message.principal)
    for each in message.partitions:
        key = (topic.topic_id, each.partition)
        partition = state.partitions.get(key)
        if partition is None:
            partition = state.partitions[key] = _read_head(key, each)
            topic.partitions.append(partition)
            state.topic_owners.charge(topic.topic_id, 1)
        _read_rows(state, partition, each)


def _read_head(key: PartitionKey, message: PartitionSnapshot) -> Partition:
    partition = Partition(key, History.of(message.history, spread_of(key)))
    partition.version = message.version
    partition.log_start_offset = message.log_start_offset
    partition.high_watermark = message.high_watermark
    partition.compacted_to = message.compacted_to
    partition.compact_again_ms = message.compact_again_ms
    partition.vacated_to = message.vacated_to
    partition.next_epoch = message.next_epoch
    partition.ongoing.update(
        zip(message.ongoing_producer_ids, message.ongoing_first_offsets, strict=True)
    )
    return partition


def _read_rows(state: State, partition: Partition, message: PartitionSnapshot) -> None:
    partition.extents.append(message.extents)
    partition.size_bytes += sum(message.extents.sizes)
    partition.dead.firsts.extend(message.dead_first_offsets)
    partition.dead.ends.extend(message.dead_end_offsets)
    _read_windows(state, partition, message)


def _read_windows(state: State, partition: Partition, message: PartitionSnapshot) -> None:
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
        window = ProducerWindow(partition.key, producer_id, producer_epoch)
        window.last_timestamp = last_timestamp
        window.last_used_ms = last_used_ms
        end = at + count * BATCH_NUMBERS
        window.batches = batches[at:end]
        at = end
        partition.producers[producer_id] = window
        state.windows.add(window)


# Transactional ids


def _transactional_ids(state: State) -> Iterator[TransactionalIdSnapshot]:
    for found in state.transactional_ids.values():
        principal = state.id_owners.of.get(found.transactional_id, NOBODY)
        yield _transactional_id(found, principal)


def _transactional_id(found: TransactionalId, principal: str) -> TransactionalIdSnapshot:
    message = TransactionalIdSnapshot(
        state=found.state.value,
        principal=principal,
        group_ids=found.group_ids,
        partitions=[
            TransactionPartitionSnapshot(partition=named(key), ranges=ranges)
            for key, ranges in found.partitions.items()
        ],
    )
    for name in _TRANSACTIONAL_FIELDS:
        setattr(message, name, getattr(found, name))
    return message


def _read_transactional_id(state: State, message: TransactionalIdSnapshot) -> None:
    found = TransactionalId(message.transactional_id)
    for name in _TRANSACTIONAL_FIELDS:
        setattr(found, name, getattr(message, name))
    found.enter(TransactionState(message.state))
    found.group_ids = dict.fromkeys(message.group_ids)
    for each in message.partitions:
        found.partitions[key_of(each.partition)] = array("q", each.ranges)
    state.add_transactional_id(found, message.principal)
    state.charge_partitions(found, len(found.partitions))
    for group_id in found.group_ids:
        state.id_owners.charge(found.transactional_id, size_of_group_of_transaction(group_id))
    state.producers[found.producer_id] = found
    if found.is_ongoing:
        deadline_ms = found.start_time_ms + found.transaction_timeout_ms
        state.transaction_deadlines.set(found.producer_id, deadline_ms)
    else:
        expires_ms = found.last_update_ms + TRANSACTIONAL_ID_EXPIRATION_MS
        state.expirations.set(found.transactional_id, expires_ms)


def _unsettled(transaction: int, spans: Spans) -> UnsettledSnapshot:
    return UnsettledSnapshot(
        transaction=transaction,
        partitions=[
            TransactionPartitionSnapshot(partition=named(key), ranges=span)
            for key, span in spans.items()
        ],
    )


def _past_cut(second: int, lowered: Lowered) -> PastCutSnapshot:
    return PastCutSnapshot(
        second=second,
        partitions=map(named, lowered),
        ends=lowered.values(),
    )


# Segments


def _segments(table: SegmentTable) -> Iterator[SegmentsSnapshot]:
    """Yield all segments ordered by key, then the replaced ones in the order of their replacement, then the waiting
    references.
    """
    for rows in table.rows(PIECE_ROWS):
        yield SegmentsSnapshot(
            lease_ids=rows.lease_ids,
            sequences=rows.sequences,
            object_sizes=rows.sizes,
            live_extents=rows.live_extents,
        )
    replaced = iter(table.replaced.items())
    while some := list(islice(replaced, PIECE_ROWS)):
        yield SegmentsSnapshot(
            replaced_lease_ids=[key[0] for key, _ in some],
            replaced_sequences=[key[1] for key, _ in some],
            replaced_ms=[replaced_ms for _, replaced_ms in some],
        )
    for start in range(0, len(table.releasing), PIECE_ROWS):
        yield SegmentsSnapshot(
            releasing_lease_ids=table.releasing.lease_ids[start : start + PIECE_ROWS],
            releasing_sequences=table.releasing.sequences[start : start + PIECE_ROWS],
        )


def _pins(table: SegmentTable) -> PinsSnapshot:
    return PinsSnapshot(
        pin_ids=table.pins.keys(),
        starts_ms=[pin.starts_ms for pin in table.pins.values()],
        ends_ms=[pin.ends_ms for pin in table.pins.values()],
    )


def _read_segments(table: SegmentTable, message: SegmentsSnapshot, pins: PinsSnapshot) -> None:
    table.add_rows(
        SegmentRows(
            message.lease_ids, message.sequences, message.object_sizes, message.live_extents
        )
    )
    keys = zip(message.replaced_lease_ids, message.replaced_sequences, strict=True)
    table.replaced.update(zip(keys, message.replaced_ms, strict=True))
    table.releasing.extend(References(message.releasing_lease_ids, message.releasing_sequences))
    for pin_id, starts_ms, ends_ms in zip(pins.pin_ids, pins.starts_ms, pins.ends_ms, strict=True):
        table.pins[pin_id] = Pin(starts_ms, ends_ms)
