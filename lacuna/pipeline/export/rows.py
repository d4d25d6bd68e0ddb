"""Turns decoded columns of records into Arrow columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lacuna.logstore.records.column_layout import BinaryColumn, RecordColumns
from lacuna.pipeline.decoding import binary, fixed, headers, known_times
from lacuna.pipeline.export.layout import HEADERS, TIMESTAMP, Layout
from lacuna.pipeline.export.typed.schema import Undecodable, decoder_of


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record whose key or value (`part`) does not match its schema. `row` is its index in the columns."""

    row: int
    offset: int
    part: str
    reason: str


class RowMaker:
    """Turns the records of one partition into rows with the given layout."""

    def __init__(self, layout: Layout, partition: int) -> None:
        self._schema = layout.schema()
        self._layout = layout
        self._partition = partition
        self._decoders = {
            name: None if schema is None else decoder_of(schema)
            for name, schema in (("key", layout.key), ("value", layout.value))
        }

    def rows(self, columns: RecordColumns) -> tuple[pa.RecordBatch, list[Misfit]]:
        """Returns a row for each record, and the misfits. Keys and values that do not match their schema are null."""
        misfits: list[Misfit] = []
        arrays = _first_columns(columns, self._partition)
        arrays += self._part("key", columns.keys, columns, misfits)
        arrays += self._part("value", columns.values, columns, misfits)
        arrays.append(headers(columns.headers, columns.count, HEADERS))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), misfits

    def _part(
        self,
        name: str,
        column: BinaryColumn | None,
        columns: RecordColumns,
        misfits: list[Misfit],
    ) -> Sequence[pa.Array]:
        raw = binary(column, columns.count)
        decoder = self._decoders[name]
        if decoder is None:
            return [raw]
        decoded, failures = decoder.decode_all(raw)
        misfits += [_misfit(failure, name, columns) for failure in failures]
        if self._layout.is_flat and pa.types.is_struct(decoded.type):
            return list(decoded.flatten())
        return [decoded]


def raw_rows(columns: RecordColumns, misfits: Sequence[Misfit], partition: int) -> pa.RecordBatch:
    """Returns quarantine rows for the misfits: the original records, and why they do not match their schema."""
    by_row: dict[int, str] = {}
    for misfit in misfits:
        reason = f"{misfit.part}: {misfit.reason}"
        by_row[misfit.row] = "; ".join(filter(None, (by_row.get(misfit.row), reason)))
    rows = pa.array(sorted(by_row), pa.int64())
    names = ("partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
    whole = (
        *_first_columns(columns, partition),
        binary(columns.keys, columns.count),
        binary(columns.values, columns.count),
        headers(columns.headers, columns.count, HEADERS),
    )
    arrays = [array.take(rows) for array in whole]
    reasons = pa.array([by_row[row] for row in sorted(by_row)], pa.string())
    return pa.RecordBatch.from_arrays([*arrays, reasons], names=[*names, "reason"])


def _first_columns(columns: RecordColumns, partition: int) -> list[pa.Array]:
    return [
        pa.repeat(pa.scalar(partition, pa.int32()), columns.count),
        fixed(pa.int64(), columns.offsets, columns.count),
        pc.multiply(known_times(columns), 1000).cast(TIMESTAMP),
        fixed(pa.int32(), columns.timestamp_types, columns.count),
    ]


def _misfit(failure: Undecodable, part: str, columns: RecordColumns) -> Misfit:
    return Misfit(failure.row, columns.offsets[failure.row], part, failure.reason)
