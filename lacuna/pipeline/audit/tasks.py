"""Divides the objects of a bucket into tasks, without side effects."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from lacuna.logstore.segments import SegmentId
from lacuna.pipeline.audit.inventory import Inventory
from lacuna.pipeline.audit.matching import PartitionName
from lacuna.pipeline.audit.objects import ObjectTask
from lacuna.pipeline.audit.tables import Rows

TASK_BYTES: Final = 64 << 20
#: The maximum number of objects in a task. A small object counts as _READ_COST bytes.
_TASK_OBJECTS: Final = 2_000
_READ_COST: Final = 64 << 10


def plan_tasks(
    inventory: Inventory,
    table: Rows,
    unreferenced: Sequence[tuple[SegmentId, int]],
    names: dict[int, PartitionName],
    task_bytes: int = TASK_BYTES,
) -> Iterator[ObjectTask]:
    """Yields tasks of about `task_bytes` each: first for segments with extents, then for unreferenced ones.

    `unreferenced` lists segments and their sizes in bytes; `names` maps the table's partition indexes to partitions.
    """
    found = list(table.objects())
    bounds = list(accumulate((count for _, count in found), initial=0))
    objects = [(*segment, inventory.segments.size_of(*segment)) for segment, _ in found]
    for first, stop in _cut(objects, task_bytes):
        begin, end = bounds[first], bounds[stop]
        rows = table[begin:end]
        yield ObjectTask(
            objects[first:stop],
            [bound - begin for bound in bounds[first : stop + 1]],
            rows,
            {row.partition: names[row.partition] for row in rows},
        )
    strays = [(segment.lease_id, segment.sequence, size) for segment, size in unreferenced]
    for first, stop in _cut(strays, task_bytes):
        yield ObjectTask(strays[first:stop], [0] * (stop - first + 1), table[:0], {})


def _cut(objects: Sequence[tuple[int, int, int]], task_bytes: int) -> Iterator[tuple[int, int]]:
    edges, cost = [0], 0
    for index, (_, _, size) in enumerate(objects):
        is_full = cost + size > task_bytes or index - edges[-1] == _TASK_OBJECTS
        if index > edges[-1] and is_full:
            edges.append(index)
            cost = 0
        cost += max(size, _READ_COST)
    if objects:
        edges.append(len(objects))
    return pairwise(edges)
