"""Counts the distinct keys of partitions exactly, using a Spark shuffle.

For a topic that is compacted by key, the control plane knows the offset below which each key has only one value. Up to
that offset, there must be as many records with a key as there are distinct keys.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from lacuna.controlplane.shared.log.pieces import Piece
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.shared.topic_configs import is_compacted
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import PlanCompaction
from lacuna.logstore.records.columns import scan_keys
from lacuna.pipeline.audit.findings import Finding, Hit, Kind
from lacuna.pipeline.audit.report import KeyCounts
from lacuna.pipeline.control import JobClient
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.loading import BLOCK_BYTES, cut_pieces, load_blocks
from lacuna.pipeline.stores import shared_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession

_SCHEMA: Final = "partition int, is_compacted boolean, key binary"
_SHUFFLES: Final = "spark.sql.shuffle.partitions"
#: Stored bytes per shuffle partition, of which keys are only a part.
_SHUFFLE_BYTES: Final = 64 << 20
_MOST_SHUFFLES: Final = 2_000
_TASK_BYTES: Final = 8 * BLOCK_BYTES


class _KeyTask(NamedTuple):
    """The pieces to read from one partition. Below `compacted_to`, each key must have only one value."""

    partition: int
    compacted_to: int
    first_offset: int
    end_offset: int
    pieces: list[Piece]


def count_keys(
    spark: "SparkSession",
    store_url: str,
    cluster_id: str,
    logs: Sequence[PartitionLog],
    compacted: Mapping[PartitionKey, int],
) -> tuple[dict[int, KeyCounts], list[Finding]]:
    """Counts the keys of committed records by log index, and reports partitions that contradict `compacted`.

    `compacted` contains, for some partitions, the offset below which each key has only one value. Raises
    DamagedDataError and DataLossError if the bucket is damaged.
    """
    tasks = [
        _KeyTask(
            index, compacted.get(log.key, 0), log.log_start_offset, log.last_stable_offset, group
        )
        for index, log in enumerate(logs)
        for group in cut_pieces(
            log.pieces(log.log_start_offset, log.last_stable_offset), _TASK_BYTES
        )
    ]
    if not tasks:
        return {}, []
    with _shuffled_in(spark, tasks):
        rows = _count(spark, store_url, cluster_id, tasks)
    counts: dict[int, KeyCounts] = {}
    findings = []
    for row in rows:
        index = row["partition"]
        counts[index] = KeyCounts(
            records=row["records"], null_keys=row["null_keys"], distinct_keys=row["distinct_keys"]
        )
        records, distinct, log = row["compacted_keys"], row["compacted_distinct"], logs[index]
        if records != distinct:
            end = compacted[log.key]
            reason = (
                f"{records} records with {distinct} distinct keys are below offset {end}, although each key should "
                "have only one record there"
            )
            hit = Hit(log.topic, log.partition, log.log_start_offset, end)
            findings.append(Finding(kind=Kind.KEYS, reason=reason, hits=(hit,)))
    return counts, findings


@contextmanager
def _shuffled_in(spark: "SparkSession", tasks: Sequence[_KeyTask]) -> Iterator[None]:
    """Adapts the number of shuffle partitions to the bytes to read, since Spark's default of 200 suits larger jobs."""
    size = sum(piece.size for task in tasks for piece in task.pieces)
    wanted = max(spark.sparkContext.defaultParallelism, size // _SHUFFLE_BYTES)
    before = spark.conf.get(_SHUFFLES)
    spark.conf.set(_SHUFFLES, min(wanted, _MOST_SHUFFLES))
    try:
        yield
    finally:
        spark.conf.set(_SHUFFLES, before or "200")


def compacted_offsets(control: JobClient, logs: Sequence[PartitionLog]) -> dict[PartitionKey, int]:
    """Returns the offset up to which each partition with cleanup.policy=compact is compacted.

    Partitions that have changed since `logs` were read are left out.
    """
    topics = control.topics()
    asked = [
        TopicPartition(topic_id=log.topic_id, partition=log.partition)
        for log in logs
        if log.topic in topics and is_compacted(topics[log.topic].configs)
    ]
    versions = {log.key: log.version for log in logs}
    found: dict[PartitionKey, int] = {}
    while asked:
        plan = PlanCompaction(partitions=asked, rewrites_all=True)
        reply = control.call(Command(plan_compaction=plan)).compaction_plan
        for each in reply.ranges:
            key = each.partition.topic_id, each.partition.partition
            # If a range does not begin at the log start, keys were compared within that range only.
            if each.version == versions[key] and each.first_offset <= each.log_start_offset:
                found[key] = each.compacted_to
        asked = list(reply.left_out)
    return found


def _count(
    spark: "SparkSession", store_url: str, cluster_id: str, tasks: Sequence[_KeyTask]
) -> "list[Row]":
    from pyspark.sql import functions as f

    given = spark.sparkContext.broadcast([pickle.dumps(task) for task in tasks])

    def read(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _keys_of(store_url, cluster_id, pickle.loads(given.value[number]))  # noqa: S301 - a Spark task of this job wrote it

    keys = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, _SCHEMA)
    by_key = keys.groupBy("partition", "is_compacted", "key").agg(f.count("*").alias("records"))
    both = by_key.groupBy("partition", "key").agg(
        f.sum("records").alias("records"),
        f.sum(f.when(f.col("is_compacted"), f.col("records")).otherwise(0)).alias("compacted"),
    )
    has_key = f.col("key").isNotNull()
    try:
        return (
            both.groupBy("partition")
            .agg(
                f.sum("records").alias("records"),
                f.sum(f.when(has_key, 0).otherwise(f.col("records"))).alias("null_keys"),
                f.sum(has_key.cast("long")).alias("distinct_keys"),
                f.sum(f.when(has_key, f.col("compacted")).otherwise(0)).alias("compacted_keys"),
                f.sum((has_key & (f.col("compacted") > 0)).cast("long")).alias(
                    "compacted_distinct"
                ),
            )
            .collect()
        )
    finally:
        given.destroy()


def _keys_of(store_url: str, cluster_id: str, task: _KeyTask) -> "Iterator[pa.RecordBatch]":
    import numpy as np
    import pyarrow as pa

    from lacuna.pipeline.decoding import binary

    for block in load_blocks(shared_store(store_url), cluster_id, task.pieces):
        for columns in scan_keys(block.data, task.first_offset, task.end_offset):
            assert columns.keys is not None  # scan_keys returns them
            offsets = np.frombuffer(columns.offsets, np.int64)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(np.full(columns.count, task.partition, np.int32)),
                    pa.array(offsets < task.compacted_to),
                    binary(columns.keys, columns.count),
                ],
                names=["partition", "is_compacted", "key"],
            )
