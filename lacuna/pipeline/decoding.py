"""Decodes checked blocks into columns of records, and wraps these as Arrow arrays and batches without copying."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.records.column_layout import BinaryColumn, HeaderColumn, RecordColumns
from lacuna.logstore.records.columns import ColumnBuilder
from lacuna.logstore.records.errors import RecordsError
from lacuna.pipeline.errors import DamagedDataError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.loading import Block, Skip, damaged, load_blocks
from lacuna.pipeline.salvage import Lost

_MAX_INT64 = (1 << 63) - 1
_MILLISECONDS: Final = pa.timestamp("ms", "UTC")
#: The years 1 to 9999 in ms: the times that other systems can represent. Others become null.
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The records to decode: offsets [first, end), and timestamps (in ms) from `min_timestamp` to `max_timestamp`."""

    first_offset: int = 0
    end_offset: int = _MAX_INT64
    min_timestamp: int = -_MAX_INT64 - 1
    max_timestamp: int = _MAX_INT64

    def after(self, offset: int) -> "Bounds":
        """Returns the bounds without the offsets below `offset`."""
        return replace(self, first_offset=max(self.first_offset, offset))


def decode(
    builder: ColumnBuilder,
    blocks: Iterable[Block],
    cluster_id: str,
    bounds: Bounds,
    skip: Skip | None = None,
) -> Iterator[RecordColumns]:
    """Yields the records within the bounds, in batches whose sizes the builder determines.

    Raises DamagedDataError for a batch that cannot be decoded. If `skip` is given, it receives the error instead, and
    decoding continues with the next batch.
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


def first_offset_since(
    log: PartitionLog,
    store: ObjectStore,
    cluster_id: str,
    timestamp: int,
    *,
    is_committed: bool,
    skip: Skip | None = None,
) -> int | None:
    """Returns the first offset with this timestamp (in ms) or a later one, or None. Usually reads a single extent."""
    first, end = log.log_start_offset, log.end_offset(is_committed=is_committed)
    bounds = Bounds(first_offset=first, end_offset=end, min_timestamp=timestamp)
    for piece in log.late_pieces(first, end, timestamp, is_committed=is_committed):
        blocks = load_blocks(store, cluster_id, [piece], skip=skip)
        builder = ColumnBuilder(keys=False, values=False, max_records=1)
        found = next(decode(builder, blocks, cluster_id, bounds, skip), None)
        if found is not None:
            return int(found.offsets[0])
    return None


def builder_of(names: Iterable[str], max_bytes: int, expected_bytes: int = 0) -> ColumnBuilder:
    """Returns a builder that decodes only the parts that these columns need, into memory from Arrow's pool.

    Because the pool keeps this memory for the next batch, decoding takes half the CPU time.
    """
    wanted = frozenset(names)
    return ColumnBuilder(
        keys="key" in wanted,
        values="value" in wanted,
        headers="headers" in wanted,
        max_bytes=max_bytes,
        expected_bytes=expected_bytes,
        allocate=partial(pa.allocate_buffer, resizable=True),
    )


class Shape:
    """Builds record batches with the columns of `schema` from the records of one partition.

    `constants` contains the values of columns that are the same for all records.
    """

    def __init__(self, schema: pa.Schema, constants: Mapping[str, pa.Scalar]) -> None:
        self._schema = schema
        self._constants = constants
        self._repeated: dict[str, pa.Array] = {}

    def batch(self, columns: RecordColumns) -> pa.RecordBatch:
        """Returns the records as an Arrow batch, which shares their memory."""
        arrays = [self._array(field, columns) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def times(self, columns: RecordColumns, type_: pa.DataType) -> pa.Array:
        """Returns the timestamps with this type. Missing ones, and those outside the years 1 to 9999, are null."""
        if _are_known(
            columns
        ):  # casts would take longer than everything else in this batch except its bytes
            times = fixed(_MILLISECONDS, columns.timestamps, columns.count)
        else:
            times = known_times(columns).cast(_MILLISECONDS)
        return times if type_ == _MILLISECONDS else times.cast(type_)

    def _array(self, field: pa.Field, columns: RecordColumns) -> pa.Array:
        match field.name:
            case "key":
                return binary(columns.keys, columns.count)
            case "value":
                return binary(columns.values, columns.count)
            case "headers":
                return headers(columns.headers, columns.count, field.type)
            case "offset":
                return fixed(field.type, columns.offsets, columns.count)
            case "timestamp_type" | "timestampType":
                return fixed(field.type, columns.timestamp_types, columns.count)
            case "timestamp":
                return self.times(columns, field.type)
            case name:
                return self._constant(name, columns.count)

    def _constant(self, name: str, count: int) -> pa.Array:
        """Returns an array that repeats the value `count` times. Reuses an earlier array if it is long enough."""
        known = self._repeated.get(name)
        if known is None or len(known) < count:
            known = self._repeated[name] = pa.repeat(self._constants[name], count)
        return known.slice(0, count)


def _are_known(columns: RecordColumns) -> bool:
    extremes = pc.min_max(fixed(pa.int64(), columns.timestamps, columns.count)).as_py()
    return bool(extremes["min"] >= 0 and extremes["max"] <= _LAST_MS)


def known_times(columns: RecordColumns) -> pa.Array:
    """Returns the timestamps in ms. Missing ones, and those outside the years 1 to 9999, are null."""
    times = fixed(pa.int64(), columns.timestamps, columns.count)
    if _are_known(columns):
        return times
    none = pc.or_(
        pc.equal(times, -1), pc.or_(pc.less(times, _FIRST_MS), pc.greater(times, _LAST_MS))
    )
    return pc.if_else(none, pa.scalar(None, pa.int64()), times)


def fixed(type_: pa.DataType, values: memoryview, count: int) -> pa.Array:
    return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(values)])


def binary(column: BinaryColumn | None, count: int, type_: pa.DataType | None = None) -> pa.Array:
    """Returns byte strings as an Arrow array of `type_` (default: binary). Without a column, all values are null."""
    type_ = type_ or pa.binary()
    if column is None:
        return pa.nulls(count, type_)
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(type_, count, buffers)


def headers(column: HeaderColumn | None, count: int, type_: pa.DataType) -> pa.Array:
    """Returns the headers as lists of (key, value) pairs; null for records without any, as in Spark's Kafka source."""
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
    offsets = fixed(pa.int32(), list_offsets, count + 1)
    return pc.not_equal(offsets.slice(1), offsets.slice(0, count)).buffers()[1]
