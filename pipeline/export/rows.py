"""Turns the kernel's columns of records into Arrow's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lacuna.logstore.records.column_layout import BinaryColumn, HeaderColumn, RecordColumns
from lacuna.pipeline.export.layout import HEADERS, TIMESTAMP, Layout
from lacuna.pipeline.export.typed.decoding import decoder_of
from lacuna.pipeline.export.typed.schema import Undecodable

#: Years 1 to 9999 in ms, the times that other systems can represent. Other times become null.
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record whose key or value (`part`) does not match its schema; `row` is its index among the columns' rows."""

    row: int
    offset: int
    part: str
    reason: str


class RowMaker:
    """Makes rows of `layout` from the records of one partition."""

    def __init__(self, layout: Layout, partition: int) -> None:
        self._schema = layout.schema()
        self._layout = layout
        self._partition = partition
        self._decoders = {
            name: None if schema is None else decoder_of(schema)
            for name, schema in (("key", layout.key), ("value", layout.value))
        }

    def rows(self, columns: RecordColumns) -> tuple[pa.RecordBatch, list[Misfit]]:
        """One row for each record, and the misfits; keys or values that do not match their schema are null."""
        misfits: list[Misfit] = []
        arrays: list[pa.Array] = [
            pa.repeat(pa.scalar(self._partition, pa.int32()), columns.count),
            pa.array(columns.offsets, pa.int64()),
            _timestamps(columns),
            pa.array(columns.timestamp_types, pa.int32()),
        ]
        arrays += self._part("key", columns.keys, columns, misfits)
        arrays += self._part("value", columns.values, columns, misfits)
        arrays.append(headers(columns.headers, columns.count))
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
    """The rows for quarantine: the original records that do not match their schema, with the reason."""
    by_row: dict[int, str] = {}
    for misfit in misfits:
        reason = f"{misfit.part}: {misfit.reason}"
        by_row[misfit.row] = "; ".join(filter(None, (by_row.get(misfit.row), reason)))
    rows = pa.array(sorted(by_row), pa.int64())
    names = ("partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
    whole = (
        pa.repeat(pa.scalar(partition, pa.int32()), columns.count),
        pa.array(columns.offsets, pa.int64()),
        _timestamps(columns),
        pa.array(columns.timestamp_types, pa.int32()),
        binary(columns.keys, columns.count),
        binary(columns.values, columns.count),
        headers(columns.headers, columns.count),
    )
    arrays = [array.take(rows) for array in whole]
    reasons = pa.array([by_row[row] for row in sorted(by_row)], pa.string())
    return pa.RecordBatch.from_arrays([*arrays, reasons], names=[*names, "reason"])


def binary(column: BinaryColumn | None, count: int, kind: Any = None) -> pa.Array:
    """A column of byte strings as an Arrow array of type `kind` (binary by default), without a copy.

    Without a column, an array of `count` nulls.
    """
    kind = kind or pa.binary()
    if column is None:
        return pa.nulls(count, kind)
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, count, buffers)


def headers(column: HeaderColumn | None, count: int) -> pa.Array:
    """The headers of `count` records as an Arrow array of lists of (key, value); null for a record without headers."""
    if column is None:
        return pa.nulls(count, HEADERS)
    offsets = memoryview(column.list_offsets).cast("B").cast("i")
    total = offsets[-1]
    items = pa.StructArray.from_arrays(
        [binary(column.keys, total, pa.string()), binary(column.values, total)],
        fields=list(HEADERS.value_type),
    )
    starts = pa.array(offsets, pa.int32())
    lists = pa.ListArray.from_arrays(starts, items, type=HEADERS)
    return pc.if_else(pc.equal(pc.list_value_length(lists), 0), pa.scalar(None, HEADERS), lists)


def _timestamps(columns: RecordColumns) -> pa.Array:
    times = pa.array(columns.timestamps, pa.int64())
    none = pc.or_(
        pc.equal(times, -1), pc.or_(pc.less(times, _FIRST_MS), pc.greater(times, _LAST_MS))
    )
    known = pc.if_else(none, pa.scalar(None, pa.int64()), times)
    return pc.multiply(known, 1000).cast(TIMESTAMP)


def _misfit(failure: Undecodable, part: str, columns: RecordColumns) -> Misfit:
    return Misfit(failure.row, columns.offsets[failure.row], part, failure.reason)
