"""Merging: joins many small extents into a few large ones, and leaves out aborted records.

In topics that are compacted by key, a merge also leaves out records that later records in the same merge supersede.

The control plane plans a merge and checks its result. The agent reads the extents, merges them with
lacuna.logstore.segments.merge, as jobs do, and writes one segment for several partitions. If the extents of a partition
have changed in the meantime, only that partition is rejected, and its part of the segment becomes garbage. If an object
of a partition is missing or damaged, only that partition is skipped. The next plans leave out the object and merge the
extents before and after it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from lacuna.agent.hot import Holding, nothing_held
from lacuna.agent.housekeeping.rewriting import (
    FailedError,
    Rewriting,
    SegmentKey,
    live_pieces,
    segment_of,
)
from lacuna.agent.housekeeping.set_aside import SetAside
from lacuna.agent.lease import AgentLease
from lacuna.base.setting import LARGEST_INT, MEBIBYTE, check_settings, setting
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import (
    CompactionRange,
    Extents,
    ExtentSwap,
    PlanMerge,
    SegmentId,
    SwapExtents,
    SwapPartition,
)
from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.records.rewriting import KeyTable
from lacuna.logstore.segments import CorruptSegmentError, parse_segment_key, segment_key
from lacuna.logstore.segments import SegmentId as StoredSegmentId
from lacuna.logstore.segments.merge import (
    LiveRange,
    MergedRun,
    merge_ranges,
    note_keys,
    sweep_keys,
    with_true_offsets,
)

log = logging.getLogger("lacuna.housekeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """The bounds of a merge plan; sizes in bytes. Raises SettingsError."""

    max_bytes: int = setting(
        "merge.max.bytes",
        64 * MEBIBYTE,
        "The approximate maximum number of live bytes in one merge, which holds them in memory twice.",
        least=1,
    )
    small_bytes: int = setting(
        "merge.small.bytes",
        256 << 10,
        "Extents smaller than this may be merged. An extent that is itself the result of a merge must be smaller "
        "than half of this.",
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

    `partitions` includes the `refused` partitions, but not the `failed` ones, which have objects that could not be
    merged; `last_failure` describes one such failure. `bytes_read` includes the bytes between live extents.
    `superseded` counts records that were left out because later records in the same merge have the same keys.
    """

    partitions: int = 0
    refused: int = 0
    failed: int = 0
    last_failure: str = ""
    extents_before: int = 0
    extents_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    superseded: int = 0

    def __str__(self) -> str:
        refused = f", {self.refused} of them rejected" if self.refused else ""
        failed = f" ({self.failed} more failed)" if self.failed else ""
        return (
            f"partitions: {self.partitions}{refused}{failed}; extents: {self.extents_before} to {self.extents_after}; "
            f"{self.bytes_read} bytes read, {self.bytes_written} written"
        )


class _Planned:
    """A partition in a plan, with all its planned extents and those that are live."""

    def __init__(self, plan: CompactionRange) -> None:
        self.plan = plan
        self.extents, self.live = live_pieces(plan)


@dataclass(frozen=True, slots=True)
class _Merged:
    """A planned partition, and the runs into which its live extents were merged."""

    planned: _Planned
    runs: Sequence[MergedRun]
    superseded: int


