"""The writers that Spark calls: `write` in tasks, `commit` and `abort` on the driver."""

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.v1.cluster_pb2 import ReleaseLease
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.pipeline.datasource.failing import one_message
from lacuna.pipeline.datasource.spark_api import DataSourceStreamArrowWriter
from lacuna.pipeline.datasource.writing.control import RetryingJobClient
from lacuna.pipeline.datasource.writing.options import SinkOptions
from lacuna.pipeline.datasource.writing.puts import TaskMessage
from lacuna.pipeline.datasource.writing.task import write_task
from lacuna.pipeline.datasource.writing.transaction import QueryProgress, commit_write
from lacuna.pipeline.errors import PipelineError

log = logging.getLogger("lacuna.pipeline.writing")

#: The prefix of the sink's own transactional ids and groups.
PREFIX: Final = "lacuna-spark-"
#: Stands in for a query's id in the progress of batch writes outside streaming queries.
_COUNTED: Final = "batch writes"
_QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"

Messages = Sequence[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a `df.write` in one transaction. With a batch id, it is committed only once, however often it
    runs.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._transactional_id = options.transactional_id or f"{PREFIX}{uuid.uuid4()}"

    @one_message
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return write_task(self._options, iterator, query_id())

    @one_message
    def commit(self, messages: Messages) -> None:
        tasks = tasks_of(messages)
        progress = None
        if self._options.batch_id is not None:
            progress = QueryProgress(
                group_id=PREFIX + self._transactional_id,
                query_id=query_of(tasks) or _COUNTED,
                batch_id=self._options.batch_id,
            )
        commit(self._options, self._transactional_id, tasks, progress)

    @one_message
    def abort(self, messages: Messages) -> None:
        abort(self._options, tasks_of(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch of a `df.writeStream` in one transaction. Spark creates a new writer for every call."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    @one_message
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Writes the rows of a task in an executor, where Spark provides the id of the query."""
        return write_task(self._options, iterator, query_id())

    @one_message
    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's
        tasks = tasks_of(messages)
        if not tasks:
            return
        found = query_of(tasks)
        if found is None:
            raise PipelineError(
                f"Spark did not pass the query's id to the tasks ({_QUERY_ID_PROPERTY}), so a "
                "repeated micro-batch could not be recognized: write with foreachBatch, and with "
                "the options transactionalId and batchId"
            )
        name = self._options.transactional_id or found
        progress = QueryProgress(group_id=PREFIX + name, query_id=found, batch_id=batchId)
        transactional_id = self._options.transactional_id or PREFIX + found
        commit(self._options, transactional_id, tasks, progress)

    @one_message
    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """Abandons the micro-batch on the driver, after a task or the commit has failed."""
        abort(self._options, tasks_of(messages))


def query_id() -> str | None:
    """Returns the id of the streaming query that this task belongs to, even within foreachBatch; None in a batch write.

    The id is stored in the query's checkpoint, so it survives restarts.
    """
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY_ID_PROPERTY)


def query_of(tasks: Sequence[TaskMessage]) -> str | None:
    """Returns the query to which all tasks belong, or None if there is no such query."""
    found = {task.query_id for task in tasks}
    return found.pop() if len(found) == 1 else None


def tasks_of(messages: Messages) -> list[TaskMessage]:
    """Returns the messages of the tasks that succeeded, in the order of Spark's partitions."""
    return [message for message in messages if isinstance(message, TaskMessage)]


def commit(
    options: SinkOptions,
    transactional_id: str,
    tasks: Sequence[TaskMessage],
    progress: QueryProgress | None,
) -> None:
    """Commits the tasks' work, and releases their leases. Raises the same errors as `commit_write`."""
    if not any(task.segments for task in tasks):
        return
    with RetryingJobClient(options.location.require_control()) as control:
        if not commit_write(control, transactional_id, tasks, progress):
            log.warning("already written, so it is not written again: %s", progress)
        release(control, tasks)


def abort(options: SinkOptions, tasks: Sequence[TaskMessage]) -> None:
    """Releases the tasks' leases, so that their segments may be deleted immediately. No transaction is open."""
    if not any(task.segments for task in tasks):
        return
    try:
        with RetryingJobClient(options.location.require_control()) as control:
            release(control, tasks)
    except ControlPlaneUnavailable as error:
        _warn_of_leases(len(tasks), error)


def release(control: RetryingJobClient, tasks: Sequence[TaskMessage]) -> None:
    """Releases the tasks' leases. If that fails, they expire."""
    commands = [
        Command(release_lease=ReleaseLease(lease_id=task.lease_id))
        for task in tasks
        if task.lease_id
    ]
    try:
        control.ask_all(commands, retry_seconds=0)
    except (ControlPlaneUnavailable, CommandRefused) as error:
        _warn_of_leases(len(commands), error)


def _warn_of_leases(count: int, error: Exception) -> None:
    log.warning(
        "the leases of %d tasks could not be released, so they will expire by themselves: %s",
        count,
        error,
    )
