"""Appends segments to the copy's partitions, and reads where the partitions end.

An importer is a job with a lease. It writes objects under the lease, and commits them in order with ImportSegment.
Copying resumes at the end of each partition, so no other state is needed.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Final

from lacuna.base.errors import UserError
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.batches import SLICE_VERDICT
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import (
    EXTENT_ROW,
    FLAG_ABORTED_BEFORE,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRUE_OFFSETS,
    LARGEST_EXTENT_BYTES,
)
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import (
    ImportReport,
    OpenLease,
    ReleaseLease,
    RenewLease,
    TopicPartition,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import (
    ImportedSlice,
    ImportSegment,
    PartitionState,
    ReadPartitions,
)
from lacuna.controlplane.v1.log_pb2 import SegmentId as SegmentIdMessage
from lacuna.importing.batches import Copy
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.segments import SegmentId, SliceInput, WrittenSlice, segment_key, write_segment

#: How long the lease lasts without renewal, before other importers take over the partitions.
_LEASE_MS: Final = 15_000


class TargetFailed(UserError):
    """The target did not accept a segment. A retry from the ends of its partitions may succeed."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Batches to append to a partition, which fill [first_offset, end_offset) except for holes.

    `source` is the topic that the partition mirrors. `next_epoch` is the leader epoch of the last batch at the source,
    plus one.
    """

    key: PartitionKey
    source: str
    first_offset: int
    end_offset: int
    next_epoch: int
    copies: Sequence[Copy]


class Target:
    """The cluster that receives the copy. Call `open`, which takes a lease, first, and `close` last."""

    def __init__(self, control: ControlClient, store: ObjectStore) -> None:
        self._control = control
        self._store = store
        self._lease_id = 0
        self._sequence = 0
        self._cluster_id = ""

    async def open(self) -> None:
        """Take a lease. Raises ControlPlaneUnavailable, CommandRefused."""
        reply = await self._control.call(Command(open_lease=OpenLease(duration_ms=_LEASE_MS)))
        self._lease_id = reply.lease_opened.lease_id
        self._cluster_id = reply.lease_opened.cluster_id
        self._sequence = 0

    async def close(self) -> None:
        """End the lease, so that uncommitted objects are collected."""
        release = ReleaseLease(lease_id=self._lease_id)
        await self._control.call(Command(release_lease=release))

    async def renew(self, report: ImportReport | None) -> Sequence[int]:
        """Renew the lease, and return the leases of all importers that share the partitions.

        Without a report, this importer shares nothing, and only its own lease is returned. Raises TargetFailed if the
        lease has ended.
        """
        command = Command(renew_lease=RenewLease(lease_id=self._lease_id, import_report=report))
        renewed = (await self._control.call(command)).lease_renewed
        if renewed.error_code:
            raise TargetFailed("the importer's lease has expired, as happens after a long pause")
        return list(renewed.workers) or [self._lease_id]

    def owns(self, key: PartitionKey, workers: Sequence[int]) -> bool:
        """Whether this importer, rather than one of the other `workers`, copies a partition.

        When an importer starts or ends, only the partitions that it takes or leaves change hands.
        """
        topic_id, index = key

        def weight(worker: int) -> bytes:
            # Not a checksum: for two importers, it would differ in the same bits for every partition.
            return blake2b(b"%d %d" % (worker, index) + topic_id, digest_size=8).digest()

        return max(workers, key=weight) == self._lease_id

    async def ends(self, keys: Sequence[PartitionKey]) -> list[PartitionState]:
        wanted = [TopicPartition(topic_id=topic_id, partition=index) for topic_id, index in keys]
        command = Command(read_partitions=ReadPartitions(partitions=wanted))
        return list((await self._control.call(command)).partitions_read.partitions)

    async def put(self, stretches: Sequence[Stretch]) -> ImportSegment:
        """Write the stretches as one object, unless they are all holes, and return the command that commits them."""
        self._sequence += 1
        segment_id = SegmentId(self._lease_id, self._sequence)
        return await asyncio.to_thread(self._put, segment_id, stretches)

    def _put(self, segment_id: SegmentId, stretches: Sequence[Stretch]) -> ImportSegment:
        inputs = [
            SliceInput(*each.key, [copy.data for copy in each.copies])
            for each in stretches
            if each.copies
        ]
        command = ImportSegment(
            segment=SegmentIdMessage(lease_id=segment_id.lease_id, sequence=segment_id.sequence)
        )
        places: Iterator[WrittenSlice] = iter(())
        if inputs:
            written = write_segment(self._cluster_id, segment_id, inputs, has_true_offsets=True)
            self._store.put(segment_key(self._cluster_id, segment_id), written.parts)
            command.object_size = written.size
            places = iter(written.slices)
        for each in stretches:
            extents = _extents(segment_id, each.copies, next(places)) if each.copies else b""
            command.slices.append(_slice(each, extents))
        return command

    async def commit(self, command: ImportSegment) -> list[int]:
        """Commit a segment, and return an error code for each of its slices. Raises TargetFailed."""
        reply = await self._control.call(Command(import_segment=command))
        committed = reply.segment_committed
        if committed.error_code:
            name = ErrorCode(committed.error_code).name
            raise TargetFailed(f"the control plane rejected a segment from the importer: {name}")
        return [code for code, _, _ in SLICE_VERDICT.iter_unpack(committed.slices)]


def _slice(stretch: Stretch, extents: bytes) -> ImportedSlice:
    topic_id, index = stretch.key
    return ImportedSlice(
        partition=TopicPartition(topic_id=topic_id, partition=index),
        source=stretch.source,
        first_offset=stretch.first_offset,
        end_offset=stretch.end_offset,
        extents=extents,
        next_epoch=stretch.next_epoch,
    )


def _extents(segment_id: SegmentId, copies: Sequence[Copy], written: WrittenSlice) -> bytes:
    """Return the extent rows: runs of batches with equal flags, of at most 1 MiB unless a single batch is larger."""
    starts = [0]
    size = 0
    for index, (copy, batch_size) in enumerate(zip(copies, written.batch_sizes, strict=True)):
        is_same = _flags(copy) == _flags(copies[starts[-1]])
        if size and (not is_same or size + batch_size > LARGEST_EXTENT_BYTES):
            starts.append(index)
            size = 0
        size += batch_size
    rows = []
    for start, stop in pairwise((*starts, len(copies))):
        first, last = copies[start], copies[stop - 1]
        rows.append(
            EXTENT_ROW.pack(
                segment_id.lease_id,
                segment_id.sequence,
                written.batch_positions[start],
                sum(written.batch_sizes[start:stop]),
                first.base_offset,
                last.next_offset,
                max(copy.max_timestamp for copy in copies[start:stop]),
                -1,
                -1,
                0,
                _flags(first),
            )
        )
    return b"".join(rows)


def _flags(copy: Copy) -> int:
    return (
        FLAG_TRUE_OFFSETS
        | (FLAG_LOG_APPEND_TIME if copy.is_log_append_time else 0)
        | (FLAG_ABORTED_BEFORE if copy.is_aborted else 0)
    )
