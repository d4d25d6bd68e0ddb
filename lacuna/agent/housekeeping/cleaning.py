"""Cleaning: compacts topics by key, in passes over one partition at a time (docs/adr/0073).

A pass notes the newest offset of each key in the dirty part of the log, for as long as the keys fit into memory. It
then rewrites the log from its start up to the last noted offset, range by range, without superseded records and without
tombstones that are no longer needed. Each range is swapped independently. A pass that ends early has dropped only
records that later records supersede, and the next pass does the rest.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import compress, takewhile
from typing import Final, NamedTuple, TypeVar

from lacuna.agent.hot import Holding, nothing_held
from lacuna.agent.housekeeping.merging import MergeSettings, segment_with
from lacuna.agent.housekeeping.rewriting import (
    FailedError,
    Rewriting,
    SegmentKey,
    live_pieces,
    segment_of,
)
from lacuna.agent.housekeeping.set_aside import SetAside
from lacuna.agent.lease import AgentLease, NoLeaseError
from lacuna.base.setting import MEBIBYTE, check_settings, setting
from lacuna.controlplane.client import ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.log.live import live_mask
from lacuna.controlplane.shared.log.pieces import Piece, pieces_in
from lacuna.controlplane.shared.log.reads import ReadFailure, failure_of
from lacuna.controlplane.shared.partitions import PartitionKey, key_of
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import (
    CleaningPlan,
    CompactionRange,
    ExtentSwap,
    FinishCleaning,
    PlanCleaning,
    PlanCleaningRange,
    SwapExtents,
    SwapPartition,
)
from lacuna.logstore.objects import ObjectStore, ObjectStoreError
from lacuna.logstore.records.layout import NO_TIMESTAMP
from lacuna.logstore.records.rewriting import KeyTable
from lacuna.logstore.segments import CorruptSegmentError
from lacuna.logstore.segments.merge import (
    LiveRange,
    MergedRun,
    MergeOptions,
    merge_ranges,
    note_keys,
    sweep_keys,
    with_true_offsets,
)

log = logging.getLogger("lacuna.housekeeping")

T = TypeVar("T")

#: How often a range is planned and rewritten if its extents keep changing in the meantime.
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanSettings:
    """When topics are compacted by key, and how much memory a pass may use; sizes in bytes. Raises SettingsError."""

    memory_bytes: int = setting(
        "clean.memory.bytes",
        64 * MEBIBYTE,
        "The memory for the keys of a compacted topic, about 40 bytes for each key. If the keys do not fit, the agent "
        "makes several passes over the topic.",
        least=MEBIBYTE,
    )
    min_bytes: int = setting(
        "clean.min.bytes",
        MEBIBYTE,
        "A partition of a compacted topic is compacted by key once it has this many new bytes, unless "
        "max.compaction.lag.ms requires it earlier.",
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(slots=True, kw_only=True)
class CleaningMetrics:
    """Counters for cleaning by key, with sizes in bytes, and the memory that the current pass uses for keys.

    `passes_cut` counts passes that left out a part of the log, because it could not be read or kept changing.
    """

    passes: int = 0
    passes_cut: int = 0
    superseded: int = 0
    tombstones: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanReport:
    """The result of one pass: counts, and sizes in bytes. `failure` is why a part of the log was left out."""

    superseded: int
    tombstones: int
    keys: int
    bytes_read: int
    bytes_written: int
    failure: str = ""

    def __str__(self) -> str:
        failure = f"; a part was skipped: {self.failure}" if self.failure else ""
        return (
            f"{self.superseded} superseded records and {self.tombstones} tombstones dropped, {self.keys} keys noted, "
            f"{self.bytes_read} bytes read, {self.bytes_written} written{failure}"
        )


class _EndedError(Exception):
    """The pass cannot continue: its topic was deleted or is no longer compacted, or the agent's lease has ended."""


class _Swept(NamedTuple):
    """The result of rewriting a range. The next range begins at `next_offset`.

    `swap` replaces the extents that change with `runs`; if it is None, no extent changes. `failed_at` is the offset of
    the first extent that could not be read, before which the swap ends, or -1.
    """

    next_offset: int
    failed_at: int = -1
    swap: SwapPartition | None = None
    runs: Sequence[MergedRun] = ()
    superseded: int = 0
    tombstones: int = 0


