"""One flush: its batches, their slices in the segment, and the command that commits them."""

import asyncio
from dataclasses import dataclass, field

from lacuna.agent.produce.buffer import PendingBatch
from lacuna.agent.produce.hot import SMALL_BYTES
from lacuna.controlplane.shared.batches import (
    COMMITTED_BATCH,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRANSACTIONAL,
    TRANSACTIONAL_ID_SHIFT,
    SegmentSlice,
    commit_of,
)
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.log_pb2 import CommitSegment
from lacuna.controlplane.v1.log_pb2 import SegmentId as SegmentIdMessage
from lacuna.logstore.segments.paths import SegmentId
from lacuna.logstore.segments.writer import SliceInput, WrittenSegment


@dataclass(slots=True, eq=False)
class Flight:
    """One flush and its batches. `ended` completes when the flush has ended, for the next one."""

    batches: list[PendingBatch]
    previous: "asyncio.Future[None] | None"
    ended: "asyncio.Future[None]"
    segment_id: SegmentId | None = None
    #: the batches in the segment by partition, in the order of its slices
    slices: dict[PartitionKey, list[PendingBatch]] = field(default_factory=dict)
    #: a reply to its commit was lost
    is_repeated: bool = False
    is_hot: bool = False
    #: what the commit of a hot segment takes along
    hot: bytes = b""

    @property
    def is_small(self) -> bool:
        """Whether its PUT takes little longer than the sync."""
        return sum(len(batch.part) for batch in self.batches) <= SMALL_BYTES

    def group(self) -> list[SliceInput]:
        """Group the batches by partition, keeping those of each producer in order."""
        grouped: dict[PartitionKey, list[PendingBatch]] = {}
        for batch in self.batches:
            grouped.setdefault(batch.key, []).append(batch)
        self.slices = {key: together(batches) for key, batches in grouped.items()}
        return [
            SliceInput(topic_id, partition, [batch.part for batch in batches])
            for (topic_id, partition), batches in self.slices.items()
        ]


def together(batches: list[PendingBatch]) -> list[PendingBatch]:
    """Reorder the batches of one partition so that those of a transaction follow its first one.

    A transaction is then one extent of a segment. If it aborts, it leaves one long gap, rather than many short ones
    that readers would also read (adr/0021). The order of each producer's batches is kept (S12). Batches with append
    times are not reordered, since these times must ascend as in Kafka.
    """
    owners = {batch.producer_id for batch in batches if batch.flags & FLAG_TRANSACTIONAL}
    if not owners or any(batch.flags & FLAG_LOG_APPEND_TIME for batch in batches):
        return batches
    groups: dict[tuple[bool, int], list[PendingBatch]] = {}
    for place, batch in enumerate(batches):
        is_owned = batch.producer_id in owners
        key = (is_owned, batch.producer_id if is_owned else place)
        groups.setdefault(key, []).append(batch)
    return [batch for group in groups.values() for batch in group]


def placed_batches(flight: Flight, written: WrittenSegment) -> list[tuple[PendingBatch, int]]:
    """Return the batches without a verdict, with their positions in the object."""
    return [
        (batch, position)
        for batches, piece in zip(flight.slices.values(), written.slices, strict=True)
        for batch, position in zip(batches, piece.batch_positions, strict=True)
        if batch.verdict is None
    ]


def commit_command(
    written: WrittenSegment, placed: list[tuple[PendingBatch, int]]
) -> tuple[CommitSegment, list[list[PendingBatch]]]:
    """Build the commit of `placed`; also return its batches, slice by slice."""
    slices: list[SegmentSlice] = []
    sent: list[list[PendingBatch]] = []
    by_partition: dict[PartitionKey, list[tuple[PendingBatch, int]]] = {}
    numbers: dict[str, int] = {}  # transactional id -> 1 + its index
    for batch, position in placed:
        by_partition.setdefault(batch.key, []).append((batch, position))
    for key, entries in by_partition.items():
        sent.append([batch for batch, _ in entries])
        rows = [
            COMMITTED_BATCH.pack(
                position,
                len(batch.part),
                batch.record_count,
                batch.max_timestamp,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                _flags(batch, numbers),
            )
            for batch, position in entries
        ]
        slices.append(SegmentSlice(key, b"".join(rows)))
    segment = SegmentIdMessage(
        lease_id=written.segment_id.lease_id, sequence=written.segment_id.sequence
    )
    return commit_of(segment, written.size, slices, numbers), sent


def _flags(batch: PendingBatch, numbers: dict[str, int]) -> int:
    """Return the flags of a batch for its commit. `numbers` gives its transactional id a number."""
    if not batch.transactional_id:
        return batch.flags
    number = numbers.setdefault(batch.transactional_id, len(numbers) + 1)
    return batch.flags | number << TRANSACTIONAL_ID_SHIFT
