"""Reads the extents of a plan, and writes what becomes of them: what merging and cleaning by key have in common."""

import asyncio
from array import array
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import accumulate
from typing import TypeAlias

from lacuna.agent.lease import AgentLease
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.extents import FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS
from lacuna.controlplane.shared.log.pieces import Piece, Pieces
from lacuna.controlplane.shared.log.reads import plan_reads
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.log_pb2 import Extents, SegmentId, SwapSegment
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.objects.store import Reads
from lacuna.logstore.records.layout import TimestampType
from lacuna.logstore.segments import SliceInput, WrittenSlice, segment_key, write_segment
from lacuna.logstore.segments.merge import LiveRange, MergedRun
from lacuna.logstore.segments.paths import key_in_lease

#: (lease id, sequence)
SegmentKey: TypeAlias = tuple[int, int]

#: The runs of one partition.
Rewritten: TypeAlias = tuple[TopicPartition, Sequence[MergedRun]]


class FailedError(Exception):
    """The objects because of which extents could not be read or rewritten, each with the reason."""

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
        """Return the key of the object with a piece."""
        return piece.key(self._lease.cluster_id)

    def load(self, pieces: Sequence[Piece]) -> tuple[Sequence[LiveRange], Reads]:
        """Read the pieces, one after another; neighbours in an object share a read. Raises FailedError."""
        starts = array("q", accumulate((piece.size for piece in pieces), initial=0))
        data = bytearray(starts[-1])
        reads = plan_reads(
            Pieces.of(pieces),
            starts,
            array("q", range(len(pieces))),
            partial(key_in_lease, self._lease.cluster_id),
            read_gap=self._store.read_gap,
        )
        outcomes = zip(reads.keys, self._store.get_into(reads, data), strict=True)
        failures = {key: error for key, error in outcomes if error is not None}
        if failures:
            raise FailedError(
                {
                    segment_of(piece): failures[self.key_of(piece)]
                    for piece in pieces
                    if self.key_of(piece) in failures
                }
            )
        return list(self._ranges(pieces, memoryview(data))), reads

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

        Return the segment, and the extents of each partition, None if nothing is left of it. Raises ObjectStoreError,
        NoLeaseError.
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


def segment_of(piece: Piece) -> SegmentKey:
    """Return the segment with a piece."""
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
