"""Compaction by key, as one Spark job: the last record of each key stays.

    scan      reads the keys and offsets of every task's records, without the values
    shuffle   by (range, key): all but the last offset of a key are superseded
    shuffle   by task: brings it its superseded offsets, in order
    rewrite   reads these offsets alongside the blocks, one batch of offsets at a time

Both shuffles are Spark's own and spill to disk, so memory is bounded however many keys there are. The keys themselves
are compared, not their hashes: if the hashes of two keys collided, a record would be lost.
"""

import pickle
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, Window, functions

from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.records.column_layout import BinaryColumn, RecordColumns
from lacuna.logstore.records.columns import scan_keys
from lacuna.logstore.records.errors import RecordsError
from lacuna.pipeline.compaction.planning import Share
from lacuna.pipeline.compaction.rewriting import Dropped, RewriteTask, TaskResult, rewrite
from lacuna.pipeline.errors import DamagedDataError, DataLossError, PipelineError
from lacuna.pipeline.loading import Block, damaged, load_blocks
from lacuna.pipeline.stores import shared_store

_TASKS: Final = "task int, share int, offset long, payload binary"
_KEYS: Final = "task int, share int, range int, offset long, key binary, is_past boolean"
_KEYS_ARROW: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("share", pa.int32()),
        ("range", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("is_past", pa.bool_()),
    ]
)
#: The share and offset of the row with the task itself, so that it sorts before the task's offsets.
_FIRST: Final = -1
#: The offset of a row that says why a share's keys could not be read, so that it sorts before the share's offsets.
_DAMAGE: Final = -1


def clean(spark: SparkSession, tasks: Sequence[RewriteTask], now_ms: int) -> list[TaskResult]:
    """Rewrites the tasks of one unit without superseded records and without tombstones past their delete horizon.

    Keys are compared across all tasks of a range. `now_ms` is the time of the plan. Raises Spark's error if a task
    fails.
    """
    rows = [(index, _FIRST, _FIRST, pickle.dumps(task)) for index, task in enumerate(tasks)]
    given = spark.createDataFrame(spark.sparkContext.parallelize(rows, len(rows)), _TASKS)
    gone = _superseded(given.mapInArrow(_scanner(now_ms), _KEYS))
    both = given.unionByName(gone)
    ordered = both.repartitionById(len(rows), functions.col("task")).sortWithinPartitions(
        "share", "offset"
    )
    found = ordered.mapInArrow(_rewrite_partition, "result binary").collect()
    return [pickle.loads(row.result) for row in found]  # noqa: S301 - a Spark task of this job wrote it


def _superseded(keys: DataFrame) -> DataFrame:
    """Rows (task, share, offset, payload) of all records that must go, and of all shares that are damaged.

    Records go if they are not the last of their key, or are tombstones past their delete horizon; their payload is
    null. The payload of a damaged share's row is the reason.
    """
    later = functions.lead("offset").over(Window.partitionBy("range", "key").orderBy("offset"))
    marked = keys.withColumn("later", later)
    reason = functions.when(functions.col("offset") == _DAMAGE, functions.col("key"))
    return marked.where(functions.col("later").isNotNull() | functions.col("is_past")).select(
        "task", "share", "offset", reason.alias("payload")
    )


# The functions below run in the executors.


def _scanner(now_ms: int) -> Any:
    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, payload in zip(batch["task"], batch["payload"], strict=True):
                yield from _scan_task(number.as_py(), pickle.loads(payload.as_py()), now_ms)  # noqa: S301 - a Spark task of this job wrote it

    return scan


def _scan_task(number: int, task: RewriteTask, now_ms: int) -> Iterator[pa.RecordBatch]:
    """Yields the keys of all the task's shares, and a row with the reason for each damaged share.

    Which records the unread keys of a damaged share supersede is unknown, so its rewrite must fail even if its bytes
    can be read by then.
    """
    store = shared_store(task.store_url)
    for index, share in enumerate(task.shares):
        try:
            for columns in _keys_of(store, task, share):
                yield _key_batch(number, index, share, columns, now_ms)
        except (DamagedDataError, DataLossError) as error:
            row = (number, index, share.range_index, _DAMAGE, str(error).encode(), True)
            yield pa.RecordBatch.from_arrays([[each] for each in row], schema=_KEYS_ARROW)


def _keys_of(store: ObjectStore, task: RewriteTask, share: Share) -> Iterator[RecordColumns]:
    """The keys of one share. Raises as `load_blocks` does, and DamagedDataError for records that cannot be parsed."""
    blocks = load_blocks(
        store, task.cluster_id, share.pieces(), block_bytes=task.settings.block_bytes
    )
    for block in blocks:
        try:
            yield from scan_keys(block.data)
        except RecordsError as error:
            raise _damage_in(block, task.cluster_id, error) from error


def _damage_in(block: Block, cluster_id: str, error: RecordsError) -> DamagedDataError:
    """The error for a block that cannot be scanned, naming the damaged piece."""
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
    """Rows of the records that have a key; a record without one neither supersedes others nor is superseded."""
    count = columns.count
    assert columns.keys is not None
    assert columns.tombstones is not None
    assert columns.horizons is not None
    horizons = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.horizons)])
    tombstones = pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(columns.tombstones)])
    is_past = pc.and_(
        pc.equal(tombstones, 1),
        pc.and_(pc.greater_equal(horizons, 0), pc.less_equal(horizons, now_ms)),
    )
    rows = pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(number, pa.int32()), count),
            pa.repeat(pa.scalar(index, pa.int32()), count),
            pa.repeat(pa.scalar(share.range_index, pa.int32()), count),
            pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.offsets)]),
            _binary(columns.keys, count),
            is_past if share.drops_tombstones else pa.repeat(pa.scalar(False), count),
        ],
        schema=_KEYS_ARROW,
    )
    return rows.filter(rows["key"].is_valid()) if columns.keys.validity is not None else rows


def _binary(column: BinaryColumn, count: int) -> pa.Array:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _rewrite_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rewrites one task; its first row is the task, the others are the offsets to drop, ordered by share."""
    context = TaskContext.get()
    if context is None:
        raise PipelineError("a rewrite must run in a Spark task")
    rest = iter(batches)
    first = next((batch for batch in rest if batch.num_rows), None)
    if first is None:
        return
    task: RewriteTask = pickle.loads(first["payload"][0].as_py())  # noqa: S301 - a Spark task of this job wrote it
    dropped = _OffsetStream(first.slice(1), rest)
    result = rewrite(task, shared_store(task.store_url), context.taskAttemptId(), dropped)
    yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(result)]})


class _OffsetStream(Dropped):
    """The superseded offsets of a task, read batch by batch from the shuffle, in order of share and offset."""

    def __init__(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> None:
        self._rest = rest
        self._take(first)

    def below(self, share: int, end_offset: int) -> "array[int] | None":
        """The share's superseded offsets below `end_offset` that no earlier call returned; None if there are none.

        Skips leftover offsets of earlier shares, whose rewrite failed.

        Raises DamagedDataError for a share whose keys could not be read.
        """
        found = array("q")
        while self._has_more():
            at_share, offset = self._shares[self._at], self._offsets[self._at]
            if at_share > share or (at_share == share and offset >= end_offset):
                break
            if at_share == share and offset == _DAMAGE:
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
        self._shares, self._offsets = array("i"), array("q")
        self._shares.frombytes(batch["share"].to_numpy().tobytes())
        self._offsets.frombytes(batch["offset"].to_numpy().tobytes())
        self._at = 0
