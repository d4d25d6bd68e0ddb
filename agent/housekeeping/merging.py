"""Merging: turns many small extents into few large ones, without the aborted records among them.

The control plane plans a merge and checks its result. The agent reads the extents, merges them
(lacuna.logstore.segments.merge, which jobs use too) and writes one segment for several partitions. If the extents of
a partition changed meanwhile, only that partition is refused; what was written for it is garbage to be collected.
"""

import asyncio
import logging
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from lacuna.agent.lease import AgentLease
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import (
    FLAG_LOG_APPEND_TIME,
    FLAG_TRUE_OFFSETS,
    DeadRanges,
    ExtentTable,
)
from lacuna.controlplane.shared.log.live import live_slices
from lacuna.controlplane.shared.log.pieces import Piece, Pieces, pieces_in
from lacuna.controlplane.shared.log.reads import plan_reads
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import (
    Extents,
    ExtentSwap,
    MergePlanPartition,
    PlanMerge,
    SegmentId,
    SwapExtents,
    SwapPartition,
)
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.objects.store import Reads
from lacuna.logstore.records.layout import TimestampType
from lacuna.logstore.segments import SliceInput, WrittenSlice, segment_key, write_segment
from lacuna.logstore.segments.merge import LiveRange, MergedRun, merge_ranges
from lacuna.logstore.segments.paths import key_in_lease
from lacuna.setting import LARGEST_INT, MEBIBYTE, check_settings, setting