class _Pass:
    """The state of a pass under way, and its work on one range, which runs in a thread.

    The pass ends at `end_offset`, which moves while keys are noted. From `failed_at` on, unless it is -1, superseded
    records may remain. `reasons` holds the errors of the objects that could not be read.
    """

    def __init__(
        self, plan: CleaningPlan, table: KeyTable, rewriting: Rewriting, small_bytes: int
    ) -> None:
        self.plan = plan
        self.table = table
        self.end_offset = plan.first_dirty_offset
        self.failed_at = -1
        self.reasons: dict[SegmentKey, Exception] = {}
        self.clean_again_ms = 0
        self.superseded = self.tombstones = self.bytes_read = self.bytes_written = 0
        self._rewriting = rewriting
        self._small_bytes = small_bytes

    @property
    def is_whole(self) -> bool:
        return self.failed_at < 0

    def leave_out(self, offset: int) -> None:
        if self.is_whole:
            self.failed_at = offset

    def note(self, range_: CompactionRange) -> int:
        """Note the keys of a range. Return the offset at which the table is full, or -1.

        An extent that cannot be read supersedes nothing. Raises ObjectStoreError.
        """
        for live in self._load(live_pieces(range_)[1]):
            if live is not None:
                try:
                    end_offset = self.plan.end_offset
                    full_at = note_keys(live, self.table, self.end_offset, end_offset)
                except CorruptSegmentError as error:
                    self.reasons[segment_with(error)] = error
                else:
                    if full_at >= 0:
                        return full_at
        return -1

    def sweep(self, range_: CompactionRange) -> _Swept:
        """Rewrite the extents of a range, from the first to the last one that changes. Raises ObjectStoreError."""
        table = ExtentTable.from_columns(range_.extents)
        is_live = live_mask(table, DeadRanges.from_pairs(range_.dead), 0, len(table))
        pieces = list(pieces_in(table, 0, len(table)))
        loaded = iter(self._load([*compress(pieces, is_live)]))
        horizon = self._horizon(range_)
        drops_tombstones = self._decides_tombstones(range_)
        before = self.table.superseded, self.table.tombstones
        kept: list[LiveRange | None] = []
        changed: list[bool] = []
        for each in is_live:
            live = self._swept(next(loaded), drops_tombstones) if each else None
            if each and live is None:
                break
            kept.append(live)
            is_stamped = self.table.take_new() and horizon != NO_TIMESTAMP
            changed.append(live is None or live.dropped is not None or is_stamped)
            if is_stamped:
                self.clean_again_ms = horizon
        failed_at, next_offset = -1, range_.end_offset
        if len(kept) < len(table):
            failed_at = table.base_offsets[len(kept)]
            next_offset = table.next_offsets[self._last_failed(table, len(kept))]
        _join_small(table.sizes, changed, self._small_bytes)
        if True not in changed:
            return _Swept(next_offset, failed_at)
        start = changed.index(True)
        stop = len(changed) - changed[::-1].index(True)
        end_offset = table.next_offsets[stop - 1]
        options = MergeOptions(delete_horizon=horizon)
        ranges = [live for live in kept[start:stop] if live is not None]
        first_offset = table.base_offsets[start] if start else range_.first_offset
        return _Swept(
            next_offset,
            failed_at,
            SwapPartition(
                partition=range_.partition,
                fence=table.fence(start, stop),
                swap=ExtentSwap(first_offset=first_offset, end_offset=end_offset),
                is_superseding=True,
            ),
            list(merge_ranges(ranges, end_offset, options)),
            self.table.superseded - before[0],
            self.table.tombstones - before[1],
        )

    def _swept(self, live: LiveRange | None, drops_tombstones: bool) -> LiveRange | None:
        if live is None:
            return None
        now_ms = self.plan.planned_at_ms
        try:
            return sweep_keys(live, self.table, now_ms, drops_tombstones=drops_tombstones)
        except CorruptSegmentError as error:
            self.reasons[segment_with(error)] = error
            return None

    def _decides_tombstones(self, range_: CompactionRange) -> bool:
        """Whether it is certain that no tombstone in this range has an older record with its key.

        This is certain only below the end of the pass, and only if nothing was left out.
        """
        return self.is_whole and range_.end_offset <= self.end_offset

    def _horizon(self, range_: CompactionRange) -> int:
        """Return the delete horizon (ms) for tombstones that have none, or NO_TIMESTAMP if they do not get one yet.

        The retention time begins when no older record with the key remains, so that a consumer that has read such a
        record has time to read the tombstone.
        """
        if not self._decides_tombstones(range_):
            return NO_TIMESTAMP
        return self.plan.planned_at_ms + self.plan.delete_retention_ms

    def _last_failed(self, table: ExtentTable, index: int) -> int:
        """Starting at `index`, return the index of the last consecutive extent that is known to be damaged."""
        keys = zip(table.lease_ids[index + 1 :], table.sequences[index + 1 :], strict=True)
        return index + sum(1 for _ in takewhile(self.reasons.__contains__, keys))

    def _load(self, pieces: Sequence[Piece]) -> list[LiveRange | None]:
        """Read and check pieces. Missing or damaged pieces become None. Raises ObjectStoreError."""
        while True:
            intact = [each for each in pieces if segment_of(each) not in self.reasons]
            try:
                ranges, bytes_read = self._rewriting.load(intact)
                break
            except FailedError as failed:
                for error in failed.reasons.values():
                    if (
                        isinstance(error, ObjectStoreError)
                        and failure_of(error) is ReadFailure.UNAVAILABLE
                    ):
                        raise error from failed
                self.reasons.update(failed.reasons)
        self.bytes_read += bytes_read
        checked = dict(zip(intact, map(self._checked, ranges), strict=True))
        return [checked.get(each) for each in pieces]

    def _checked(self, live: LiveRange) -> LiveRange | None:
        try:
            return with_true_offsets(live)
        except CorruptSegmentError as error:
            self.reasons[segment_with(error)] = error
            return None


