"""Compaction by key in one Spark job, which keeps the last record of each key.

    scan      reads the keys and offsets of every task's records, without the values
    shuffle   by (range, key): all offsets of a key except the last one are superseded
    shuffle   by task: brings each task its superseded offsets, in order
    rewrite   reads these offsets alongside the blocks, one batch of offsets at a time

Spark's shuffles spill to disk, so memory is bounded no matter how many keys there are. The keys themselves are compared
rather than their hashes, since a collision would lose a record.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, Window, functions

from lacuna.pipeline.compaction.rewriting import RewriteTask, TaskResult, rewrite
from lacuna.pipeline.compaction.superseding import DAMAGE, OffsetStream, scan_task
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.stores import shared_store

_TASKS: Final = "task int, share int, offset long, payload binary"
_KEYS: Final = "task int, share int, range int, offset long, key binary, is_past boolean"
#: The share and offset in the row with the task itself, which make it sort before the task's offsets.
_FIRST: Final = -1


def clean(spark: SparkSession, tasks: Sequence[RewriteTask], now_ms: int) -> list[TaskResult]:
    """Rewrites one unit's extents without superseded records or tombstones past their delete horizon.

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
    """Returns a row (task, share, offset, payload) for each record to remove and each damaged share.

    A record is removed if it is not the last with its key, or if it is a tombstone past its delete horizon. The payload
    is null for a record, and the reason for a damaged share.
    """
    later = functions.lead("offset").over(Window.partitionBy("range", "key").orderBy("offset"))
    marked = keys.withColumn("later", later)
    reason = functions.when(functions.col("offset") == DAMAGE, functions.col("key"))
    return marked.where(functions.col("later").isNotNull() | functions.col("is_past")).select(
        "task", "share", "offset", reason.alias("payload")
    )


# The functions below run in the executors.


def _scanner(now_ms: int) -> Any:
    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, payload in zip(batch["task"], batch["payload"], strict=True):
                yield from scan_task(number.as_py(), pickle.loads(payload.as_py()), now_ms)  # noqa: S301 - a Spark task of this job wrote it

    return scan


def _rewrite_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rewrites the task in the first row without the offsets in the other rows, which are sorted by share."""
    context = TaskContext.get()
    if context is None:
        raise PipelineError("a rewrite must run in a Spark task")
    rest = iter(batches)
    first = next((batch for batch in rest if batch.num_rows), None)
    if first is None:
        return
    task: RewriteTask = pickle.loads(first["payload"][0].as_py())  # noqa: S301 - a Spark task of this job wrote it
    dropped = OffsetStream(first.slice(1), rest)
    result = rewrite(task, shared_store(task.store_url), context.taskAttemptId(), dropped)
    yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(result)]})
