"""Reads the extents in a plan and writes their replacements, for both merging and cleaning by key."""

import asyncio
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import accumulate, compress, islice
from typing import Final, TypeAlias

from lacuna.agent.lease import AgentLease
from lacuna.base.setting import MEBIBYTE
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.extents import (
    FLAG_LOG_APPEND_TIME,
    FLAG_TRUE_OFFSETS,
    DeadRanges,
    ExtentTable,
)
from lacuna.controlplane.shared.log.live import live_mask
from lacuna.controlplane.shared.log.pieces import Piece, Pieces, pieces_in
from lacuna.controlplane.shared.log.reads import plan_reads
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.log_pb2 import CompactionRange, Extents, SegmentId, SwapSegment
from lacuna.logstore.objects import ObjectStore, ObjectStoreError
from lacuna.logstore.objects.reading import sort_ranges
from lacuna.logstore.records.layout import TimestampType
from lacuna.logstore.segments import (
    SliceInput,
    WrittenSlice,
    parse_segment_key,
    segment_key,
    write_segment,
)
from lacuna.logstore.segments.merge import LiveRange, MergedRun
from lacuna.logstore.segments.paths import key_in_lease

#: The maximum number of bytes in one read, unless one piece is larger. A read's bytes are all in memory at the same
#: time.
_MAX_READ_BYTES: Final = 2 * MEBIBYTE

#: (lease id, sequence)
SegmentKey: TypeAlias = tuple[int, int]

#: The runs of one partition.
Rewritten: TypeAlias = tuple[TopicPartition, Sequence[MergedRun]]


class FailedError(Exception):
    """Extents could not be read or rewritten. `reasons` maps the objects that caused this to their errors."""

    def __init__(self, reasons: Mapping[SegmentKey, Exception]) -> None:
        super().__init__(reasons)
        self.reasons = reasons


class Rewriting:
    """Reads and writes segments for the control plane's plans. `executor` runs the writes."""

    def __init__(
        self, control: ControlClient, store: ObjectStore, lease: AgentLease, executor: Executor
    ) -> None:
        self._control = control
        self._store = store
        self._lease = lease
        self._executor = executor

    def key_of(self, piece: Piece) -> str:
        return piece.key(self._lease.cluster_id)

    def load(self, pieces: Sequence[Piece]) -> tuple[Sequence[LiveRange], int]:
        """Read pieces, with one read for adjacent pieces of an object. Return the pieces, and how many bytes were read.

        Raises FailedError.
        """
        (loaded,), bytes_read = self.load_all([pieces])
        if isinstance(loaded, FailedError):
            raise loaded
        return loaded, bytes_read

    def load_all(
        self, groups: Sequence[Sequence[Piece]]
    ) -> tuple[Sequence[Sequence[LiveRange] | FailedError], int]:
        """Read groups of pieces together. Adjacent pieces of an object share a read even if they belong to different
        groups.

        Return how many bytes were read and, for each group, its pieces or why some of them could not be read.
        """
        pieces = [piece for group in groups for piece in group]
        columns = Pieces.of(pieces)
        starts = array("q", accumulate(columns.sizes, initial=0))
        order = sort_ranges(columns.lease_ids, columns.sequences, columns.positions)
        reads = plan_reads(
            columns,
            starts,
            order,
            partial(key_in_lease, self._lease.cluster_id),
            read_gap=self._store.read_gap,
            max_read_bytes=_MAX_READ_BYTES,
        )
        data = bytearray(starts[-1])
        outcomes = self._store.get_into(reads, data)
        failures = {
            index: error
            for read, error in enumerate(outcomes)
            if error is not None
            for index in order[reads.firsts[read] : reads.firsts[read + 1]]
        }
        bytes_read = sum(
            span for span, error in zip(reads.spans, outcomes, strict=True) if error is None
        )
        loaded = enumerate(self._ranges(pieces, memoryview(data)))
        return [self._outcome(islice(loaded, len(group)), failures) for group in groups], bytes_read

    def _outcome(
        self, loaded: Iterable[tuple[int, LiveRange]], failures: Mapping[int, ObjectStoreError]
    ) -> Sequence[LiveRange] | FailedError:
        """Return the pieces of a group in order, or a FailedError if any of them could not be read."""
        ranges = []
        reasons: dict[SegmentKey, Exception] = {}
        for index, live in loaded:
            ranges.append(live)
            if index in failures:
                segment = parse_segment_key(live.key)[1]
                reasons[segment.lease_id, segment.sequence] = failures[index]
        return FailedError(reasons) if reasons else ranges

    def _ranges(self, pieces: Sequence[Piece], data: memoryview) -> Iterator[LiveRange]:
        start = 0
        for piece in pieces:
            yield LiveRange(
                key=self.key_of(piece),
                position=piece.position,
                data=data[start : start + piece.size],
                base_offset=piece.base_offset,
                next_offset=piece.next_offset,
                has_true_offsets=piece.has_true_offsets,
            )
            start += piece.size

    async def write(
        self, rewritten: Sequence[Rewritten]
    ) -> tuple[Sequence[SwapSegment], Sequence[Extents | None]]:
        """Write the runs of all partitions as one segment, if there are any.

        Return the segment, and the extents of each partition, or None for a partition of which nothing is left. Raises
        ObjectStoreError and NoLeaseError.
        """
        slices = [
            SliceInput(
                partition.topic_id,
                partition.partition,
                [batch for run in runs for batch in run.batches],
            )
            for partition, runs in rewritten
            if runs
        ]
        if not slices:
            return [], [None] * len(rewritten)
        segment_id = self._lease.next_segment_id()
        segment = write_segment(
            self._lease.cluster_id,
            segment_id,
            slices,
            has_true_offsets=True,
            journal_position=self._control.journal_position,
        )
        key = segment_key(self._lease.cluster_id, segment_id)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, self._store.put, key, segment.parts)
        written: Iterator[WrittenSlice] = iter(segment.slices)
        new = SegmentId(lease_id=segment_id.lease_id, sequence=segment_id.sequence)
        return [SwapSegment(segment=new, object_size=segment.size)], [
            _extents_of(runs, new, next(written).position) if runs else None
            for _, runs in rewritten
        ]


def live_pieces(range_: CompactionRange) -> tuple[ExtentTable, list[Piece]]:
    """Return all extents in a range, and the pieces of the live extents."""
    table = ExtentTable.from_columns(range_.extents)
    is_live = live_mask(table, DeadRanges.from_pairs(range_.dead), 0, len(table))
    return table, [*compress(pieces_in(table, 0, len(table)), is_live)]


def segment_of(piece: Piece) -> SegmentKey:
    return piece.lease_id, piece.sequence


def _extents_of(runs: Sequence[MergedRun], segment: SegmentId, position: int) -> Extents:
    extents = Extents()
    for run in runs:
        extents.lease_ids.append(segment.lease_id)
        extents.sequences.append(segment.sequence)
        extents.positions.append(position + run.position)
        extents.sizes.append(run.size)
        extents.base_offsets.append(run.base_offset)
        extents.next_offsets.append(run.next_offset)
        extents.max_timestamps.append(run.max_timestamp)
        extents.producer_ids.append(-1)
        extents.producer_epochs.append(-1)
        extents.transactions.append(0)
        is_append_time = run.timestamp_type is TimestampType.LOG_APPEND_TIME
        extents.flags.append(FLAG_TRUE_OFFSETS | (FLAG_LOG_APPEND_TIME if is_append_time else 0))
    return extents
