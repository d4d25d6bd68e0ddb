"""Turns checked blocks of a bucket into Arrow batches, in a task; no payload byte is copied on the way."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lacuna.logstore.records.column_layout import BinaryColumn, HeaderColumn, RecordColumns
from lacuna.logstore.records.columns import ColumnBuilder
from lacuna.logstore.records.errors import RecordsError
from lacuna.pipeline.datasource.planning import ReadTask
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.loading import Block, damaged

BATCH_BYTES: Final = 2 << 20
"""Bytes of a batch, about: they are still in the processor's cache when they are sent to the JVM."""

_MILLISECONDS: Final = pa.timestamp("ms", "UTC")


def arrow_batches(
    blocks: Iterable[Block], task: ReadTask, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yields the wanted records of the blocks, with only the columns of `schema`.

    Raises DamagedDataError for a batch that cannot be decoded.
    """
    names = schema.fieldNames()
    shape = _Shape(task, to_arrow_schema(schema, timezone="UTC"))
    builder = ColumnBuilder(
        keys="key" in names,
        values="value" in names,
        headers="headers" in names,
        max_bytes=BATCH_BYTES,
    )
    for block in blocks:
        for columns in _decode(builder, block, task):
            yield shape.batch(columns)
    rest = builder.take()
    if rest is not None:
        yield shape.batch(rest)


def _decode(builder: ColumnBuilder, block: Block, task: ReadTask) -> Iterator[RecordColumns]:
    for index, piece in enumerate(block.pieces):
        try:
            yield from builder.read(
                block.data,
                block.starts[index],
                block.starts[index + 1],
                first_offset=task.first_offset,
                end_offset=task.end_offset,
                min_timestamp=task.min_timestamp,
                max_timestamp=task.max_timestamp,
            )
        except RecordsError as error:
            raise damaged(piece, task.bucket.cluster_id, str(error)) from error


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
                return _binary(columns.keys, columns.count)
            case "value":
                return _binary(columns.values, columns.count)
            case "headers":
                return _headers(columns.headers, columns.count, field.type)
            case "topic":
                return self._constant(pa.scalar(self._task.topic, field.type), columns.count)
            case "partition":
                return self._constant(pa.scalar(self._task.partition, field.type), columns.count)
            case "offset":
                return _fixed(field.type, columns.offsets, columns.count)
            case "timestampType":
                return _fixed(field.type, columns.timestamp_types, columns.count)
            case _:
                return self._timestamps(columns, field.type)

    def _constant(self, value: Any, count: int) -> pa.Array:
        """An array with `count` times the value; reuses an earlier one if that is long enough."""
        known = self._constants.get(str(value.type))
        if known is None or len(known) < count:
            known = self._constants[str(value.type)] = pa.repeat(value, count)
        return known.slice(0, count)

    def _timestamps(self, columns: RecordColumns, to: pa.DataType) -> pa.Array:
        try:
            return _fixed(_MILLISECONDS, columns.timestamps, columns.count).cast(to)
        except pa.ArrowInvalid:
            offsets = columns.offsets
            raise PipelineError(
                f"a record of {self._task.topic}-{self._task.partition} at one of the offsets "
                f"{offsets[0]} to {offsets[-1]} has a timestamp that is out of Spark's range: leave "
                "the column out with .schema(...)"
            ) from None


def _fixed(type_: pa.DataType, values: memoryview, count: int) -> pa.Array:
    return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(values)])


def _binary(column: BinaryColumn | None, count: int, type_: pa.DataType | None = None) -> pa.Array:
    assert column is not None  # it was asked for
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(type_ or pa.binary(), count, buffers)


def _headers(column: HeaderColumn | None, count: int, type_: pa.DataType) -> pa.Array:
    """Headers as lists of (key, value); null for a record without headers, as in Spark's Kafka source."""
    assert column is not None  # it was asked for
    list_offsets = memoryview(column.list_offsets)
    total = list_offsets[count]
    pair = type_.value_type
    keys = _binary(column.keys, total, pair.field(0).type)
    values = _binary(column.values, total, pair.field(1).type)
    pairs = pa.Array.from_buffers(pair, total, [None], children=[keys, values])
    buffers = [_validity(list_offsets, count), pa.py_buffer(list_offsets)]
    return pa.Array.from_buffers(type_, count, buffers, children=[pairs])


def _validity(list_offsets: memoryview, count: int) -> pa.Buffer:
    """A bitmap with one bit per list, which is set if the list is not empty."""
    offsets = _fixed(pa.int32(), list_offsets, count + 1)
    return pc.not_equal(offsets.slice(1), offsets.slice(0, count)).buffers()[1]
