"""Saves a topic's records to a file, for `lacuna consume --output`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from lacuna.base.errors import UserError
from lacuna.operating.points import Kind, Point

FORMATS: Final = ("parquet", "arrow", "csv")


class Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Writes the rows of a batch."""
        ...


def point_of(point: Point) -> Any:
    """Convert a point to an argument of `lacuna.read`: None for the beginning or the present end."""
    match point.kind:
        case Kind.OFFSET:
            return point.value
        case Kind.TIME:
            return datetime.fromtimestamp(point.value / 1000, UTC)
        case Kind.END:
            return f"latest-{point.value}"
        case _:
            return None


def save(
    reader: pa.RecordBatchReader,
    kind: str,
    path: Path,
    most: int | None = None,
    *,
    written: Callable[[int], None] = lambda _: None,
) -> int:
    """Writes at most `most` records in one of the FORMATS. Returns the number of records written.

    `written` receives the number of records in each batch. The file replaces an older one only when it is complete.
    Raises UserError, OSError and the reader's errors.
    """
    staged = path.with_name(f".{path.name}.part")
    count = 0
    try:
        with _writer(kind, staged, reader.schema) as writer:
            for batch in _first(reader, most):
                writer.write_batch(batch if kind != "csv" else _as_text(batch))
                count += batch.num_rows
                written(batch.num_rows)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
    return count


def _writer(kind: str, path: Path, schema: pa.Schema) -> AbstractContextManager[Writer]:
    writer: AbstractContextManager[Writer]
    if kind == "parquet":
        writer = pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=["topic"])
    elif kind == "arrow":
        writer = pa.ipc.new_file(path, schema)
    else:
        writer = pyarrow.csv.CSVWriter(path, _text_schema(schema))
    return writer


def _first(reader: pa.RecordBatchReader, most: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the batches, up to `most` rows in total if that is given."""
    for batch in reader:
        if most is None:
            yield batch
            continue
        yield batch.slice(0, most)
        most -= batch.num_rows
        if most <= 0:
            return


def _text_schema(schema: pa.Schema) -> pa.Schema:
    texts = {"topic": pa.string(), "key": pa.string(), "value": pa.string()}
    return pa.schema([pa.field(field.name, texts.get(field.name, field.type)) for field in schema])


def _as_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert a batch for CSV. Raises UserError if a key or a value is not text."""
    try:
        return pa.RecordBatch.from_arrays(
            [
                column.cast(field.type)
                for column, field in zip(batch.columns, _text_schema(batch.schema), strict=True)
            ],
            schema=_text_schema(batch.schema),
        )
    except pa.ArrowInvalid as error:
        offsets = batch["offset"]
        raise UserError(
            f"CSV holds only text, but a key or value between offsets {offsets[0]} and {offsets[-1]} of partition "
            f"{batch['partition'][0]} is not UTF-8: use --output parquet or --output arrow"
        ) from error
