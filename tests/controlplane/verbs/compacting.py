"""Compacts as a job does: plan, rewrite the live records, swap."""

from typing import Any

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.extents import FLAG_TRUE_OFFSETS, DeadRanges, ExtentTable
from lacuna.controlplane.v1.log_pb2 import (
    CompactionPlan,
    CompactionRange,
    Extents,
    ExtentSwap,
    PlanCompaction,
    SegmentId,
    SwapExtents,
    SwapPartition,
)
from tests.controlplane.verbs.cluster import Cluster


def plan(cluster: Cluster, *texts: str, **wanted: Any) -> CompactionPlan:
    """Return a plan for partitions such as `a-0`, by default for extents smaller than 1000 bytes."""
    partitions = [cluster.partition(text) for text in texts]
    given: dict[str, Any] = {"small_bytes": 1000} | wanted
    command = PlanCompaction(partitions=partitions, **given)
    found: CompactionPlan = cluster.do("plan_compaction", command)
    return found


def live_of(found: CompactionRange) -> list[tuple[int, int, int, int]]:
    """Return (base offset, next offset, size, max timestamp) of the extents that were not aborted."""
    table, dead = ExtentTable.from_columns(found.extents), DeadRanges.from_pairs(found.dead)
    rows = zip(
        table.base_offsets, table.next_offsets, table.sizes, table.max_timestamps, strict=True
    )
    return [row for row in rows if dead.skip(row[0]) == row[0]]


def rewritten(
    found: CompactionRange,
    segment: SegmentId,
    *,
    joins: bool = True,
    keeps_from: int = 0,
    **marks: Any,
) -> SwapPartition:
    """Return the swap of a range for its live extents from `keeps_from` on, joined or separate, in this segment."""
    swap = ExtentSwap(first_offset=found.first_offset, end_offset=found.end_offset)
    live = [row for row in live_of(found) if row[0] >= keeps_from]
    if live and joins:
        sizes, stamps = [size for _, _, size, _ in live], [stamp for *_, stamp in live]
        live = [(live[0][0], live[-1][1], sum(sizes), max(stamps))]
    position = 0
    for base_offset, next_offset, size, max_timestamp in live:
        extent = Extents(
            lease_ids=[segment.lease_id],
            sequences=[segment.sequence],
            positions=[position],
            sizes=[size],
            base_offsets=[base_offset],
            next_offsets=[next_offset],
            max_timestamps=[max_timestamp],
            producer_ids=[-1],
            producer_epochs=[-1],
            transactions=[0],
            flags=[FLAG_TRUE_OFFSETS],
        )
        swap.extents.MergeFrom(extent)
        position += size
    return SwapPartition(partition=found.partition, swap=swap, fence=found.fence, **marks)


def swap_of(
    cluster: Cluster, *ranges: CompactionRange, joins: bool = True, **marks: Any
) -> SwapExtents:
    """Return the swap of these ranges, with a segment for each unless none of its records are left."""
    command = SwapExtents()
    for found in ranges:
        cluster.sequence += 1
        segment = SegmentId(lease_id=cluster.lease_id, sequence=cluster.sequence)
        command.partitions.append(rewritten(found, segment, joins=joins, **marks))
        if command.partitions[-1].swap.extents.sizes:
            command.segments.add(segment=segment, object_size=1 << 40)
    return command


def swap(cluster: Cluster, command: SwapExtents) -> list[str]:
    """Return the outcome of a swap for each partition, as a name."""
    answer = cluster.do("swap_extents", command)
    assert answer.error_code == ErrorCode.NONE, answer
    return [ErrorCode(code).name for code in answer.error_codes]
