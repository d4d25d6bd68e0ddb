"""The view `plan`: what a reader gets of each range of offsets, and what is not there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.datasource.planning import Stretch
from pipeline.extents import PartitionLog

DELIVERED: Final = "delivered"
DROPPED: Final = "dropped"
HOLE: Final = "hole"
UNDECIDED: Final = "undecided"

_ROWS_A_BATCH: Final = 64 * 1024


class PlanRow(NamedTuple):
    """Offsets [first_offset, end_offset) of a partition, and the extent that they are in, if any.

    `what`: delivered; dropped, as its transaction was aborted; hole: nothing is there, or no more;
    undecided: beyond the last stable offset.
    """

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    what: str
    transaction: int | None
    bytes: int | None
    segment: str | None
    position: int | None


@dataclass(frozen=True)
class ViewTask(InputPartition):
    """The rows of one partition."""

    rows: tuple[PlanRow, ...]


def view_tasks(stretches: Iterable[Stretch], *, is_committed: bool) -> list[ViewTask]:
    """One task a partition. A stretch that ends at the last stable offset shows what is beyond it."""
    return [ViewTask(tuple(plan_rows(each, is_committed=is_committed))) for each in stretches]


def plan_rows(stretch: Stretch, *, is_committed: bool) -> Iterator[PlanRow]:
    """The rows of a stretch in order of offset, without a gap between them."""
    log, reached = stretch.log, stretch.first_offset
    at_end = stretch.end_offset == log.end_offset(is_committed=is_committed)
    end = log.high_watermark if at_end else stretch.end_offset
    extents = log.extents
    index = extents.first_ending_after(reached)
    while index < len(extents) and extents.base_offsets[index] < end:
        base, next_ = extents.base_offsets[index], extents.next_offsets[index]
        if reached < base:
            yield _hole(log, reached, base)
        first, reached = max(base, reached), min(next_, end)
        yield _extent_row(log, index, (first, reached), is_committed)
        index += 1
    if reached < end:
        yield _hole(log, reached, end)


def read_view(task: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """In a task: its rows, in the columns of `schema`."""
    if not isinstance(task, ViewTask):  # Spark's own, where there is no partition
        return
    shape = to_arrow_schema(schema, timezone="UTC")
    for start in range(0, len(task.rows), _ROWS_A_BATCH):
        rows = task.rows[start : start + _ROWS_A_BATCH]
        arrays = [pa.array([getattr(row, f.name) for row in rows], f.type) for f in shape]
        yield pa.RecordBatch.from_arrays(arrays, schema=shape)


def _hole(log: PartitionLog, first: int, end: int) -> PlanRow:
    return PlanRow(log.topic, log.partition, first, end, HOLE, None, None, None, None)


def _extent_row(
    log: PartitionLog, index: int, offsets: tuple[int, int], is_committed: bool
) -> PlanRow:
    piece = log.piece(index)
    if log.dead.skip(piece.base_offset) > piece.base_offset:
        what = DROPPED if is_committed else DELIVERED
    else:
        what = UNDECIDED if is_committed and offsets[0] >= log.last_stable_offset else DELIVERED
    return PlanRow(
        log.topic,
        log.partition,
        *offsets,
        what,
        piece.transaction or None,
        piece.size,
        str(piece.segment),
        piece.position,
    )
