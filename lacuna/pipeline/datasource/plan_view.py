"""The view `plan`: what a reader gets for each range of offsets, including the ranges that are missing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from lacuna.controlplane.shared.extents import DeadRanges
from lacuna.controlplane.shared.log.fates import Fate, FatedRange, fates
from lacuna.logstore.segments.hot import show_segment
from lacuna.pipeline.datasource.planning import ReadRange
from lacuna.pipeline.datasource.spark_api import arrow_schema
from lacuna.pipeline.extents import PartitionLog

_ROWS_A_BATCH: Final = 64 * 1024


class PlanRow(NamedTuple):
    """The fate of the offsets [first_offset, end_offset) of a partition, and their extent, if they have one.

    `what` is "delivered", "dropped" (the transaction was aborted), "hole" (in no extent), or "undecided" (at or above
    the last stable offset).
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
    rows: tuple[PlanRow, ...]


def view_tasks(ranges: Iterable[ReadRange], *, is_committed: bool) -> list[ViewTask]:
    """Returns a task for each range. A range that ends where readers stop is extended to the high watermark."""
    return [ViewTask(tuple(plan_rows(each, is_committed=is_committed))) for each in ranges]


def plan_rows(read_range: ReadRange, *, is_committed: bool) -> Iterator[PlanRow]:
    """Yields the rows of a range in offset order, without gaps."""
    log, reached = read_range.log, read_range.first_offset
    at_end = read_range.end_offset == log.end_offset(is_committed=is_committed)
    end = log.high_watermark if at_end else read_range.end_offset
    dead: DeadRanges | None = log.dead if is_committed else None
    stable = log.last_stable_offset if is_committed else log.high_watermark
    for found in fates(log.extents, dead, reached, end, stable):
        yield _row(log, found, (max(found.first_offset, reached), min(found.next_offset, end)))


def read_view(task: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    if not isinstance(task, ViewTask):  # Spark passes its own if there is none
        return
    shape = arrow_schema(schema)
    for start in range(0, len(task.rows), _ROWS_A_BATCH):
        rows = task.rows[start : start + _ROWS_A_BATCH]
        arrays = [pa.array([getattr(row, f.name) for row in rows], f.type) for f in shape]
        yield pa.RecordBatch.from_arrays(arrays, schema=shape)


def _row(log: PartitionLog, found: FatedRange, offsets: tuple[int, int]) -> PlanRow:
    what = str(found.fate)
    if found.fate is Fate.HOLE:
        return PlanRow(log.topic, log.partition, *offsets, what, None, None, None, None)
    piece = log.piece(found.extent)
    return PlanRow(
        log.topic,
        log.partition,
        *offsets,
        what,
        log.extents.transactions[found.extent] or None,
        piece.size,
        show_segment(piece.lease_id, piece.sequence),
        piece.position,
    )
