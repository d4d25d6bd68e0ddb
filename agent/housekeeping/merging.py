"""Merging: many small extents become few large ones, without the aborted records among them.

The control plane plans and fences, this reads, merges (logstore.segments.merge, the same that runs at
scale elsewhere) and writes one segment of several partitions. A partition whose extents changed meanwhile
is refused alone; what was written for it is garbage that the collector finds.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from agent.lease import AgentLease
from controlplane.client import ControlClient
from controlplane.errors import ErrorCode
from controlplane.extents import FLAG_LOG_APPEND_TIME, FLAG_TRUE_OFFSETS, DeadRanges
from controlplane.v1.control_pb2 import Command
from controlplane.v1.log_pb2 import (
    Extents,
    ExtentSwap,
    MergePlanPartition,
    PlanMerge,
    SegmentId,
    SwapExtents,
    SwapPartition,
)
from logstore.objects import ObjectStore
from logstore.records.layout import TimestampType
from logstore.segments import SegmentId as StoredSegmentId
from logstore.segments import SliceInput, WrittenSlice, segment_key, write_segment
from logstore.segments.merge import LiveRange, MergedRun, merge_ranges

log = logging.getLogger("lacuna.housekeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """Sizes in bytes: of a plan, and below which an extent counts as small.

    What became stable less than `min_age_ms` ago is left alone: read_uncommitted consumers see aborted
    records for at least as long (S14). 0: everything below the last stable offset.
    """

    max_bytes: int = 32 << 20
    small_bytes: int = 256 << 10
    min_extents: int = 32
    min_age_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """What one merge did; sizes in bytes."""

    partitions: int = 0
    refused: int = 0
    extents_before: int = 0
    extents_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class _Merged:
    """One planned partition and what its live extents became."""

    plan: MergePlanPartition
    runs: Sequence[MergedRun]


class Merger:
    """Merges what the control plane plans. `executor` runs the reads, the merge and the write."""

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
        """One plan, merged and swapped; None where nothing was worth it.

        Raises ControlPlaneUnavailable, NoLeaseError, ObjectStoreError, CorruptSegmentError: nothing has changed then.
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
            live = list(live_extents(plan))
            bytes_read += sum(plan.extents.sizes[index] for index in live)
            runs = list(merge_ranges(self._read(plan.extents, live), plan.end_offset))
            merged.append(_Merged(plan, runs))
        return merged, bytes_read

    def _read(self, extents: Extents, live: Sequence[int]) -> Iterator[LiveRange]:
        """The extents with these indexes, neighbours in one object by one read."""
        for group in _neighbours(extents, live, self._store.read_gap):
            first, last = group[0], group[-1]
            start = extents.positions[first]
            size = extents.positions[last] + extents.sizes[last] - start
            segment = StoredSegmentId(extents.lease_ids[first], extents.sequences[first])
            key = segment_key(self._lease.cluster_id, segment)
            data = memoryview(self._store.get(key, start, size))
            for index in group:
                offset = extents.positions[index] - start
                yield LiveRange(
                    key=key,
                    position=extents.positions[index],
                    data=data[offset : offset + extents.sizes[index]],
                    base_offset=extents.base_offsets[index],
                    next_offset=extents.next_offsets[index],
                    has_true_offsets=bool(extents.flags[index] & FLAG_TRUE_OFFSETS),
                )

    async def _write(self, merged: Sequence[_Merged]) -> tuple[SwapExtents, int]:
        """Writes what is left, if anything is, and says what takes whose place."""
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
                self._lease.cluster_id, segment_id, slices, has_true_offsets=True
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


def live_extents(plan: MergePlanPartition) -> Iterator[int]:
    """Indexes of the planned extents that were not aborted; an extent is dead as a whole or not."""
    dead = DeadRanges()
    for first, end in zip(plan.dead_first_offsets, plan.dead_end_offsets, strict=True):
        dead.add(first, end)
    for index, base_offset in enumerate(plan.extents.base_offsets):
        if dead.skip(base_offset) == base_offset:
            yield index


def _neighbours(extents: Extents, live: Sequence[int], read_gap: int) -> Iterator[list[int]]:
    group: list[int] = []
    for index in live:
        if group and not _is_near(extents, group[-1], index, read_gap):
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def _is_near(extents: Extents, before: int, index: int, read_gap: int) -> bool:
    same_object = (
        extents.lease_ids[before] == extents.lease_ids[index]
        and extents.sequences[before] == extents.sequences[index]
    )
    gap = extents.positions[index] - extents.positions[before] - extents.sizes[before]
    return same_object and 0 <= gap <= read_gap


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
