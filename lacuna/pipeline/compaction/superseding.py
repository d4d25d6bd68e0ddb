"""Finds a unit's superseded records: scans the keys of its tasks, and reads the offsets that a rewrite drops."""

from array import array
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.records.column_layout import RecordColumns
from lacuna.logstore.records.columns import scan_keys
from lacuna.logstore.records.errors import RecordsError
from lacuna.pipeline.compaction.planning import Share
from lacuna.pipeline.compaction.rewriting import Dropped, RewriteTask
from lacuna.pipeline.decoding import binary, fixed
from lacuna.pipeline.errors import DamagedDataError, DataLossError
from lacuna.pipeline.loading import Block, damaged, load_blocks
from lacuna.pipeline.stores import shared_store

#: The rows of a scan, one for each record with a key.
KEYS: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("share", pa.int32()),
        ("range", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("is_past", pa.bool_()),
    ]
)
#: The offset in a row that gives the reason why a share's keys could not be read, which makes it sort before the
#: share's offsets.
DAMAGE: Final = -1


def scan_task(number: int, task: RewriteTask, now_ms: int) -> Iterator[pa.RecordBatch]:
    """Yields the keys of the task's shares, and a row with the reason for each damaged share.

    The unread keys of a damaged share might supersede other records, so its rewrite must fail even if the share has
    become readable by then.
    """
    store = shared_store(task.store_url)
    for index, share in enumerate(task.shares):
        try:
            for columns in _keys_of(store, task, share):
                yield _key_batch(number, index, share, columns, now_ms)
        except (DamagedDataError, DataLossError) as error:
            row = (number, index, share.range_index, DAMAGE, str(error).encode(), True)
            yield pa.RecordBatch.from_arrays([[each] for each in row], schema=KEYS)


def _keys_of(store: ObjectStore, task: RewriteTask, share: Share) -> Iterator[RecordColumns]:
    """Yields the keys of one share. Raises the same errors as `load_blocks`, and DamagedDataError for unparsable
    records.
    """
    blocks = load_blocks(
        store, task.cluster_id, share.pieces(), block_bytes=task.settings.block_bytes
    )
    for block in blocks:
        try:
            yield from scan_keys(block.data)
        except RecordsError as error:
            raise _damage_in(block, task.cluster_id, error) from error


def _damage_in(block: Block, cluster_id: str, error: RecordsError) -> DamagedDataError:
    view = memoryview(block.data)
    for piece, start in zip(block.pieces, block.starts, strict=False):
        try:
            for _ in scan_keys(view[start : start + piece.size]):
                pass
        except RecordsError as found:
            return damaged(piece, cluster_id, str(found))
    return damaged(block.pieces[0], cluster_id, str(error))


def _key_batch(
    number: int, index: int, share: Share, columns: RecordColumns, now_ms: int
) -> pa.RecordBatch:
    """Returns rows for the records that have a key. Those without one neither supersede records nor are superseded."""
    count = columns.count
    assert columns.keys is not None
    assert columns.tombstones is not None
    assert columns.horizons is not None
    horizons = fixed(pa.int64(), columns.horizons, count)
    is_past = pc.and_(
        pc.equal(fixed(pa.uint8(), columns.tombstones, count), 1),
        pc.and_(pc.greater_equal(horizons, 0), pc.less_equal(horizons, now_ms)),
    )
    rows = pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(number, pa.int32()), count),
            pa.repeat(pa.scalar(index, pa.int32()), count),
            pa.repeat(pa.scalar(share.range_index, pa.int32()), count),
            fixed(pa.int64(), columns.offsets, count),
            binary(columns.keys, count),
            is_past if share.drops_tombstones else pa.repeat(pa.scalar(False), count),
        ],
        schema=KEYS,
    )
    return rows.filter(rows["key"].is_valid()) if columns.keys.validity is not None else rows


class OffsetStream(Dropped):
    """A task's superseded offsets, sorted by share and offset, and read from the shuffle batch by batch."""

    def __init__(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> None:
        self._rest = rest
        self._take(first)

    def below(self, share: int, end_offset: int) -> "array[int] | None":
        """See `Dropped`. Skips the remaining offsets of earlier shares whose rewrite failed.

        Raises DamagedDataError for a share whose keys could not be read.
        """
        found = array("q")
        while self._has_more():
            at_share, offset = self._shares[self._at], self._offsets[self._at]
            if at_share > share or (at_share == share and offset >= end_offset):
                break
            if at_share == share and offset == DAMAGE:
                raise DamagedDataError(self._batch["payload"][self._at].as_py().decode())
            if at_share == share:
                found.append(offset)
            self._at += 1
        return found or None

    def _has_more(self) -> bool:
        while self._at >= len(self._offsets):
            batch = next(self._rest, None)
            if batch is None:
                return False
            self._take(batch)
        return True

    def _take(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._shares = _numbers(batch["share"], "i")
        self._offsets = _numbers(batch["offset"], "q")
        self._at = 0


def _numbers(column: pa.Array, typecode: str) -> "array[int]":
    found = array(typecode)
    if len(column):
        start = column.offset * found.itemsize
        values = memoryview(column.buffers()[1])
        found.frombytes(values[start : start + len(column) * found.itemsize])
    return found
