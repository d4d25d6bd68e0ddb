"""Creates the tasks of a unit, swaps in the extents that they wrote, and reports the outcome."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, Self

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import COLUMNS, ExtentTable
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import Outcomes, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import (
    ExtentSwap,
    SegmentId,
    SwapExtents,
    SwapPartition,
    SwapSegment,
)
from lacuna.pipeline.compaction.planning import PlannedRange, Unit
from lacuna.pipeline.compaction.report import Trouble, Work
from lacuna.pipeline.compaction.rewriting import RewriteTask, ShareResult, TaskResult
from lacuna.pipeline.compaction.settings import RewriteSettings
from lacuna.pipeline.control import JobClient, check
from lacuna.pipeline.holding import JobHold, hold_lost
from lacuna.pipeline.spark_errors import explain_spark_error

#: How long, in seconds, a swap is repeated if its reply is lost.
_SWAP_AGAIN_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.5

_REASONS: Final[Mapping[int, str]] = {
    ErrorCode.PLAN_STALE: "it changed during compaction; the next run will plan it again",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "its topic was deleted during compaction",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOutcome:
    """The outcome of a unit's ranges, and the work done for them.

    `refused` lists the ranges that the control plane rejected; a new plan may succeed for the `stale` ones. `failed`
    lists the ranges that failed; the `damaged` ones could not be read.
    """

    swapped: Sequence[PlannedRange] = ()
    stale: Sequence[PlannedRange] = ()
    refused: Sequence[Trouble] = ()
    failed: Sequence[Trouble] = ()
    damaged: Sequence[PlannedRange] = ()
    work: Work = field(default_factory=Work)

    def without_refusals(self, keys: Collection[PartitionKey]) -> Self:
        """Returns a copy in which the stale ranges of these partitions are not reported as rejected."""
        names = {(found.topic, found.partition) for found in self.stale if found.key in keys}
        refused = [each for each in self.refused if (each.topic, each.partition) not in names]
        return replace(self, refused=refused)


def commit(
    control: JobClient, unit: Unit, lease_id: int, results: Sequence[TaskResult]
) -> UnitOutcome:
    """Swaps in the extents that a unit's tasks wrote under the lease.

    Raises ControlPlaneUnavailable, CommandRefused, and StaleMetadataError if the lease was lost.
    """
    prepared = prepare_swap(unit, lease_id, results)
    codes: Sequence[int] = ()
    if prepared.ranges:
        answer = _swap(control, prepared.command)
        if answer.error_code == ErrorCode.LEASE_EXPIRED:
            raise hold_lost(JobHold.held)
        check(answer.error_code, "the swap")
        codes = answer.error_codes
    by_code = list(zip(prepared.ranges, codes, strict=True))
    return UnitOutcome(
        swapped=[found for found, code in by_code if code == ErrorCode.NONE],
        stale=[found for found, code in by_code if code == ErrorCode.PLAN_STALE],
        refused=troubles(
            (found, _REASONS.get(code, f"the control plane returned error {code}"))
            for found, code in by_code
            if code != ErrorCode.NONE
        ),
        failed=troubles([(unit.ranges[at], text) for at, text in prepared.errors.items()]),
        damaged=[unit.ranges[at] for at in prepared.errors],
        work=_work(unit, results),
    )


def troubles(found: Iterable[tuple[PlannedRange, str]]) -> list[Trouble]:
    """Returns a Trouble for each range that was not changed, with the reason."""
    return [Trouble(each.topic, each.partition, reason) for each, reason in found]


def _swap(control: JobClient, command: SwapExtents) -> Outcomes:
    """Sends the swap, and repeats it if the reply is lost. A repeated command gets the same reply."""
    give_up = time.monotonic() + _SWAP_AGAIN_SECONDS
    while True:
        try:
            return control.call(Command(swap_extents=command)).extents_swapped
        except ControlPlaneUnavailable:
            if time.monotonic() > give_up:
                raise
            time.sleep(_PAUSE_SECONDS)


def _work(unit: Unit, results: Sequence[TaskResult]) -> Work:
    bytes_between = sum(result.bytes_between for result in results)
    aborted_bytes = sum(found.aborted_bytes for found in unit.ranges)
    return Work(
        tasks=len(unit.tasks),
        puts=sum(result.puts for result in results),
        gets=sum(result.gets for result in results),
        bytes_read=sum(result.bytes_read for result in results),
        bytes_written=sum(result.bytes_written for result in results),
        bytes_between=bytes_between,
        # `bytes_between` may include rejected batches, in which case even more aborted bytes were not read.
        aborted_bytes_not_read=max(0, aborted_bytes - bytes_between),
        expired_bytes_not_read=sum(found.expired_bytes for found in unit.ranges),
    )


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A run of the plan made at `now_ms`. Its tasks write under the lease of `hold`."""

    control: JobClient
    hold: JobHold
    store_url: str
    settings: RewriteSettings
    now_ms: int

    def tasks(self, unit: Unit) -> list[RewriteTask]:
        return [
            RewriteTask(
                store_url=self.store_url,
                cluster_id=self.control.cluster_id,
                lease_id=self.hold.lease_id,
                settings=self.settings,
                shares=shares,
            )
            for shares in unit.tasks
        ]