log = logging.getLogger("lacuna.housekeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """What a merge plan may contain; sizes in bytes. Raises SettingsError."""

    max_bytes: int = setting(
        "merge.max.bytes", 32 * MEBIBYTE, "About the most that one merge reads and writes.", least=1
    )
    small_bytes: int = setting(
        "merge.small.bytes", 256 << 10, "Extents below this count as small and may be merged."
    )
    min_extents: int = setting(
        "merge.min.extents",
        32,
        "How many small extents a partition needs to be merged.",
        least=1,
        most=LARGEST_INT,
    )
    min_age_ms: int = setting(
        "merge.min.age.ms",
        60_000,
        "Records that became stable less than this ago are not merged, so that read_uncommitted consumers see "
        "aborted records for at least that long.",
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """The result of one merge: counts, and sizes in bytes.

    `refused` partitions are among `partitions`. `bytes_read` includes the bytes between live extents."""

    partitions: int = 0
    refused: int = 0
    extents_before: int = 0
    extents_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __str__(self) -> str:
        refused = f", {self.refused} of them refused" if self.refused else ""
        return (
            f"partitions: {self.partitions}{refused}; extents: {self.extents_before} to {self.extents_after}; "
            f"{self.bytes_read} bytes read, {self.bytes_written} written"
        )


@dataclass(frozen=True, slots=True)
class _Merged:
    """One planned partition, and the runs into which its live extents were merged."""

    plan: MergePlanPartition
    runs: Sequence[MergedRun]


class Merger:
    """Carries out the control plane's merge plans. `executor` runs the reads, the merge and the write."""

    def __init__(
        self,
        control: ControlClient,
        store: ObjectStore,
        lease: AgentLease,
        executor: Executor,
        settings: MergeSettings,
    ) -> None:
        self._control = control
        self._store = store
        self._lease = lease
        self._executor = executor
        self._settings = settings

    async def run_once(self) -> MergeReport | None:
        """Ask for one plan, merge its extents and swap them for the result; None if there was nothing worth merging.

        Raises ControlPlaneUnavailable, NoLeaseError, ObjectStoreError or CorruptSegmentError; nothing has changed then.
        """
        request = PlanMerge(
            lease_id=self._lease.lease_id,
            max_bytes=self._settings.max_bytes,
            small_bytes=self._settings.small_bytes,
            min_extents=self._settings.min_extents,
            min_age_ms=self._settings.min_age_ms,
        )
        plan = (await self._control.call(Command(plan_merge=request))).merge_plan
        if plan.error_code != ErrorCode.NONE or not plan.partitions:
            return None
        loop = asyncio.get_running_loop()
        merged, bytes_read = await loop.run_in_executor(
            self._executor, self._merge, plan.partitions
        )
        swap, bytes_written = await self._write(merged)
        reply = (await self._control.call(Command(swap_extents=swap))).extents_swapped
        if reply.error_code != ErrorCode.NONE:
            return None
        refused = sum(code != ErrorCode.NONE for code in reply.error_codes)
        return MergeReport(
            partitions=len(merged),
            refused=refused,
            extents_before=sum(len(each.plan.extents.base_offsets) for each in merged),
            extents_after=sum(len(each.runs) for each in merged),
            bytes_read=bytes_read,
            bytes_written=bytes_written,
        )

    def _merge(self, partitions: Sequence[MergePlanPartition]) -> tuple[list[_Merged], int]:
        merged = []
        bytes_read = 0
        for plan in partitions:
            live = live_pieces(plan)
            data, reads = self._load(live)
            bytes_read += sum(reads.spans)
            runs = list(merge_ranges(self._ranges(live, data), plan.end_offset))
            merged.append(_Merged(plan, runs))
        return merged, bytes_read

    def _load(self, pieces: Sequence[Piece]) -> tuple[memoryview, Reads]:
        """Read the pieces into one buffer, one after another; neighbours in an object share a read."""
        starts = array("q", accumulate((piece.size for piece in pieces), initial=0))
        data = bytearray(starts[-1])
        reads = plan_reads(
            Pieces.of(pieces),
            starts,
            array("q", range(len(pieces))),
            partial(key_in_lease, self._lease.cluster_id),
            read_gap=self._store.read_gap,
        )
        for error in self._store.get_into(reads, data):
            if error is not None:
                raise error
        return memoryview(data), reads

    def _ranges(self, pieces: Sequence[Piece], data: memoryview) -> Iterator[LiveRange]:
        start = 0
        for piece in pieces:
            yield LiveRange(
                key=self._key_of(piece),
                position=piece.position,
                data=data[start : start + piece.size],
                base_offset=piece.base_offset,
                next_offset=piece.next_offset,
                has_true_offsets=piece.has_true_offsets,
            )
            start += piece.size

    def _key_of(self, piece: Piece) -> str:
        return piece.key(self._lease.cluster_id)

    async def _write(self, merged: Sequence[_Merged]) -> tuple[SwapExtents, int]:
        """Write the merged batches, if there are any; return the command that swaps them in, and the size written."""
        slices = [
            SliceInput(
                each.plan.partition.topic_id,
                each.plan.partition.partition,
                [batch for run in each.runs for batch in run.batches],
            )
            for each in merged
            if each.runs
        ]
        swap = SwapExtents()
        written: Iterator[WrittenSlice] = iter(())
        if slices:
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
            written = iter(segment.slices)
            new = swap.segments.add(object_size=segment.size)
            new.segment.lease_id = segment_id.lease_id
            new.segment.sequence = segment_id.sequence
        for each in merged:
            position = next(written).position if each.runs else 0
            extents = (
                _extents_of(each.runs, swap.segments[0].segment, position) if each.runs else None
            )
            swap.partitions.append(
                SwapPartition(
                    partition=each.plan.partition,
                    replaced=each.plan.extents,
                    swap=ExtentSwap(
                        first_offset=each.plan.first_offset,
                        end_offset=each.plan.end_offset,
                        extents=extents,
                    ),
                )
            )
        return swap, sum(new.object_size for new in swap.segments)


def live_pieces(plan: MergePlanPartition) -> list[Piece]:
    """Return the planned extents that were not aborted."""
    dead = DeadRanges()
    for first, end in zip(plan.dead_first_offsets, plan.dead_end_offsets, strict=True):
        dead.add(first, end)
    extents = ExtentTable()
    extents.append(plan.extents)
    slices = live_slices(extents, dead, 0, len(extents))
    return [piece for start, stop in slices for piece in pieces_in(extents, start, stop)]


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