class Merger:
    """Carries out the control plane's merge plans. `executor` runs the reads, the merge and the write.

    If `new_table` is given, merges in topics that are compacted by key also leave out superseded records.
    """

    def __init__(
        self,
        control: ControlClient,
        store: ObjectStore,
        lease: AgentLease,
        executor: Executor,
        settings: MergeSettings,
        holding: Holding = nothing_held,
        new_table: Callable[[], KeyTable] | None = None,
    ) -> None:
        self._control = control
        self._lease = lease
        self._executor = executor
        self._settings = settings
        self._new_table = new_table
        self._rewriting = Rewriting(control, store, lease, executor)
        self._holding = holding
        #: The segments that cannot be read or merged.
        self.set_aside: SetAside[SegmentKey] = SetAside("merging")

    async def run_once(self) -> MergeReport | None:
        """Get one plan, merge its extents, and swap them for the result. Return None if nothing was worth merging.

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
        planned = await loop.run_in_executor(
            self._executor, lambda: [_Planned(each) for each in plan.partitions]
        )
        keys = (self._rewriting.key_of(piece) for each in planned for piece in each.live)
        async with self._holding(keys):
            merged, bytes_read, reasons = await loop.run_in_executor(
                self._executor, self._merge, planned
            )
        self._note(merged, reasons)
        failed = len(planned) - len(merged)
        last_failure = "".join(str(error) for error in list(reasons.values())[-1:])
        if not merged:
            return MergeReport(failed=failed, last_failure=last_failure)
        swap = await self._write(merged)
        reply = (await self._control.call(Command(swap_extents=swap))).extents_swapped
        if reply.error_code != ErrorCode.NONE:
            return None
        refused = sum(code != ErrorCode.NONE for code in reply.error_codes)
        return MergeReport(
            partitions=len(merged),
            refused=refused,
            failed=failed,
            last_failure=last_failure,
            extents_before=sum(len(each.planned.extents) for each in merged),
            extents_after=sum(len(each.runs) for each in merged),
            bytes_read=bytes_read,
            bytes_written=sum(new.object_size for new in swap.segments),
            superseded=sum(each.superseded for each in merged),
        )

    def _note(self, merged: Sequence[_Merged], reasons: Mapping[SegmentKey, Exception]) -> None:
        """Set aside the segments that failed, and release those that were merged."""
        now = asyncio.get_running_loop().time()
        if len(self.set_aside):
            for each in merged:
                extents = each.planned.extents
                for key in zip(extents.lease_ids, extents.sequences, strict=True):
                    self.set_aside.discard(key)
        for segment, error in reasons.items():
            name = segment_key(self._lease.cluster_id, StoredSegmentId(*segment))
            self.set_aside.add(segment, name, error, now)

    def _merge(
        self, partitions: Sequence[_Planned]
    ) -> tuple[list[_Merged], int, dict[SegmentKey, Exception]]:
        """Merge each partition independently. Return the merged partitions, the bytes read, and the segments' errors.

        All partitions in a plan are read together, since they lie side by side in most objects.
        """
        merged = []
        reasons: dict[SegmentKey, Exception] = {}
        groups, bytes_read = self._rewriting.load_all([each.live for each in partitions])
        for planned, loaded in zip(partitions, groups, strict=True):
            try:
                if isinstance(loaded, FailedError):
                    raise loaded
                merged.append(self._merge_live(planned, loaded))
            except FailedError as failed:
                reasons.update(failed.reasons)
        return merged, bytes_read, reasons

    def _merge_live(self, planned: _Planned, ranges: Sequence[LiveRange]) -> _Merged:
        plan, superseded = planned.plan, 0
        try:
            if plan.superseded_to and self._new_table is not None:
                table = self._new_table()
                ranges = without_superseded(ranges, plan.superseded_to, table)
                superseded = table.superseded
            return _Merged(planned, list(merge_ranges(ranges, plan.end_offset)), superseded)
        except CorruptSegmentError as error:
            raise FailedError({segment_with(error): error}) from error
        except Exception as error:
            # A bug that these batches trigger would otherwise stop all merging.
            log.exception("unexpected error in merging; please report it")
            raise FailedError({segment_of(piece): error for piece in planned.live}) from error

    async def _write(self, merged: Sequence[_Merged]) -> SwapExtents:
        """Write the merged batches, if any, and return the command that swaps them in."""
        segments, extents = await self._rewriting.write(
            [(each.planned.plan.partition, each.runs) for each in merged]
        )
        return SwapExtents(
            segments=segments,
            partitions=[
                _swap_of(each.planned.plan, new) for each, new in zip(merged, extents, strict=True)
            ],
        )


def _swap_of(plan: CompactionRange, extents: Extents | None) -> SwapPartition:
    return SwapPartition(
        partition=plan.partition,
        fence=plan.fence,
        swap=ExtentSwap(
            first_offset=plan.first_offset, end_offset=plan.end_offset, extents=extents
        ),
        is_superseding=plan.superseded_to > 0,
    )


def without_superseded(
    ranges: Iterable[LiveRange], superseded_to: int, table: KeyTable
) -> Sequence[LiveRange]:
    """Return the ranges without the records that later records below `superseded_to` supersede.

    Keys that do not fit into the table supersede nothing. Raises CorruptSegmentError.
    """
    checked = [with_true_offsets(live) for live in ranges]
    for live in checked:
        if note_keys(live, table, 0, superseded_to) >= 0:
            break
    return [sweep_keys(live, table, 0, drops_tombstones=False) for live in checked]


def segment_with(error: CorruptSegmentError) -> SegmentKey:
    damaged = parse_segment_key(error.key)[1]
    return damaged.lease_id, damaged.sequence


def segment_messages(segments: Iterable[SegmentKey]) -> Iterator[SegmentId]:
    """Yield the segments as protobuf messages."""
    for lease_id, sequence in segments:
        yield SegmentId(lease_id=lease_id, sequence=sequence)