class Cleaner:
    """Runs passes over the partitions that the control plane chooses.

    `executor` runs the reads, the rewrites and the writes. `new_table` returns an empty table for the keys of a pass.
    """

    def __init__(
        self,
        control: ControlClient,
        store: ObjectStore,
        lease: AgentLease,
        executor: Executor,
        settings: CleanSettings,
        merge: MergeSettings,
        new_table: Callable[[], KeyTable],
        holding: Holding = nothing_held,
    ) -> None:
        self._control = control
        self._lease = lease
        self._executor = executor
        self._settings = settings
        self._merge = merge
        self._new_table = new_table
        self._holding = holding
        self._rewriting = Rewriting(control, store, lease, executor)
        self.metrics = CleaningMetrics()
        #: Partitions that could not be cleaned completely.
        self.set_aside: SetAside[PartitionKey] = SetAside("cleaning")

    async def run_once(self) -> CleanReport | None:
        """Run one pass over the dirtiest partition. Return None if no partition is worth a pass.

        Raises ControlPlaneUnavailable, NoLeaseError, or ObjectStoreError if the store as a whole failed. Ranges that
        the pass has already swapped stay swapped.
        """
        plan = await self._plan()
        if plan is None:
            return None
        begun = _Pass(plan, self._new_table(), self._rewriting, self._merge.small_bytes)
        try:
            await self._note(begun)
            await self._sweep(begun)
            await self._finish(begun)
        except _EndedError:
            log.info(
                "a cleaning pass ended early, because its topic or this agent's lease no longer exists"
            )
        except (ControlPlaneUnavailable, NoLeaseError, ObjectStoreError):
            raise
        except Exception as error:
            # A bug that these records trigger would otherwise stop all cleaning.
            self._leave_alone(begun, error)
            raise
        finally:
            self._count(begun)
        return self._report(begun)

    async def _plan(self) -> CleaningPlan | None:
        avoided = self.set_aside.at(asyncio.get_running_loop().time())
        request = PlanCleaning(
            lease_id=self._lease.lease_id,
            min_age_ms=self._merge.min_age_ms,
            min_bytes=self._settings.min_bytes,
            avoided=[TopicPartition(topic_id=key[0], partition=key[1]) for key in avoided],
        )
        plan = (await self._control.call(Command(plan_cleaning=request))).cleaning_plan
        return plan if plan.HasField("partition") else None

    async def _note(self, begun: _Pass) -> None:
        """Note the keys of the dirty records. The pass then ends where the keys no longer fit into memory."""
        last_offset = begun.plan.end_offset
        full_at = -1
        while full_at < 0 and begun.end_offset < last_offset:
            range_ = await self._range(begun, begun.end_offset, last_offset)
            if range_ is None:
                begun.end_offset = last_offset
                return
            full_at = await self._in_thread(begun.note, range_)
            self.metrics.memory_bytes = begun.table.size_bytes
            begun.end_offset = full_at if full_at >= 0 else min(range_.end_offset, last_offset)

    async def _sweep(self, begun: _Pass) -> None:
        """Rewrite the log up to the end of the pass. A range whose extents keep changing is left out."""
        at = attempts = 0
        while at < begun.end_offset:
            range_ = await self._range(begun, at, begun.end_offset)
            if range_ is None:
                return
            swept: _Swept = await self._in_thread(begun.sweep, range_)
            if swept.swap is not None and not await self._swap(begun, swept):
                attempts += 1
                if attempts < _ATTEMPTS:
                    continue
                begun.leave_out(range_.first_offset)
            if swept.failed_at >= 0:
                begun.leave_out(swept.failed_at)
            at, attempts = swept.next_offset, 0

    async def _in_thread(self, work: Callable[[CompactionRange], T], range_: CompactionRange) -> T:
        loop = asyncio.get_running_loop()
        async with self._holding(map(self._rewriting.key_of, live_pieces(range_)[1])):
            return await loop.run_in_executor(self._executor, work, range_)

    async def _range(
        self, begun: _Pass, from_offset: int, end_offset: int
    ) -> CompactionRange | None:
        """Return the next extents at or after an offset, or None if there are none."""
        request = PlanCleaningRange(
            lease_id=self._lease.lease_id,
            partition=begun.plan.partition,
            from_offset=from_offset,
            end_offset=end_offset,
            max_bytes=self._merge.max_bytes,
        )
        answer = (await self._control.call(Command(plan_cleaning_range=request))).cleaning_range
        if answer.error_code != ErrorCode.NONE:
            raise _EndedError
        return answer.range if answer.HasField("range") else None

    async def _swap(self, begun: _Pass, swept: _Swept) -> bool:
        """Write what remains of a range, and swap it in. Return False if the range's extents have changed."""
        assert swept.swap is not None
        partition = begun.plan.partition
        segments, (extents,) = await self._rewriting.write([(partition, swept.runs)])
        if extents is not None:
            swept.swap.swap.extents.CopyFrom(extents)
        command = SwapExtents(segments=segments, partitions=[swept.swap], is_compaction=True)
        reply = (await self._control.call(Command(swap_extents=command))).extents_swapped
        if reply.error_code != ErrorCode.NONE:
            raise _EndedError
        begun.bytes_written += sum(each.object_size for each in segments)
        if reply.error_codes[0] != ErrorCode.NONE:
            return False
        begun.superseded += swept.superseded
        begun.tombstones += swept.tombstones
        return True

    async def _finish(self, done: _Pass) -> None:
        """Report that the partition is clean up to the first offset that was left out."""
        cleaned_to = done.end_offset if done.is_whole else min(done.failed_at, done.end_offset)
        request = FinishCleaning(
            lease_id=self._lease.lease_id,
            partition=done.plan.partition,
            cleaned_to=cleaned_to,
            clean_again_ms=max(done.clean_again_ms, done.table.last_horizon),
        )
        await self._control.call(Command(finish_cleaning=request))

    def _report(self, done: _Pass) -> CleanReport:
        failure = ""
        if done.reasons:
            error = next(iter(done.reasons.values()))
            self._leave_alone(done, error)
            failure = str(error)
        else:
            self.set_aside.discard(key_of(done.plan.partition))
            if not done.is_whole:
                failure = "its extents kept changing"
        self.metrics.passes += 1
        self.metrics.passes_cut += bool(failure)
        return CleanReport(
            superseded=done.superseded,
            tombstones=done.tombstones,
            keys=done.table.keys,
            bytes_read=done.bytes_read,
            bytes_written=done.bytes_written,
            failure=failure,
        )

    def _leave_alone(self, begun: _Pass, error: Exception) -> None:
        topic_id, partition = key = key_of(begun.plan.partition)
        name = f"partition {partition} of the topic {topic_id.hex()}"
        self.set_aside.add(key, name, error, asyncio.get_running_loop().time())

    def _count(self, begun: _Pass) -> None:
        metrics = self.metrics
        metrics.memory_bytes = 0
        metrics.superseded += begun.superseded
        metrics.tombstones += begun.tombstones
        metrics.bytes_read += begun.bytes_read
        metrics.bytes_written += begun.bytes_written


def _join_small(sizes: Sequence[int], changed: list[bool], small_bytes: int) -> None:
    """Mark adjacent extents that are both small as changed, so that they are joined."""
    for index in range(1, len(changed)):
        if max(sizes[index - 1], sizes[index]) < small_bytes:
            changed[index - 1] = changed[index] = True
