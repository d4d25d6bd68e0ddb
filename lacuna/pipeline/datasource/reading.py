"""The work of a task: reads its pieces and yields Arrow batches, without copying payloads."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lacuna.logstore.records.column_layout import RecordColumns
from lacuna.pipeline.datasource.failing import explained
from lacuna.pipeline.datasource.pinning import held
from lacuna.pipeline.datasource.planning import ReadTask
from lacuna.pipeline.datasource.spark_api import arrow_schema
from lacuna.pipeline.decoding import Shape, builder_of, decode, fixed
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.loading import Block, Skip, load_blocks
from lacuna.pipeline.salvage import Lost
from lacuna.pipeline.stores import shared_store

_log = logging.getLogger("lacuna.datasource")

BATCH_BYTES: Final = 2 << 20
"""The approximate bytes in a batch: few enough to still be in the CPU cache when they are sent to the JVM."""

_MILLISECONDS: Final = pa.timestamp("ms", "UTC")


def read_task(task: ReadTask, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields the task's records with the columns of `schema`. Raises DataLossError, DamagedDataError, PipelineError."""
    bucket = task.bucket
    skip = warn_of if bucket.is_tolerant else None
    with explained(), held(task.hold):
        store = shared_store(bucket.store_url)
        blocks = load_blocks(store, bucket.cluster_id, task.pieces, skip=skip)
        yield from arrow_batches(blocks, task, schema, skip)


def arrow_batches(
    blocks: Iterable[Block], task: ReadTask, schema: StructType, skip: Skip | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the task's records in these blocks. Damage is raised as DamagedDataError, or passed to `skip`."""
    shape = _SparkShape(task, arrow_schema(schema))
    builder = builder_of(schema.fieldNames(), BATCH_BYTES)
    for columns in decode(builder, blocks, task.bucket.cluster_id, task.bounds, skip):
        yield shape.batch(columns)


class _SparkShape(Shape):
    def __init__(self, task: ReadTask, schema: pa.Schema) -> None:
        given = {"topic": task.topic, "partition": task.partition}
        super().__init__(
            schema,
            {
                field.name: pa.scalar(given[field.name], field.type)
                for field in schema
                if field.name in given
            },
        )
        self._task = task

    def times(self, columns: RecordColumns, type_: pa.DataType) -> pa.Array:
        """Converts timestamps as Spark's Kafka source does. Raises PipelineError if Spark cannot represent one."""
        try:
            return fixed(_MILLISECONDS, columns.timestamps, columns.count).cast(type_)
        except pa.ArrowInvalid:
            offsets = columns.offsets
            raise PipelineError(
                f"a record of {self._task.topic}-{self._task.partition} at one of the offsets "
                f"{offsets[0]} to {offsets[-1]} has a timestamp outside Spark's range: leave "
                "the column out with .schema(...)"
            ) from None


def warn_of(lost: Lost) -> None:
    _log.warning(
        "offsets %d to %d are skipped because of failOnDataLoss=false: %s",
        lost.first_offset,
        lost.end_offset - 1,
        lost.error,
    )
