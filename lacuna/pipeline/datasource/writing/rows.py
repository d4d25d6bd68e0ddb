"""The columns that the sink accepts, and the conversion of rows to the schema that tasks use.

| column | type | |
|---|---|---|
| value | binary or string | required; null is a tombstone |
| key | binary or string | if null, the row may go to any partition |
| headers | array<struct<key: string, value: binary>> | |
| topic | string | required without the option `topic`, which overrides it |
| partition | int | if null, the key decides |
| timestamp | timestamp | if null or missing, the current time |

Other columns are ignored, as in Spark's Kafka sink.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lacuna.pipeline.errors import PipelineError

_HEADERS: Final = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))

ROWS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.int64()),
    ]
)
"""The rows in the form that tasks use. `timestamp` is in ms since 1970. Missing values are null."""

_MICROSECONDS: Final = 1000


def check_schema(schema: StructType, topic: str | None) -> None:
    """Raises PipelineError if the columns cannot be written. `topic` is the option of that name."""
    columns = {field.name: field.dataType for field in schema.fields}
    for name in ROWS.names:
        if schema.names.count(name) > 1:
            raise PipelineError(
                f"there are several columns named {name!r}: select only the one to write"
            )
    if "value" not in columns:
        raise PipelineError(
            "the required column 'value' is missing: name the column to write 'value', for "
            'example with selectExpr("to_json(struct(*)) AS value")'
        )
    if topic is None and "topic" not in columns:
        raise PipelineError(
            "there is no topic to write to: set the `topic` option, or add a column 'topic'"
        )
    for name in ("value", "key"):
        _expect(columns, name, (BinaryType, StringType), "binary or string")
    if topic is None:
        _expect(columns, "topic", (StringType,), "string")
    _expect(columns, "partition", (IntegerType,), "int")
    _expect(columns, "timestamp", (TimestampType, TimestampNTZType), "timestamp")
    headers = columns.get("headers")
    if headers is not None and not _are_headers(headers):
        raise PipelineError(
            f"the column 'headers' is {headers.simpleString()}, but it must be "
            "array<struct<key:string,value:binary>>"
        )


def _expect(
    columns: dict[str, DataType], name: str, types: tuple[type[DataType], ...], wanted: str
) -> None:
    found = columns.get(name)
    if found is not None and not isinstance(found, types):
        raise PipelineError(
            f"the column {name!r} is {found.simpleString()}, but it must be {wanted}; cast it"
        )


def _are_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = found.elementType.fields
    return [field.name for field in fields] == ["key", "value"] and (
        isinstance(fields[0].dataType, StringType) and isinstance(fields[1].dataType, BinaryType)
    )


def normalize(batch: pa.RecordBatch, topic: str | None, now_ms: int) -> pa.RecordBatch:
    """Converts rows to the schema ROWS, copying only headers and timestamps.

    If the option `topic` is set, the column topic is null. `now_ms` is the timestamp for rows that have none.
    """
    names = batch.schema.names
    columns: list[pa.Array] = []
    for field in ROWS:
        if field.name not in names or (field.name == "topic" and topic is not None):
            column = pa.nulls(batch.num_rows, field.type)
        elif field.name == "timestamp":
            column = _milliseconds(batch.column("timestamp"))
        else:
            column = batch.column(field.name).cast(field.type)
        if field.name == "timestamp":
            column = pc.fill_null(column, now_ms)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)


def _milliseconds(column: pa.Array) -> pa.Array:
    """Converts Spark's microseconds to milliseconds, rounding down as Spark itself does."""
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    remainder = pc.subtract(micros, pc.multiply(pc.divide(micros, _MICROSECONDS), _MICROSECONDS))
    floored = pc.subtract(micros, pc.if_else(pc.less(remainder, 0), _MICROSECONDS, 0))
    return pc.divide(floored, _MICROSECONDS)
