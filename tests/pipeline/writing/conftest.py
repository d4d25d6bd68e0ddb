"""Reads a topic with a real consumer, builds DataFrames of bytes, and runs tasks and commits without Spark."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from lacuna.pipeline.datasource.writing.control import RetryingJobClient
from lacuna.pipeline.datasource.writing.options import SinkOptions, read_options
from lacuna.pipeline.datasource.writing.puts import TaskMessage
from lacuna.pipeline.datasource.writing.task import TaskSizes, write_task
from lacuna.pipeline.datasource.writing.transaction import QueryProgress, commit_write
from lacuna.testing import Cluster

SMALL = TaskSizes(chunk_bytes=2_000, segment_bytes=1_000)


def options(cluster: Cluster, **given: str) -> SinkOptions:
    return read_options({"data": str(cluster.data), **given}, is_streaming=False)


def batch_of(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Return rows with the named columns, in the types that Spark uses."""
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(pair),
        "topic": pa.string(),
        "partition": pa.int32(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    names = {name for row in rows for name in row}
    schema = pa.schema([(name, kind) for name, kind in types.items() if name in names])
    return pa.RecordBatch.from_pylist(list(rows), schema)


def write(
    cluster: Cluster, topic: str, values: Iterable[bytes], sizes: TaskSizes = SMALL
) -> TaskMessage:
    """Run one task that writes values to partition 0."""
    batch = batch_of([{"value": value, "partition": 0} for value in values])
    return write_task(options(cluster, topic=topic, compression="none"), [batch], sizes=sizes)


def progress(batch_id: int, query_id: str = "query", group_id: str = "group") -> QueryProgress:
    return QueryProgress(group_id=group_id, query_id=query_id, batch_id=batch_id)


def open_control(
    cluster: Cluster, kind: type[RetryingJobClient] = RetryingJobClient
) -> RetryingJobClient:
    return kind(options(cluster).location.require_control())


def commit(
    cluster: Cluster,
    tasks: Sequence[TaskMessage],
    done: QueryProgress | None = None,
    transactional_id: str = "writer",
) -> bool:
    with open_control(cluster) as control:
        return commit_write(control, transactional_id, tasks, done)
