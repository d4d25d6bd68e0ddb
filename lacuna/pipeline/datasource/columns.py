"""Turns checked blocks of a bucket into Arrow batches, in a task, without copying any payload."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lacuna.logstore.records.column_layout import RecordColumns
from lacuna.logstore.records.columns import ColumnBuilder
from lacuna.pipeline.datasource.planning import ReadTask
from lacuna.pipeline.datasource.spark_api import arrow_schema
from lacuna.pipeline.decoding import Bounds, binary, decode, fixed, headers
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.loading import Block, Skip

BATCH_BYTES: Final = 2 << 20
"""Bytes of a batch, about: they are still in the processor's cache when they are sent to the JVM."""

_MILLISECONDS: Final = pa.timestamp("ms", "UTC")


def arrow_batches(
    blocks: Iterable[Block], task: ReadTask, schema: StructType, skip: Skip | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the wanted records of the blocks, with only the columns of `schema`.

    Raises DamagedDataError for a batch that cannot be decoded; `skip`, if given, receives the damage instead.
    """
    names = schema.fieldNames()
    shape = _Shape(task, arrow_schema(schema))
    builder = ColumnBuilder(
        keys="key" in names,
        values="value" in names,
        headers="headers" in names,
        max_bytes=BATCH_BYTES,
    )
    bounds = Bounds(
        first_offset=task.first_offset,
        end_offset=task.end_offset,
        min_timestamp=task.min_timestamp,
        max_timestamp=task.max_timestamp,
    )
    for columns in decode(builder, blocks, task.bucket.cluster_id, bounds, skip):
        yield shape.batch(columns)


class _Shape:
    """Makes batches of one Arrow schema for one task."""

    def __init__(self, task: ReadTask, schema: pa.Schema) -> None:
        self._task = task
        self._schema = schema
        self._constants: dict[str, pa.Array] = {}

    def batch(self, columns: RecordColumns) -> pa.RecordBatch:
        """The records as an Arrow batch, which shares their memory."""
        arrays = [self._array(field, columns) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: pa.Field, columns: RecordColumns) -> pa.Array:
        match field.name:
            case "key":
                return binary(columns.keys, columns.count)
            case "value":
                return binary(columns.values, columns.count)
            case "headers":
                return headers(columns.headers, columns.count, field.type)
            case "topic":
                return self._constant(pa.scalar(self._task.topic, field.type), columns.count)
            case "partition":
                return self._constant(pa.scalar(self._task.partition, field.type), columns.count)
            case "offset":
                return fixed(field.type, columns.offsets, columns.count)
            case "timestampType":
                return fixed(field.type, columns.timestamp_types, columns.count)
            case _:
                return self._timestamps(columns, field.type)

    def _constant(self, value: Any, count: int) -> pa.Array:
        """An array with `count` times the value. Reuses an earlier one if it is long enough."""
        known = self._constants.get(str(value.type))
        if known is None or len(known) < count:
            known = self._constants[str(value.type)] = pa.repeat(value, count)
        return known.slice(0, count)

    def _timestamps(self, columns: RecordColumns, to: pa.DataType) -> pa.Array:
        try:
            return fixed(_MILLISECONDS, columns.timestamps, columns.count).cast(to)
        except pa.ArrowInvalid:
            offsets = columns.offsets
            raise PipelineError(
                f"a record of {self._task.topic}-{self._task.partition} at one of the offsets "
                f"{offsets[0]} to {offsets[-1]} has a timestamp that is out of Spark's range: leave "
                "the column out with .schema(...)"
            ) from None
