"""Reads a stream: one process gets the offsets and plans each micro-batch, and tasks read it."""

import time
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.pipeline.datasource.bounds import (
    EARLIEST,
    LATEST,
    AtEdge,
    AtOffsets,
    TopicPartition,
    as_json,
    of_json,
)
from lacuna.pipeline.datasource.connection import Connection
from lacuna.pipeline.datasource.failing import one_message
from lacuna.pipeline.datasource.filters import Condition
from lacuna.pipeline.datasource.limits import Gate, limited
from lacuna.pipeline.datasource.offsets import Logs, Resolver, report_loss, selected_logs
from lacuna.pipeline.datasource.options import Options
from lacuna.pipeline.datasource.pinning import pin, unpin
from lacuna.pipeline.datasource.planning import Bucket, Division, ReadRange, ReadTask, plan_tasks
from lacuna.pipeline.datasource.reading_options import ReadOptions, read_options
from lacuna.pipeline.datasource.schema import check_schema
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.metadata import MetadataSource

Offsets = dict[TopicPartition, int]

#: The most pins of unfinished batches to keep; there are more only if Spark plans a batch repeatedly.
_MAX_PINS: Final = 4


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream of records. Offsets are the next to read: {"topic": {"0": 12}}, as in Spark's Kafka source."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._given = options
        self._schema = schema
        #: Where a new query begins. It is kept because Spark asks more than once, while the log moves on.
        self._initial: Offsets | None = None
        self._has_begun = False  # whether latestOffset was asked
        self._latest: Offsets = {}
        self._is_available_now = False
        #: The offsets up to which trigger(availableNow=True) reads.
        self._target: Offsets | None = None
        self._pins: list[int] = []

    @cached_property
    def _options(self) -> ReadOptions:
        options = read_options(self._given, is_streaming=True)
        check_schema(self._schema, options)
        return options

    @cached_property
    def _connection(self) -> Connection:
        options = self._options
        find = partial(self._given.location, needs_control=options.location.control is not None)
        return Connection(find, options.metadata)

    @cached_property
    def _gate(self) -> Gate:
        return Gate(self._options.min_offsets_per_trigger, self._options.max_trigger_delay)

    @one_message
    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - Spark's name
        """The offsets at which a new query begins."""
        options = self._options

        def resolve(metadata: MetadataSource) -> Offsets:
            logs = selected_logs(metadata, options.selection)
            resolver = Resolver(logs, self._bucket(metadata), is_committed=options.is_committed)
            return resolver.offsets(options.starting)

        if self._initial is None:
            self._initial = self._connection.use(resolve)
        return as_json(self._initial)

    @one_message
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit by maxOffsetsPerTrigger, or by minOffsetsPerTrigger, or none."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @one_message
    def latestOffset(  # noqa: N802
        self, start: dict[str, dict[str, int]], limit: ReadLimit
    ) -> dict[str, dict[str, int]]:
        """The offsets at which the next batch ends; for read_committed, at most the last stable offset (S13)."""
        begin = of_json(start)
        logs = self._logs()
        self._latest = self._ends(begin, logs)
        is_first = self._is_at_start() and begin == self._initial
        self._has_begun = True
        if is_first:
            return start
        for partition in sorted(begin.keys() - logs.keys()):
            report_loss(f"{partition} is gone", is_failing=self._options.fail_on_data_loss)
        return as_json(self._next(begin, logs, limit))

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """The latest offsets at the last trigger, for the query's progress."""
        return as_json(self._latest) if self._latest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Makes the query read up to the offsets that are the latest at its first batch, then end."""
        self._is_available_now = True

    @one_message
    def partitions(
        self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
    ) -> list[InputPartition]:
        """The tasks of a batch. What they read is pinned until the batch is committed."""
        if start == end or self._is_at_start():
            return []
        options = self._options

        def plan(metadata: MetadataSource) -> list[ReadTask]:
            self._pin(metadata)
            ranges = self._ranges(metadata, of_json(start), of_json(end))
            return plan_tasks(
                ranges,
                Division(
                    bucket=self._bucket(metadata),
                    condition=Condition(),
                    is_committed=options.is_committed,
                    min_partitions=options.min_partitions,
                    max_records=options.max_records_per_partition,
                ),
            )

        return list(self._connection.use(plan))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads a partition, in a task."""
        from lacuna.pipeline.datasource.reading import read_task

        assert isinstance(partition, ReadTask)
        return read_task(partition, self._schema)

    @one_message
    def commit(self, end: dict[str, dict[str, int]]) -> None:  # noqa: ARG002
        """Ends the pins, because the batch is done."""
        self._unpin(0)

    def stop(self) -> None:
        """Ends the pins and the connection, if there is one."""
        if "_connection" in vars(self):
            self._unpin(0)
            self._connection.close()

    def _is_at_start(self) -> bool:
        """Whether the next batch is the first of a query whose start may move.

        That batch is left empty, so that the checkpoint has the query's start before anything is read: after a restart,
        a time or "latest" might resolve to another offset.
        """
        return not self._has_begun and self._initial is not None and _moves(self._options)

    def _bucket(self, metadata: MetadataSource) -> Bucket:
        options = self._options
        return Bucket(options.location.store, metadata.cluster_id, not options.fail_on_data_loss)

    def _logs(self) -> Logs:
        """The logs of the selected partitions that exist now."""

        def look(metadata: MetadataSource) -> Logs:
            return selected_logs(metadata, self._options.selection, may_miss=True)

        return self._connection.use(look)

    def _ends(self, begin: Offsets, logs: Logs) -> Offsets:
        """The latest offset of each partition; with trigger(availableNow=True), that of the first batch."""
        is_committed = self._options.is_committed
        latest = {each: log.end_offset(is_committed=is_committed) for each, log in logs.items()}
        for partition, offset in begin.items():
            if latest.get(partition, offset) < offset:
                report_loss(
                    (
                        f"{partition} ends at offset {latest[partition]}, but the query has read up to "
                        f"{offset}"
                    ),
                    is_failing=self._options.fail_on_data_loss,
                )
        if self._is_available_now:
            if self._target is None:
                self._target = latest
            return {each: self._target[each] for each in latest if each in self._target}
        return latest

    def _next(self, begin: Offsets, logs: Logs, limit: ReadLimit) -> Offsets:
        options = self._options
        firsts = {
            each: _first_of(begin, each, self._latest[each], logs[each]) for each in self._latest
        }
        if isinstance(limit, ReadAllAvailable):
            return self._latest
        if not self._is_available_now and not self._gate.opens(
            firsts, self._latest, time.monotonic()
        ):
            return begin
        if not isinstance(limit, ReadMaxRows):
            return self._latest
        return limited(
            logs, firsts, self._latest, limit.max_rows, is_committed=options.is_committed
        )

    def _ranges(self, metadata: MetadataSource, start: Offsets, end: Offsets) -> list[ReadRange]:
        """The range of each partition in `end`. Raises DataLossError if offsets are missing."""
        logs = selected_logs(metadata, self._options.selection, may_miss=True, among=end)
        found = []
        for partition in end:
            if partition not in logs:
                self._report(f"{partition} is gone")
                continue
            log = logs[partition]
            first = self._first(partition, start, end[partition], log)
            latest = log.end_offset(is_committed=self._options.is_committed)
            if end[partition] > latest:
                self._report(
                    f"{partition} ends at offset {latest}, but the batch at {end[partition]}"
                )
            found.append(ReadRange(log, first, min(end[partition], latest)))
        return found

    def _first(self, partition: TopicPartition, start: Offsets, end: int, log: PartitionLog) -> int:
        """The offset at which the batch begins. In a new partition, offsets already deleted count as data loss too."""
        first = _first_of(start, partition, end, log) if partition in start else 0
        if first < log.log_start_offset:
            self._report(
                f"{partition} begins at offset {log.log_start_offset}, but the query is at {first}"
            )
        return max(first, log.log_start_offset)

    def _report(self, message: str) -> None:
        report_loss(message, is_failing=self._options.fail_on_data_loss)

    def _pin(self, metadata: MetadataSource) -> None:
        pin_id = pin(metadata, self._options.pin)
        if pin_id is not None:
            self._pins.append(pin_id)
            self._unpin(_MAX_PINS)

    def _unpin(self, keep: int) -> None:
        """Ends all but the newest `keep` pins."""
        while len(self._pins) > keep:
            try:
                self._connection.use_now(partial(unpin, pin_id=self._pins[0]))
            except ControlPlaneUnavailable:
                return  # it is ended with the next batch's pin, or expires
            del self._pins[0]


def _first_of(start: Offsets, partition: TopicPartition, end: int, log: PartitionLog) -> int:
    """The offset at which a batch that ends at `end` begins.

    This is the log start if the partition is new. It is also the log start if the end is before the query's start,
    which means that the topic was deleted and created again.
    """
    first = start.get(partition, log.log_start_offset)
    return first if first <= end else log.log_start_offset


def _moves(options: ReadOptions) -> bool:
    """Whether the start may resolve to another offset when it is resolved again."""
    match options.starting:
        case AtEdge(edge):
            return edge != EARLIEST
        case AtOffsets(offsets):
            return LATEST in offsets.values()
    return True
