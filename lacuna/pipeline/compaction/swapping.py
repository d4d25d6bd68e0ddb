"""Turns the results of a unit's tasks into the command that swaps the unit in; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lacuna.controlplane.shared.extents import COLUMNS, ExtentTable
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.log_pb2 import (
    ExtentSwap,
    SegmentId,
    SwapExtents,
    SwapPartition,
    SwapSegment,
)
from lacuna.pipeline.compaction.planning import PlannedRange, Unit
from lacuna.pipeline.compaction.rewriting import ShareResult, TaskResult


@dataclass(frozen=True, slots=True)
class PreparedSwap:
    """The command that swaps `ranges`, in their order; `errors` has the reasons of failed ranges, by unit index."""

    command: SwapExtents
    ranges: Sequence[PlannedRange]
    errors: Mapping[int, str]


def prepare_swap(unit: Unit, lease_id: int, results: Sequence[TaskResult]) -> PreparedSwap:
    """Makes the command for the ranges whose shares all succeeded. A range is swapped completely or not at all."""
    shares = [share for result in results for share in result.shares]
    errors = {share.range_index: share.error for share in reversed(shares) if share.error}
    by_range: dict[int, list[ShareResult]] = {index: [] for index in range(len(unit.ranges))}
    for share in sorted(shares, key=_first_offset):
        by_range[share.range_index].append(share)
    command = SwapExtents()
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


def _first_offset(share: ShareResult) -> int:
    return share.first_offset


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
