"""The columns that can be read: those of Spark's Kafka source and those of the plan view."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lacuna.pipeline.datasource.options import OptionError
from lacuna.pipeline.datasource.reading_options import PLAN, ReadOptions


def _columns(types: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in types.items()])


_HEADERS: Final = ArrayType(_columns({"key": StringType(), "value": BinaryType()}))
RECORD_COLUMNS: Final = _columns(
    {
        "key": BinaryType(),
        "value": BinaryType(),
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "timestamp": TimestampType(),
        "timestampType": IntegerType(),
    }
)
HEADERS_COLUMN: Final = StructField("headers", _HEADERS)
PLAN_COLUMNS: Final = _columns(
    {
        "topic": StringType(),
        "partition": IntegerType(),
        "first_offset": LongType(),
        "end_offset": LongType(),
        "what": StringType(),
        "transaction": LongType(),
        "bytes": LongType(),
        "segment": StringType(),
        "position": LongType(),
    }
)


def schema_of(options: ReadOptions) -> StructType:
    """Returns the columns of `load()` if the user specifies no schema."""
    if options.view == PLAN:
        return PLAN_COLUMNS
    if options.include_headers:
        return StructType([*RECORD_COLUMNS.fields, HEADERS_COLUMN])
    return RECORD_COLUMNS


def check_schema(schema: StructType, options: ReadOptions) -> None:
    """Raises OptionError if a user's schema is empty, or contains an unknown column or one with the wrong type."""
    ours = {field.name: field.dataType for field in schema_of(options).fields}
    for field in schema.fields:
        if field.name not in ours:
            hint = "; set includeHeaders=true" if field.name == HEADERS_COLUMN.name else ""
            raise OptionError(
                f"the schema has a column {field.name!r}, but the source has "
                f"{', '.join(ours)}{hint}"
            )
        if field.dataType != ours[field.name]:
            raise OptionError(
                f"column {field.name!r} has type {ours[field.name].simpleString()}, but the schema specifies "
                f"{field.dataType.simpleString()}"
            )
    if not schema.fields:
        raise OptionError("the schema has no columns: name the columns to read")