def failed(unit: Unit, error: BaseException) -> UnitOutcome:
    """Returns the outcome of a unit whose tasks failed. Raises the error if there is no explanation for it."""
    reason = explain_spark_error(error)
    if reason is None:
        raise error
    return UnitOutcome(failed=troubles((found, reason) for found in unit.ranges))


# The command of a swap.


@dataclass(frozen=True, slots=True)
class PreparedSwap:
    """The command that swaps `ranges`, in order. `errors` maps a failed range's index in the unit to the reason."""

    command: SwapExtents
    ranges: Sequence[PlannedRange]
    errors: Mapping[int, str]


def prepare_swap(unit: Unit, lease_id: int, results: Sequence[TaskResult]) -> PreparedSwap:
    """Builds the command for the ranges whose shares all succeeded. A range is swapped completely or not at all."""
    shares = [share for result in results for share in result.shares]
    errors = {share.range_index: share.error for share in reversed(shares) if share.error}
    by_range: dict[int, list[ShareResult]] = {index: [] for index in range(len(unit.ranges))}
    for share in sorted(shares, key=attrgetter("first_offset")):
        by_range[share.range_index].append(share)
    command = SwapExtents(is_compaction=True)
    ranges = []
    for index, found in enumerate(unit.ranges):
        if index in errors:
            continue
        command.partitions.append(_swap_partition(found, by_range[index]))
        ranges.append(found)
    sizes = {sequence: size for result in results for sequence, size in result.segments}
    used = {each for swap in command.partitions for each in swap.swap.extents.sequences}
    command.segments.extend(
        SwapSegment(
            segment=SegmentId(lease_id=lease_id, sequence=sequence), object_size=sizes[sequence]
        )
        for sequence in sorted(used)
    )
    return PreparedSwap(command, ranges, errors)


def _swap_partition(found: PlannedRange, shares: Sequence[ShareResult]) -> SwapPartition:
    extents = ExtentTable()
    for share in shares:
        for name in COLUMNS:
            getattr(extents, name).extend(getattr(share.extents, name))
    due = [share.tombstones_due_ms for share in shares if share.tombstones_due_ms]
    return SwapPartition(
        partition=TopicPartition(topic_id=found.topic_id, partition=found.partition),
        swap=ExtentSwap(
            first_offset=found.first_offset,
            end_offset=found.end_offset,
            extents=extents.slice(0, len(extents)) if len(extents) else None,
        ),
        fence=found.fence,
        compacted_to=found.end_offset if found.is_cleaned else 0,
        log_start_offset=found.log_start_offset,
        compact_again_ms=min(due, default=0) if found.is_cleaned else 0,
    )
