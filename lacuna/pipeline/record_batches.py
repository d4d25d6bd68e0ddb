"""Reads partitions as Arrow record batches. Several threads load and decode blocks, with bounded memory.

A unit of work is a block of one partition. Each thread holds one block, and makes one batch ahead of the reader, so
memory depends on the number of threads rather than on the size of a topic.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.logstore.objects import ObjectStore
from lacuna.pipeline.decoding import Bounds, Shape, builder_of, decode
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.loading import cut_pieces, load_block

Item = TypeVar("Item")

BLOCK_BYTES: Final = 4 << 20
"""The stored bytes in a block. With 8 MiB, a read takes the same time but more memory; with 1 MiB, more time."""
BATCH_BYTES: Final = 8 << 20
"""The bytes of keys, values and headers in a batch, unless one record has more. A batch has up to 65,536 records."""
MAX_THREADS: Final = 4

HEADERS: Final = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)
COLUMNS: Final = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC")),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
"""All columns, in the default order of a reader, which leaves out headers by default."""


def schema_of(names: Iterable[str] | None, *, headers: bool = False) -> pa.Schema:
    """Returns the columns with these names (default: all columns, with or without headers). Raises PipelineError."""
    if names is None:
        return COLUMNS if headers else COLUMNS.remove(COLUMNS.get_field_index("headers"))
    wanted = [names] if isinstance(names, str) else list(names)
    if headers and "headers" not in wanted:
        wanted.append("headers")
    for name in wanted:
        if name not in COLUMNS.names or wanted.count(name) > 1:
            raise PipelineError(
                f"columns={wanted!r}: {name!r} is "
                f"{'named twice' if name in COLUMNS.names else 'not a column'}; the columns are "
                f"{', '.join(COLUMNS.names)}"
            )
    if not wanted:
        raise PipelineError(f"columns=[]: name at least one of {', '.join(COLUMNS.names)}")
    return pa.schema([COLUMNS.field(name) for name in wanted])


@dataclass(frozen=True, slots=True)
class Span:
    """The records of a partition to read: those within the bounds and, with `is_committed`, only committed ones."""

    log: PartitionLog
    bounds: Bounds
    is_committed: bool

    def pieces(self) -> Iterator[Piece]:
        """Yields the pieces that may hold the records, in offset order."""
        log, bounds = self.log, self.bounds
        first, end, is_committed = bounds.first_offset, bounds.end_offset, self.is_committed
        if bounds.min_timestamp <= 0:
            return log.pieces(first, end, is_committed=is_committed)
        return log.late_pieces(first, end, bounds.min_timestamp, is_committed=is_committed)


def record_batches(
    store: ObjectStore, cluster_id: str, spans: Sequence[Span], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yields the records of the spans in order, with the columns of `schema`.

    Raises DataLossError, DamagedDataError and PipelineError, but first yields all batches before the failure.
    """
    return in_order(_units(store, cluster_id, spans, schema), _threads(store))


def _units(
    store: ObjectStore, cluster_id: str, spans: Sequence[Span], schema: pa.Schema
) -> Iterator[Iterator[pa.RecordBatch]]:
    names = pa.array(sorted({span.log.topic for span in spans}), pa.string())
    spare: list[bytearray] = []
    for span in spans:
        shape = Shape(schema, _constants(span.log, names))
        for group in cut_pieces(span.pieces(), BLOCK_BYTES):
            yield _unit(store, cluster_id, group, span.bounds, schema, shape, spare)


def _unit(
    store: ObjectStore,
    cluster_id: str,
    group: Sequence[Piece],
    bounds: Bounds,
    schema: pa.Schema,
    shape: Shape,
    spare: list[bytearray],
) -> Iterator[pa.RecordBatch]:
    """Yields the records of a block. `spare` contains the buffers of earlier blocks, for reuse."""
    data = spare.pop() if spare else bytearray()
    block = load_block(store, cluster_id, group, data)
    builder = builder_of(schema.names, BATCH_BYTES, len(data))
    for columns in decode(builder, [block], cluster_id, bounds):
        yield shape.batch(columns)
    spare.append(data)


def _constants(log: PartitionLog, names: pa.Array) -> dict[str, pa.Scalar]:
    """Returns the columns that have the same value throughout a partition. All topics share the dictionary `names`."""
    index = pa.array([names.index(log.topic).as_py()], pa.int32())
    return {
        "topic": pa.DictionaryArray.from_arrays(index, names)[0],
        "partition": pa.scalar(log.partition, pa.int32()),
    }


def _threads(store: ObjectStore) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # One thread can decode while the other waits for the bucket. A folder (which has no `read_gap`) is read from memory
    # or ahead of time; there, a second thread on one core took a fifth more CPU time.
    return max(1 if store.read_gap == 0 else 2, min(MAX_THREADS, cores or 1))


def in_order(units: Iterator[Iterator[Item]], threads: int) -> Iterator[Item]:
    """Yields the items of one unit after another, while threads produce the next item of each of `threads` units.

    If `threads` is 1, the caller's thread produces the items.
    """
    if threads == 1:
        for each in units:
            yield from each
        return
    ahead: deque[tuple[Iterator[Item], Future[Item | None]]] = deque()
    executor = ThreadPoolExecutor(threads, thread_name_prefix="decode")
    try:
        while True:
            while len(ahead) < threads and (unit := next(units, None)) is not None:
                ahead.append((unit, executor.submit(next, unit, None)))
            if not ahead:
                return
            unit, coming = ahead[0]
            item = coming.result()
            if item is None:
                ahead.popleft()
            else:
                ahead[0] = unit, executor.submit(next, unit, None)
                yield item
    finally:
        executor.shutdown(cancel_futures=True)
