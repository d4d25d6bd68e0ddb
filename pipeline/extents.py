"""What metadata says of one partition, and which pieces of it a job reads; pure."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from controlplane.extents import FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS, DeadRanges, ExtentTable
from logstore.segments.paths import SegmentId, segment_key

#: topic id (16 bytes) and partition number.
PartitionKey: TypeAlias = tuple[bytes, int]


class Piece(NamedTuple):
    """One extent to read: `size` bytes at `position` of the object (lease_id, sequence).

    Its batches hold offsets of [base_offset, next_offset); `max_timestamp` in ms. `transaction` is
    the serial number of the transaction that it belongs to, 0 for none.
    """

    lease_id: int
    sequence: int
    position: int
    size: int
    base_offset: int
    next_offset: int
    max_timestamp: int
    transaction: int
    flags: int

    @property
    def has_true_offsets(self) -> bool:
        """Whether the batches carry their own offsets, as merged ones do."""
        return self.flags & FLAG_TRUE_OFFSETS != 0

    @property
    def is_log_append_time(self) -> bool:
        """Whether all records have the time of their append."""
        return self.flags & FLAG_LOG_APPEND_TIME != 0

    @property
    def segment(self) -> SegmentId:
        """The object that holds it."""
        return SegmentId(self.lease_id, self.sequence)

    def key(self, cluster_id: str) -> str:
        """The object's key."""
        return segment_key(cluster_id, self.segment)

    def describe(self) -> str:
        """In words, for errors."""
        return (
            f"segment {self.segment}, {self.size} bytes at position {self.position} "
            f"(offsets {self.base_offset} to {self.next_offset - 1})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """One partition at one version. Offsets as Kafka means them; read only."""

    topic: str
    topic_id: bytes
    partition: int
    version: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    extents: ExtentTable
    dead: DeadRanges

    @property
    def key(self) -> PartitionKey:
        """Topic id and partition."""
        return self.topic_id, self.partition

    def end_offset(self, *, is_committed: bool) -> int:
        """Where a reader stops: the last stable offset, or the high watermark (S13)."""
        return self.last_stable_offset if is_committed else self.high_watermark

    def pieces(
        self, first_offset: int, end_offset: int, *, is_committed: bool = True
    ) -> Iterator[Piece]:
        """The pieces that meet [first_offset, end_offset), in order of offset.

        Of committed records only (S14): extents in dead ranges are jumped, not looked at one by
        one. `end_offset` is for the caller to keep at or below the last stable offset then.
        """
        extents = self.extents
        index = extents.first_ending_after(first_offset)
        while index < len(extents) and extents.base_offsets[index] < end_offset:
            base_offset = extents.base_offsets[index]
            live_from = self.dead.skip(base_offset) if is_committed else base_offset
            if live_from > base_offset:
                index = bisect_right(extents.next_offsets, live_from, index)
                continue
            yield self.piece(index)
            index += 1

    def piece(self, index: int) -> Piece:
        """The extent with that index."""
        extents = self.extents
        return Piece(
            extents.lease_ids[index],
            extents.sequences[index],
            extents.positions[index],
            extents.sizes[index],
            extents.base_offsets[index],
            extents.next_offsets[index],
            extents.max_timestamps[index],
            extents.transactions[index],
            extents.flags[index],
        )
