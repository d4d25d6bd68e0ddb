"""A flush: its batches, their slices in the segment, and the command that commits them."""

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
from lacuna.logstore.segments.hot import lease_of
from lacuna.logstore.segments.paths import SegmentId
from lacuna.logstore.segments.writer import SliceInput, WrittenSegment


@dataclass(slots=True, eq=False)
class Flight:
    """One flush and its batches.

    The next flush waits for `sent` before it sends its own commit. If the control plane refuses that commit without
    deciding it, the next flush waits for `ended` before it sends the commit again. If this flush's commit must be sent
    again, `sent` is replaced with a new future.
    """

    batches: list[PendingBatch]
    #: The previous flush, or None for the first flush and once this flush has ended.
    previous: "Flight | None"
    sent: "asyncio.Future[None]"
    ended: "asyncio.Future[None]"
    #: The loop time at which attempts to commit end, set by the first attempt.
    deadline: float | None = None
    segment_id: SegmentId | None = None
    #: The batches in the segment by partition, in the order of the segment's slices.
    slices: dict[PartitionKey, list[PendingBatch]] = field(default_factory=dict)
    #: Whether a reply to the flush's commit was lost.
    is_repeated: bool = False
    is_hot: bool = False
    #: The bytes of a hot segment, which its commit carries.
    hot: bytes = b""

    @property
    def is_small(self) -> bool:
        """Whether the flush is so small that its PUT is hardly slower than a sync."""
        return sum(len(batch.part) for batch in self.batches) <= SMALL_BYTES

    async def turn(self) -> None:
        """Wait until the previous flush has sent its commit or has ended."""
        while self.previous is not None and not self.previous.sent.done():
            await self.previous.sent

    async def is_first(self) -> None:
        """Wait until the previous flush has ended."""
        if self.previous is not None:
            await self.previous.ended

    def send(self) -> None:
        """Let the next flush send its commit, since this flush has sent its own or never will."""
        if not self.sent.done():
            self.sent.set_result(None)

    def hold_next(self) -> None:
        """Make the next flush wait again, since this flush's commit was refused and must be sent again."""
        self.sent = self.ended.get_loop().create_future()

    def end(self) -> None:
        """Let the next flush continue, since this one has been decided or has failed."""
        self.send()
        self.ended.set_result(None)
        self.previous = None

    def follows(self) -> int:
        """Return the sequence of the previous flush if its commit has been sent but not answered yet, or 0."""
        before = self._before
        return 0 if before is None else before.sequence

    def has_lease_of_previous(self) -> bool:
        """Whether the previous flush was written under the same lease. Also true if that flush has ended."""
        before, own = self._before, self.segment_id
        return not before or not own or lease_of(before.lease_id) == lease_of(own.lease_id)

    @property
    def _before(self) -> SegmentId | None:
        """The segment of the previous flush, or None if that flush has ended."""
        previous = self.previous
        return None if previous is None or previous.ended.done() else previous.segment_id

    def group(self) -> list[SliceInput]:
        """Group the batches by partition, keeping each producer's batches in order.

        To help merging, the partitions are sorted by key, so that the same partitions are adjacent in every object.
        """
        grouped: dict[PartitionKey, list[PendingBatch]] = {}
        for batch in self.batches:
            grouped.setdefault(batch.key, []).append(batch)
        self.slices = {key: together(grouped[key]) for key in sorted(grouped)}
        return [
            SliceInput(topic_id, partition, [batch.part for batch in batches])
            for (topic_id, partition), batches in self.slices.items()
        ]


def together(batches: list[PendingBatch]) -> list[PendingBatch]:
    """Reorder the batches of one partition so that all batches in a transaction directly follow its first batch.

    A transaction is then one extent of a segment. If it aborts, it leaves one long gap, rather than many short ones
    that readers would also read (adr/0021). The order of each producer's batches is kept (S12). Batches with append
    times are not reordered, since their times must ascend, as in Kafka.
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
    """Build the commit for the batches in `placed`, and return it with these batches, slice by slice."""
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
    if not batch.transactional_id:
        return batch.flags
    number = numbers.setdefault(batch.transactional_id, len(numbers) + 1)
    return batch.flags | number << TRANSACTIONAL_ID_SHIFT
