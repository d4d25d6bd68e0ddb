"""PySpark's data source API as of 4.2, with stand-ins for what 4.0 and 4.1 lack (see docs/spark.md).

No other module depends on the version of PySpark.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql import datasource as _datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

__all__ = [
    "HAS_FILTERS",
    "HAS_LIMITS",
    "IS_PUSHDOWN_SAFE",
    "VERSION",
    "DataSourceStreamArrowWriter",
    "Filter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "UnlimitedReader",
    "arrow_schema",
    "filter_kinds",
    "stream_reader",
]

VERSION: Final = pyspark.__version__
#: Since 4.1, Spark passes the filters of a batch to its reader.
HAS_FILTERS: Final = hasattr(_datasource, "Filter")
#: Since 4.2, Spark passes the start and the limit of a stream's batch to its reader.
HAS_LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None
#: Up to Spark 4.3, all uses of a DataFrame share one plan, so with pushed filters, one use may return the rows of
#: another. Versions that also push down limits keep a plan for each use.
IS_PUSHDOWN_SAFE: Final = hasattr(DataSourceReader, "pushLimit")
_HAS_STREAM_ARROW: Final = hasattr(_datasource, "DataSourceStreamArrowWriter")

if TYPE_CHECKING or HAS_FILTERS:
    from pyspark.sql import datasource as filter_kinds
    from pyspark.sql.datasource import Filter
else:

    class Filter:
        """Stands in for all filter classes, and is never instantiated."""

    class filter_kinds:  # noqa: N801 - stands in for Spark's module
        EqualNullSafe = EqualTo = GreaterThan = GreaterThanOrEqual = In = IsNotNull = Filter
        LessThan = LessThanOrEqual = Not = StringContains = StringEndsWith = Filter
        StringStartsWith = Filter


if TYPE_CHECKING or HAS_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """The amount that a batch may read."""

    class ReadAllAvailable(ReadLimit):
        """No limit: options that require one are rejected in this version."""

    ReadMaxRows = ReadMinRows = type("NeverUsed", (ReadLimit,), {})
    SupportsTriggerAvailableNow = object

if TYPE_CHECKING or _HAS_STREAM_ARROW:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """Writes a stream's Arrow batches. PySpark 4.0 recognizes such a writer by the base class for batch writes."""


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema, with timestamps in UTC."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # in UTC by default


def stream_reader(reader: DataSourceStreamReader) -> DataSourceStreamReader:
    """Adapts a reader to the API of this Spark version."""
    return reader if HAS_LIMITS else UnlimitedReader(reader)


@dataclass(frozen=True, slots=True)
class UnlimitedReader(DataSourceStreamReader):
    """Adapts a reader to PySpark 4.0 and 4.1, which request the latest offsets without passing the query's position.

    The start of a batch is therefore checked only when the batch is planned.
    """

    reader: DataSourceStreamReader

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the offsets at which a new query begins. Spark requests them after the latest offsets."""
        return self.reader.initialOffset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        return self.reader.latestOffset({}, ReadAllAvailable())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the tasks of a batch, after checking its start."""
        self.reader.latestOffset(start, ReadAllAvailable())
        return list(self.reader.partitions(start, end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.reader.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        self.reader.commit(end)

    def stop(self) -> None:
        self.reader.stop()
