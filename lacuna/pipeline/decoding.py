"""Decodes checked blocks into columns of records, and turns these columns into Arrow's without copying them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lacuna.logstore.records.column_layout import BinaryColumn, HeaderColumn, RecordColumns
from lacuna.logstore.records.columns import ColumnBuilder
from lacuna.logstore.records.errors import RecordsError
from lacuna.pipeline.errors import DamagedDataError
from lacuna.pipeline.loading import Block, Skip, damaged
from lacuna.pipeline.salvage import Lost

_MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The records to decode: offsets [first, end), and timestamps in ms from `min_timestamp` to `max_timestamp`."""

    first_offset: int = 0
    end_offset: int = _MAX_INT64
    min_timestamp: int = -_MAX_INT64 - 1
    max_timestamp: int = _MAX_INT64

    def after(self, offset: int) -> "Bounds":
        """The bounds without the offsets below `offset`."""
        return Bounds(
            first_offset=max(self.first_offset, offset),
            end_offset=self.end_offset,
            min_timestamp=self.min_timestamp,
            max_timestamp=self.max_timestamp,
        )


def decode(
    builder: ColumnBuilder,
    blocks: Iterable[Block],
    cluster_id: str,
    bounds: Bounds,
    skip: Skip | None = None,
) -> Iterator[RecordColumns]:
    """Yields the records of the blocks that are within the bounds, in the sizes that the builder returns.

    Raises DamagedDataError for a batch that cannot be decoded; `skip`, if given, receives it instead, and the other
    batches are decoded.
    """
    for block in blocks:
        for index in range(len(block.pieces)):
            yield from _decode_piece(builder, block, index, cluster_id, bounds, skip)
    rest = builder.take()
    if rest is not None:
        yield rest


def _decode_piece(
    builder: ColumnBuilder,
    block: Block,
    index: int,
    cluster_id: str,
    bounds: Bounds,
    skip: Skip | None,
) -> Iterator[RecordColumns]:
    reached = bounds.first_offset
    try:
        for columns in _read(builder, block, block.starts[index], block.starts[index + 1], bounds):
            reached = columns.offsets[-1] + 1
            yield columns
    except RecordsError as error:
        found = damaged(block.pieces[index], cluster_id, str(error))
        if skip is None:
            raise found from error
    else:
        return
    rest = builder.take()
    if rest is not None:
        reached = rest.offsets[-1] + 1
        yield rest
    yield from _decode_batches(
        builder, block, index, bounds.after(reached), skip, found, cluster_id
    )


def _decode_batches(
    builder: ColumnBuilder,
    block: Block,
    index: int,
    bounds: Bounds,
    skip: Skip,
    error: DamagedDataError,
    cluster_id: str,
) -> Iterator[RecordColumns]:
    """Decodes the batches of a piece one by one, and passes those that cannot be decoded to `skip`."""
    walked, piece = block.walked, block.pieces[index]
    for at in range(walked.firsts[index], walked.firsts[index + 1]):
        first = max(walked.base_offsets[at], bounds.first_offset)
        end = walked.last_offsets[at] + 1
        if first >= end:
            continue
        try:
            yield from _read(builder, block, walked.positions[at], walked.positions[at + 1], bounds)
        except RecordsError:
            rest = builder.take()
            if rest is not None:
                first = rest.offsets[-1] + 1
                yield rest
            skip(Lost(piece.key(cluster_id), first, end, error))


def _read(
    builder: ColumnBuilder, block: Block, position: int, end: int, bounds: Bounds
) -> Iterator[RecordColumns]:
    return builder.read(
        block.data,
        position,
        end,
        first_offset=bounds.first_offset,
        end_offset=bounds.end_offset,
        min_timestamp=bounds.min_timestamp,
        max_timestamp=bounds.max_timestamp,
    )


def fixed(type_: pa.DataType, values: memoryview, count: int) -> pa.Array:
    """A column of numbers as an Arrow array."""
    return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(values)])


def binary(column: BinaryColumn | None, count: int, type_: pa.DataType | None = None) -> pa.Array:
    """A column of byte strings as an Arrow array, binary unless `type_` is given; nulls without a column."""
    type_ = type_ or pa.binary()
    if column is None:
        return pa.nulls(count, type_)
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(type_, count, buffers)


def headers(column: HeaderColumn | None, count: int, type_: pa.DataType) -> pa.Array:
    """Headers as lists of (key, value); null for a record without headers, as in Spark's Kafka source."""
    if column is None:
        return pa.nulls(count, type_)
    list_offsets = memoryview(column.list_offsets)
    total = list_offsets[count]
    pair = type_.value_type
    keys = binary(column.keys, total, pair.field(0).type)
    values = binary(column.values, total, pair.field(1).type)
    pairs = pa.Array.from_buffers(pair, total, [None], children=[keys, values])
    buffers = [_not_empty(list_offsets, count), pa.py_buffer(list_offsets)]
    return pa.Array.from_buffers(type_, count, buffers, children=[pairs])


def _not_empty(list_offsets: memoryview, count: int) -> pa.Buffer:
    """A bitmap with one bit per list, which is set if the list is not empty."""
    offsets = fixed(pa.int32(), list_offsets, count + 1)
    return pc.not_equal(offsets.slice(1), offsets.slice(0, count)).buffers()[1]
