"""Which task reads which objects; pure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from logstore.segments import SegmentId
from pipeline.audit.inventory import Inventory, ids_of
from pipeline.audit.matching import PartitionName
from pipeline.audit.objects import UNKNOWN_SIZE, ObjectTask
from pipeline.audit.tables import Rows

TASK_BYTES: Final = 64 << 20
#: Objects of a task; small ones cost a read each, not their bytes.
_TASK_OBJECTS: Final = 2_000
_READ_COST: Final = 64 << 10


def plan_tasks(
    inventory: Inventory,
    table: Rows,
    unreferenced: Sequence[tuple[SegmentId, int]],
    names: dict[int, PartitionName],
    task_bytes: int = TASK_BYTES,
) -> Iterator[ObjectTask]:
    """Tasks of about `task_bytes` each: what extents lie in, then what none does."""
    ids = ids_of(table)
    is_first = np.concatenate(([True], ids[1:] != ids[:-1]))
    starts: list[int] = np.flatnonzero(is_first[: len(ids)]).tolist()
    bounds = [*starts, len(table)]
    sizes = _sizes(inventory, table[starts])
    objects = [
        (int(table["lease_id"][start]), int(table["sequence"][start]), size)
        for start, size in zip(bounds, sizes, strict=False)
    ]
    for first, stop in _cut(objects, task_bytes):
        begin, end = bounds[first], bounds[stop]
        rows = table[begin:end]
        yield ObjectTask(
            objects[first:stop],
            [bound - begin for bound in bounds[first : stop + 1]],
            rows,
            {index: names[index] for index in np.unique(rows["partition"]).tolist()},
        )
    strays = [(segment.lease_id, segment.sequence, size) for segment, size in unreferenced]
    for first, stop in _cut(strays, task_bytes):
        yield ObjectTask(strays[first:stop], [0] * (stop - first + 1), table[:0], {})


def _sizes(inventory: Inventory, objects: Rows) -> list[int]:
    """The listed size of each object; UNKNOWN_SIZE where it was not listed."""
    if not len(inventory.segments):
        return [UNKNOWN_SIZE] * len(objects)
    listed, wanted = ids_of(inventory.segments), ids_of(objects)
    at = np.minimum(np.searchsorted(listed, wanted), len(listed) - 1)
    found: list[int] = np.where(
        listed[at] == wanted, inventory.segments["size"][at], UNKNOWN_SIZE
    ).tolist()
    return found


def _cut(objects: Sequence[tuple[int, int, int]], task_bytes: int) -> Iterator[tuple[int, int]]:
    """Indexes [first, stop) of consecutive objects that one task reads."""
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
