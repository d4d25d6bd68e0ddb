"""The partitioning of Iceberg tables: a list of column transforms, such as `bucket(16, key), day(timestamp)`.

`day` and `hour` are short for transforms of the timestamp. Each data file contains the rows of one partition.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    _pyarrow_to_schema_without_ids,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, partition_record_value
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import Transform, parse_transform
from pyiceberg.typedef import Record

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.export.layout import NONE

_SHORT: Final = {NONE: "", "day": "day(timestamp)", "hour": "hour(timestamp)"}
_TERM: Final = re.compile(
    r"\s*(?P<name>identity|bucket|truncate|year|month|day|hour)"
    r"\(\s*(?:(?P<number>[1-9][0-9]{0,8})\s*,\s*)?(?P<column>[^\s(),]+)\s*\)\s*(?:,|\Z)"
)
_NUMBERED: Final = ("bucket", "truncate")


@dataclass(frozen=True, slots=True)
class Term:
    """A transform of a column, which may be a nested field such as `value.customer.id`."""

    transform: str
    column: str

    @property
    def field(self) -> str:
        kind = self.transform.partition("[")[0]
        column = self.column.replace(".", "_")
        return column if kind == "identity" and column == self.column else f"{column}_{kind}"

    def apply(self) -> Transform[Any, Any]:
        return parse_transform(self.transform)


def terms_of(partition_by: str) -> tuple[Term, ...]:
    """Parses the transforms in --partition-by. Raises PipelineError."""
    text = _SHORT.get(partition_by, partition_by)
    found = []
    at = 0
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None or (match["number"] is not None) != (match["name"] in _NUMBERED):
            raise PipelineError(
                f"--partition-by {partition_by!r} is not known: specify none, day or hour or, for Iceberg, a list such "
                "as 'bucket(16, key), day(timestamp)', using identity, bucket, truncate, year, month, day and hour"
            )
        number = f"[{match['number']}]" if match["number"] else ""
        found.append(Term(match["name"] + number, match["column"]))
        at = match.end()
    return tuple(found)


def check_partitions(partition_by: str, schema: pa.Schema) -> None:
    """Raises PipelineError if a column does not exist, or has a type that its transform does not support."""
    columns = _iceberg_schema(schema)
    for term in terms_of(partition_by):
        try:
            kind = columns.find_field(term.column).field_type
        except ValueError:
            raise PipelineError(
                f"--partition-by: there is no column {term.column!r}: the columns are {', '.join(schema.names)}"
            ) from None
        if not kind.is_primitive or not term.apply().can_transform(kind):
            raise PipelineError(
                f"--partition-by: the column {term.column!r} is of type {kind}, which {term.transform} does not support"
            )


def partition(transaction: Transaction, partition_by: str) -> None:
    """Adds the partition fields to a table that has none."""
    terms = terms_of(partition_by)
    if terms:
        with transaction.update_spec() as spec:
            for term in terms:
                spec.add_field(term.column, term.apply(), term.field)


def _iceberg_schema(schema: pa.Schema) -> Schema:
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(schema))


class Divider:
    def __init__(self, partition_by: str, schema: pa.Schema) -> None:
        columns = _iceberg_schema(schema)
        self._terms = [
            (term.column.split("."), _to_value(term, columns)) for term in terms_of(partition_by)
        ]

    def divide(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yields the rows of each partition, in their original order, with the name of a folder for them.

        The work done in Python depends on the number of distinct values, not on the number of rows.
        """
        codes, keys = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows), [()]
        for path, change in self._terms:
            codes, keys = _refined(codes, keys, *_values(rows, path, change))
        if len(keys) > 1:
            order = pc.sort_indices(codes)  # stable: rows with equal codes stay in order
            rows, codes = rows.take(order), codes.take(order)
        begin = 0
        for each in pc.value_counts(codes).to_pylist():
            folder = hashlib.sha256(repr(keys[each["values"]]).encode()).hexdigest()[:16]
            yield f"{folder}/", rows.slice(begin, each["counts"])
            begin += each["counts"]


def _values(
    rows: pa.RecordBatch, path: Sequence[str], change: Callable[[Any], Any]
) -> tuple[pa.Array, list[Any]]:
    """Returns a number for each row, and the partition value that each number stands for."""
    column = rows.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    found = column.dictionary_encode()
    numbers: dict[Any, int] = {}
    of_each = [
        numbers.setdefault(change(value), len(numbers)) for value in found.dictionary.to_pylist()
    ]
    null = numbers.setdefault(None, len(numbers)) if found.null_count else 0
    codes = pc.fill_null(pa.array(of_each, pa.int64()).take(found.indices), null)
    return codes, list(numbers)


def _refined(
    codes: pa.Array, keys: Sequence[tuple[Any, ...]], finer: pa.Array, values: Sequence[Any]
) -> tuple[pa.Array, list[tuple[Any, ...]]]:
    """Subdivides groups of rows by another field's values. Returns the rows' group numbers and the groups' keys."""
    found = pc.add(pc.multiply(codes, len(values)), finer).dictionary_encode()
    pairs = (divmod(each, len(values)) for each in found.dictionary.to_pylist())
    return found.indices.cast(pa.int64()), [(*keys[old], values[new]) for old, new in pairs]


def _to_value(term: Term, columns: Schema) -> Callable[[Any], Any]:
    """Returns a function that turns a non-null value of the column into the partition value."""
    source = columns.find_field(term.column)
    field = PartitionField(source.field_id, 1000, term.apply(), term.field)
    apply = field.transform.transform(source.field_type)
    return lambda value: apply(partition_record_value(field, value, columns))


def data_file_of(io: FileIO, metadata: TableMetadata, path: str) -> DataFile:
    """Returns the entry for a Parquet file whose rows all belong to one partition.

    pyiceberg's own function compares the smallest and the largest value, so it supports only transforms that preserve
    order. Here, any value determines the partition, so the smallest is enough.
    """
    source = io.new_input(path)
    with source.open() as stream:
        found = pq.read_metadata(stream)
    schema = metadata.schema()
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=found,
        stats_columns=compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )

    def value_of(field: PartitionField) -> Any:
        known = statistics.column_aggregates.get(field.source_id)
        value = None if known is None else known.current_min
        if value is None:  # all values are null, or too long for Parquet's statistics
            value = _first_value(io, path, schema.find_column_name(field.source_id) or "")
        if value is None:
            return None
        kind = schema.find_field(field.source_id).field_type
        return field.transform.transform(kind)(partition_record_value(field, value, schema))

    entry = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*[value_of(field) for field in metadata.spec().fields]),
        file_size_in_bytes=len(source),
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
    entry.spec_id = metadata.default_spec_id
    return entry


def _first_value(io: FileIO, path: str, column: str) -> Any:
    """Returns a column's value in the first row of a file. `column` may be a dotted path to a nested field."""
    with io.new_input(path).open() as stream:
        found = pq.ParquetFile(stream).read_row_group(0, columns=[column]).column(0)
    for name in column.split(".")[1:]:
        found = pc.struct_field(found, name)
    return found[0].as_py()
