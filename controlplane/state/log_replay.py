"""Replays of records about the log: segments, log starts, swaps, collection, pins."""

from array import array
from collections import Counter
from typing import Final

from controlplane.extents import EXTENT_ROW
from controlplane.state.deadlines import NEVER
from controlplane.state.partition import Partition, ProducerWindow, key_of
from controlplane.state.rows import batches_of, rows_of
from controlplane.state.segments import Pin, SegmentKey
from controlplane.state.state import State
from controlplane.state.transaction_replay import start_transaction
from controlplane.v1.journal_pb2 import (
    ExtentsReplaced,
    LogStartsMoved,
    PartitionSwap,
    PinProlonged,
    PinsEnded,
    PinTaken,
    ProducersExpired,
    RecordedSlice,
    SegmentRecorded,
    SegmentsCollected,
)
from controlplane.v1.log_pb2 import SwapSegment

HOUR_MS: Final = 3_600_000


def replay_segment(state: State, record: SegmentRecorded, now_ms: int) -> None:
    """Appends the accepted batches; remembers the answer for a retry."""
    for producer_id, transaction in zip(
        record.started_producer_ids, record.started_transactions, strict=True
    ):
        start_transaction(state, state.producers[producer_id], transaction, now_ms)
    extents = 0
    for recorded in record.slices:
        partition = state.partitions[key_of(recorded.partition)]
        extents += _append(state, partition, recorded)
        _remember_batches(state, partition, recorded, now_ms)
    segment = record.segment
    key = (segment.lease_id, segment.sequence)
    state.segments.add(key, record.object_size, extents, now_ms)
    state.leases[segment.lease_id].remember(segment.sequence, record.verdicts.SerializeToString())


def _append(state: State, partition: Partition, recorded: RecordedSlice) -> int:
    """Adds the extents of a slice; how many they are."""
    rows = rows_of(recorded)
    for row in EXTENT_ROW.iter_unpack(rows):
        partition.extents.append_row(row)
        _, _, _, size, base_offset, next_offset, _, producer_id, _, transaction, _ = row
        partition.size_bytes += size
        if transaction:
            _add_range(state, partition, producer_id, base_offset, next_offset)
    partition.high_watermark = recorded.high_watermark
    delta = state.changed(partition)
    if delta is not None:
        delta.appended = rows
    return len(rows) // EXTENT_ROW.size


def _add_range(
    state: State, partition: Partition, producer_id: int, base_offset: int, next_offset: int
) -> None:
    """Adds the offsets of a transactional extent to its transaction."""
    partitions = state.producers[producer_id].partitions
    ranges = partitions.get(partition.key)
    if not ranges:
        partitions[partition.key] = array("q", (base_offset, next_offset))
        partition.ongoing[producer_id] = base_offset
    elif ranges[-1] == base_offset:
        ranges[-1] = next_offset
    else:
        ranges.extend((base_offset, next_offset))


def _remember_batches(
    state: State, partition: Partition, recorded: RecordedSlice, now_ms: int
) -> None:
    hour = now_ms // HOUR_MS
    for producer_id, epoch, *batch, timestamp in batches_of(recorded):
        window = partition.producers.get(producer_id)
        if window is None:
            window = partition.producers[producer_id] = ProducerWindow(epoch)
        window.remember(epoch, batch)
        window.last_timestamp = timestamp
        if window.last_used_ms // HOUR_MS != hour:
            state.file_window(partition, producer_id, hour)
        window.last_used_ms = now_ms


def replay_log_starts(state: State, record: LogStartsMoved, now_ms: int) -> None:
    """DeleteRecords and retention: what lies wholly below the new start disappears."""
    for move in record.moves:
        partition = state.partitions[key_of(move.partition)]
        partition.log_start_offset = move.log_start_offset
        dropped = partition.extents.drop_below(move.log_start_offset)
        partition.size_bytes -= sum(dropped.sizes)
        partition.dead.drop_below(move.log_start_offset)
        state.segments.release(dropped.lease_ids, dropped.sequences, now_ms)
        delta = state.changed(partition)
        if delta is not None:
            delta.dropped_below = move.log_start_offset


def replay_swap(state: State, record: ExtentsReplaced, now_ms: int) -> None:
    """Merging and compaction: other extents, of new objects, in the place of those that were there."""
    segments = list(record.segments)
    if record.HasField("segment"):
        segments.append(SwapSegment(segment=record.segment, object_size=record.object_size))
    live: Counter[SegmentKey] = Counter()
    for each in record.partitions:
        extents = each.swap.extents
        live.update(zip(extents.lease_ids, extents.sequences, strict=True))
    for new in segments:
        key = (new.segment.lease_id, new.segment.sequence)
        state.segments.add(key, new.object_size, live[key], now_ms)
    for each in record.partitions:
        _swap(state, each, now_ms)


def _swap(state: State, record: PartitionSwap, now_ms: int) -> None:
    partition = state.partitions[key_of(record.partition)]
    swap, extents = record.swap, partition.extents
    start, stop = extents.range_of(swap.first_offset, swap.end_offset)
    gone = (extents.lease_ids[start:stop], extents.sequences[start:stop])
    partition.size_bytes += sum(swap.extents.sizes) - sum(extents.sizes[start:stop])
    extents.replace(swap.first_offset, swap.end_offset, swap.extents)
    partition.dead.remove(swap.first_offset, swap.end_offset)
    partition.dead.drop_below(partition.log_start_offset)  # a part without extents
    if record.compacted_to:
        partition.compacted_to = max(partition.compacted_to, record.compacted_to)
        partition.compact_again_ms = record.compact_again_ms
    state.segments.release(*gone, now_ms)
    delta = state.changed(partition)
    if delta is not None:
        delta.swaps.append(swap)


def replay_collected(state: State, record: SegmentsCollected, _now_ms: int) -> None:
    """Objects are gone from the bucket, ended leases have no stray objects left."""
    for segment in record.segments:
        state.segments.forget((segment.lease_id, segment.sequence))
    for lease_id in record.swept_lease_ids:
        state.ended_leases.pop(lease_id, None)


def replay_pin(state: State, record: PinTaken, now_ms: int) -> None:
    """A reader begins."""
    state.segments.pins[record.pin_id] = Pin(now_ms, min(record.ends_ms, NEVER))
    state.next_pin_id = max(state.next_pin_id, record.pin_id + 1)


def replay_pin_prolonged(state: State, record: PinProlonged, _now_ms: int) -> None:
    """A reader goes on from the same start."""
    pins = state.segments.pins
    pins[record.pin_id] = Pin(pins[record.pin_id].starts_ms, min(record.ends_ms, NEVER))


def replay_pins_ended(state: State, record: PinsEnded, _now_ms: int) -> None:
    """Readers are done, or their time is over."""
    for pin_id in record.pin_ids:
        state.segments.pins.pop(pin_id, None)


def replay_producers_expired(state: State, record: ProducersExpired, _now_ms: int) -> None:
    """Idempotence windows that nobody used for long."""
    for each in record.partitions:
        partition = state.partitions[key_of(each.partition)]
        for producer_id in each.producer_ids:
            del partition.producers[producer_id]
