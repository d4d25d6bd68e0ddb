"""The metadata of one partition, and the pieces of it that a job reads. Nothing here has side effects."""

from collections.abc import Iterator
from dataclasses import dataclass

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.history import History
from lacuna.controlplane.shared.log.live import late_extents, live_slices
from lacuna.controlplane.shared.log.pieces import Piece, piece_at, pieces_in
from lacuna.controlplane.shared.partitions import PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """One version of a partition's metadata: its bounds, extents and dead ranges. Must not be modified.

    No live record was lost between the log start offset and `vacated_to`; the first extent begins at or below the
    larger of the two.
    """

    topic: str
    topic_id: bytes
    partition: int
    version: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    extents: ExtentTable
    dead: DeadRanges
    vacated_to: int = 0
    #: Past last stable offsets; only in metadata from the bucket.
    history: History | None = None
    #: The end in the cut of all topics; only in metadata from the bucket.
    cut: int | None = None

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition

    def end_offset(self, *, is_committed: bool) -> int:
        """Returns where a reader stops: the last stable offset if `is_committed`, else the high watermark (S13)."""
        return self.last_stable_offset if is_committed else self.high_watermark

    def pieces(
        self, first_offset: int, end_offset: int, *, is_committed: bool = True
    ) -> Iterator[Piece]:
        """Yields the pieces that overlap the offsets [first_offset, end_offset), in offset order.

        With `is_committed`, aborted records are omitted (S14), and `end_offset` must not exceed the last stable offset.
        """
        for start, stop in self.slices(first_offset, end_offset, is_committed=is_committed):
            yield from pieces_in(self.extents, start, stop)

    def slices(
        self, first_offset: int, end_offset: int, *, is_committed: bool
    ) -> Iterator[tuple[int, int]]:
        """Yields the index ranges [start, stop) of the extents that `pieces` yields, without dead ranges (S18)."""
        start, stop = self._indexes(first_offset, end_offset)
        return live_slices(self.extents, self.dead if is_committed else None, start, stop)

    def late_pieces(
        self, first_offset: int, end_offset: int, timestamp: int, *, is_committed: bool
    ) -> Iterator[Piece]:
        """Yields the pieces that may hold a record from `timestamp` (in ms) or later, in offset order."""
        start, stop = self._indexes(first_offset, end_offset)
        dead = self.dead if is_committed else None
        for index in late_extents(self.extents, dead, start, stop, timestamp):
            yield self.piece(index)

    def piece(self, index: int) -> Piece:
        return piece_at(self.extents, index)

    def _indexes(self, first_offset: int, end_offset: int) -> tuple[int, int]:
        extents = self.extents
        start = extents.first_ending_after(first_offset)
        # An empty range may lie inside an extent.
        return start, extents.first_at_or_after(end_offset) if first_offset < end_offset else start
