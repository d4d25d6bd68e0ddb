"""Merging: turns many small extents into a few large ones, without the aborted records among them.

The control plane plans a merge and checks its result. The agent reads the extents, merges them
(lacuna.logstore.segments.merge, which jobs use too) and writes one segment for several partitions. If the extents of a
partition changed in the meantime, only that partition is rejected, and its part of the segment is garbage to be
collected. If an object of a partition is missing or damaged, only that partition is skipped. The next plans leave out
the object and merge the extents before and after it.
"""

import asyncio
import logging
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TypeAlias

from lacuna.agent.hot import Holding, nothing_held
from lacuna.agent.housekeeping.set_aside import SetAside
from lacuna.agent.lease import AgentLease
from lacuna.base.setting import LARGEST_INT, MEBIBYTE, check_settings, setting
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
from lacuna.logstore.segments import (
    CorruptSegmentError,
    SliceInput,
    WrittenSlice,
    parse_segment_key,
    segment_key,
    write_segment,
)
from lacuna.logstore.segments import SegmentId as StoredSegmentId
from lacuna.logstore.segments.merge import LiveRange, MergedRun, merge_ranges
from lacuna.logstore.segments.paths import key_in_lease

log = logging.getLogger("lacuna.housekeeping")

#: (lease id, sequence)
SegmentKey: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """The bounds of a merge plan; sizes in bytes. Raises SettingsError."""

    max_bytes: int = setting(
        "merge.max.bytes",
        32 * MEBIBYTE,
        "The approximate number of bytes that one merge reads and writes at most.",
        least=1,
    )
    small_bytes: int = setting(
        "merge.small.bytes", 256 << 10, "Extents below this count as small and may be merged."
    )
    min_extents: int = setting(
        "merge.min.extents",
        32,
        "How many small extents a partition needs before the agent merges them.",
        least=1,
        most=LARGEST_INT,
    )
    min_age_ms: int = setting(
        "merge.min.age.ms",
        60_000,
        "Only records that have been stable for this long are merged, so that read_uncommitted consumers see aborted "
        "records for at least that long.",
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """The result of one merge: counts, and sizes in bytes.

    `refused` partitions are among `partitions`. `failed` ones are not: some of their objects could not be merged, and
    `last_failure` describes one of these failures. `bytes_read` includes the bytes between live extents.
    """

    partitions: int = 0
    refused: int = 0
    failed: int = 0
    last_failure: str = ""
    extents_before: int = 0
    extents_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __str__(self) -> str:
        refused = f", {self.refused} of them rejected" if self.refused else ""
        failed = f" ({self.failed} more failed)" if self.failed else ""
        return (
            f"partitions: {self.partitions}{refused}{failed}; extents: {self.extents_before} to {self.extents_after}; "
            f"{self.bytes_read} bytes read, {self.bytes_written} written"
        )


@dataclass(frozen=True, slots=True)
class _Merged:
    """One planned partition, and the runs into which its live extents were merged."""

    plan: MergePlanPartition
    runs: Sequence[MergedRun]


class _FailedError(Exception):
    """The objects because of which one partition could not be merged, each with the reason."""

    def __init__(self, reasons: Mapping[SegmentKey, Exception]) -> None:
        super().__init__(reasons)
        self.reasons = reasons


class Merger:
    """Carries out the control plane's merge plans. `executor` runs the reads, the merge and the write."""

    def __init__(
        self,
        control: ControlClient,
        store: ObjectStore,
        lease: AgentLease,
        executor: Executor,
        settings: MergeSettings,
        holding: Holding = nothing_held,
    ) -> None:
        self._control = control
        self._store = store
        self._lease = lease
        self._executor = executor
        self._settings = settings
        self._holding = holding
        #: The segments that cannot be read or merged.
        self.set_aside: SetAside[SegmentKey] = SetAside("merging")

    async def run_once(self) -> MergeReport | None:
        """Get one plan, merge its extents and swap them for the result. Return None if there was nothing worth merging.

        Raises ControlPlaneUnavailable, NoLeaseError or ObjectStoreError, in which case nothing has changed.
        """
        loop = asyncio.get_running_loop()
        request = PlanMerge(
            lease_id=self._lease.lease_id,
            max_bytes=self._settings.max_bytes,
            small_bytes=self._settings.small_bytes,
            min_extents=self._settings.min_extents,
            min_age_ms=self._settings.min_age_ms,
            avoided=segment_messages(self.set_aside.at(loop.time())),
        )
        plan = (await self._control.call(Command(plan_merge=request))).merge_plan
        if plan.error_code != ErrorCode.NONE or not plan.partitions:
            return None
        async with self._holding(self._keys_in(plan.partitions)):
            merged, bytes_read, reasons = await loop.run_in_executor(
                self._executor, self._merge, plan.partitions
            )
        self._note(merged, reasons)
        failed = len(plan.partitions) - len(merged)
        last_failure = "".join(str(error) for error in list(reasons.values())[-1:])
        if not merged:
            return MergeReport(failed=failed, last_failure=last_failure)
        swap, bytes_written = await self._write(merged)
        reply = (await self._control.call(Command(swap_extents=swap))).extents_swapped
        if reply.error_code != ErrorCode.NONE:
            return None
        refused = sum(code != ErrorCode.NONE for code in reply.error_codes)
        return MergeReport(
            partitions=len(merged),
            refused=refused,
            failed=failed,
            last_failure=last_failure,
            extents_before=sum(len(each.plan.extents.base_offsets) for each in merged),
            extents_after=sum(len(each.runs) for each in merged),
            bytes_read=bytes_read,
            bytes_written=bytes_written,
        )

    def _note(self, merged: Sequence[_Merged], reasons: Mapping[SegmentKey, Exception]) -> None:
        """Remember which segments failed, and which did not."""
        now = asyncio.get_running_loop().time()
        if len(self.set_aside):
            for each in merged:
                extents = each.plan.extents
                for key in zip(extents.lease_ids, extents.sequences, strict=True):
                    self.set_aside.discard(key)
        for segment, error in reasons.items():
            name = segment_key(self._lease.cluster_id, StoredSegmentId(*segment))
            self.set_aside.add(segment, name, error, now)

    def _keys_in(self, partitions: Iterable[MergePlanPartition]) -> Iterator[str]:
        for each in partitions:
            for piece in live_pieces(each):
                yield self._key_of(piece)

    def _merge(
        self, partitions: Sequence[MergePlanPartition]
    ) -> tuple[list[_Merged], int, dict[SegmentKey, Exception]]:
        """Merge each partition independently. Return the merged ones, the bytes read, and the segments' errors."""
        merged = []
        bytes_read = 0
        reasons: dict[SegmentKey, Exception] = {}
        for plan in partitions:
            live = live_pieces(plan)
            try:
                data, reads = self._load(live)
                bytes_read += sum(reads.spans)
                merged.append(_Merged(plan, self._merge_live(plan, live, data)))
            except _FailedError as failed:
                reasons.update(failed.reasons)
        return merged, bytes_read, reasons

    def _merge_live(
        self, plan: MergePlanPartition, live: Sequence[Piece], data: memoryview
    ) -> list[MergedRun]:
        try:
            return list(merge_ranges(self._ranges(live, data), plan.end_offset))
        except CorruptSegmentError as error:
            damaged = parse_segment_key(error.key)[1]
            raise _FailedError({(damaged.lease_id, damaged.sequence): error}) from error
        except Exception as error:
            # A bug that these batches trigger would otherwise stop all merging.
            log.exception("unexpected error in merging, please report it")
            raise _FailedError({_segment_of(piece): error for piece in live}) from error

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
        outcomes = zip(reads.keys, self._store.get_into(reads, data), strict=True)
        failures = {key: error for key, error in outcomes if error is not None}
        if failures:
            raise _FailedError(
                {
                    _segment_of(piece): failures[self._key_of(piece)]
                    for piece in pieces
                    if self._key_of(piece) in failures
                }
            )
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
        """Write the merged batches, if any. Return the command that swaps them in, and the size written."""
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


def _segment_of(piece: Piece) -> SegmentKey:
    return piece.lease_id, piece.sequence


def segment_messages(segments: Iterable[SegmentKey]) -> Iterator[SegmentId]:
    """Yield the segments as messages."""
    for lease_id, sequence in segments:
        yield SegmentId(lease_id=lease_id, sequence=sequence)


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
