"""Reading a stream: one process asks for offsets and plans each micro-batch, tasks read it."""

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

from controlplane.client.errors import ControlPlaneUnavailable
from pipeline.datasource.bounds import (
    EARLIEST,
    LATEST,
    AtEdge,
    AtOffsets,
    TopicPartition,
    as_json,
    of_json,
)
from pipeline.datasource.connection import Connection
from pipeline.datasource.failing import one_message
from pipeline.datasource.filters import Condition
from pipeline.datasource.limits import Gate, limited
from pipeline.datasource.offsets import Logs, Resolver, report_loss, selected_logs
from pipeline.datasource.options import Options
from pipeline.datasource.pinning import pin, unpin
from pipeline.datasource.planning import Bucket, Plan, ReadTask, Stretch, plan_tasks
from pipeline.datasource.reading_options import ReadOptions, read_options
from pipeline.datasource.schema import check_schema
from pipeline.extents import PartitionLog
from pipeline.metadata import MetadataSource

Offsets = dict[TopicPartition, int]

#: Pins of batches that are not over; more are only there if Spark plans a batch again and again.
_MAX_PINS: Final = 4


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Of records. Offsets are the next ones to read: {"topic": {"0": 12}}, as Spark's Kafka source's."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._given = options
        self._schema = schema
        #: Where a new query begins, until its first batch is decided.
        self._initial: Offsets | None = None
        self._latest: Offsets = {}
        self._is_available_now = False
        #: What trigger(availableNow=True) reads to.
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
        """Where a new query begins."""
        options = self._options

        def resolve(metadata: MetadataSource) -> Offsets:
            logs = selected_logs(metadata, options.selection)
            resolver = Resolver(logs, self._bucket(metadata), is_committed=options.is_committed)
            return resolver.offsets(options.starting)

        initial = self._connection.use(resolve)
        if _moves(options):
            self._initial = initial
        return as_json(initial)

    @one_message
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """maxOffsetsPerTrigger, or else minOffsetsPerTrigger."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @one_message
    def latestOffset(  # noqa: N802
        self, start: dict[str, dict[str, int]], limit: ReadLimit
    ) -> dict[str, dict[str, int]]:
        """Where the next batch ends; never beyond the last stable offset (S13)."""
        begin = of_json(start)
        logs = self._logs()
        self._latest = self._ends(begin, logs)
        if self._initial is not None:
            # The first batch is empty, so that where the query began is in its checkpoint before
            # anything is read: a time or "latest" may give another offset after a restart.
            is_first, self._initial = begin == self._initial, None
            if is_first:
                return start
        for partition in sorted(begin.keys() - logs.keys()):
            report_loss(f"{partition} is gone", is_failing=self._options.fail_on_data_loss)
        return as_json(self._next(begin, logs, limit))

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """What there was at the last trigger, for the query's progress."""
        return as_json(self._latest) if self._latest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there at the first batch is read, in as many batches as the limits say."""
        self._is_available_now = True

    @one_message
    def partitions(
        self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
    ) -> list[InputPartition]:
        """The tasks of a batch. What they read is pinned until the batch is over."""
        if start == end:
            return []
        options = self._options

        def plan(metadata: MetadataSource) -> list[ReadTask]:
            self._pin(metadata)
            stretches = self._stretches(metadata, of_json(start), of_json(end))
            return plan_tasks(
                stretches,
                Plan(
                    bucket=self._bucket(metadata),
                    condition=Condition(),
                    is_committed=options.is_committed,
                    min_partitions=options.min_partitions,
                    max_records=options.max_records_per_partition,
                ),
            )

        return list(self._connection.use(plan))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task."""
        from pipeline.datasource.reading import read_task

        assert isinstance(partition, ReadTask)
        return read_task(partition, self._schema)

    @one_message
    def commit(self, end: dict[str, dict[str, int]]) -> None:  # noqa: ARG002
        """The batch is over."""
        self._unpin(0)

    def stop(self) -> None:
        """Ends the connection, if there is one."""
        if "_connection" in vars(self):
            self._unpin(0)
            self._connection.close()

    def _bucket(self, metadata: MetadataSource) -> Bucket:
        options = self._options
        return Bucket(options.location.store, metadata.cluster_id, not options.fail_on_data_loss)

    def _logs(self) -> Logs:
        """Of all partitions that there are; of topics that come and go meanwhile, one state."""

        def look(metadata: MetadataSource) -> Logs:
            return selected_logs(metadata, self._options.selection, may_miss=True)

        return self._connection.use(look)

    def _ends(self, begin: Offsets, logs: Logs) -> Offsets:
        """The latest offset of each partition, or the target where there is one."""
        is_committed = self._options.is_committed
        latest = {each: log.end_offset(is_committed=is_committed) for each, log in logs.items()}
        for partition, offset in begin.items():
            if latest.get(partition, offset) < offset:
                report_loss(
                    f"{partition} ends at offset {latest[partition]}, the query has read up to {offset}",
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

    def _stretches(self, metadata: MetadataSource, start: Offsets, end: Offsets) -> list[Stretch]:
        """Of each partition of `end`. Raises DataLossError where something is missing."""
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
                self._report(f"{partition} ends at offset {latest}, the batch at {end[partition]}")
            found.append(Stretch(log, first, min(end[partition], latest)))
        return found

    def _first(self, partition: TopicPartition, start: Offsets, end: int, log: PartitionLog) -> int:
        """Where the batch begins; what was taken away of a partition that is new is loss, too."""
        first = _first_of(start, partition, end, log) if partition in start else 0
        if first < log.log_start_offset:
            self._report(
                f"{partition} begins at offset {log.log_start_offset}, the query is at {first}"
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
        """Gives back all but the newest `keep` pins."""
        while len(self._pins) > keep:
            try:
                self._connection.use_now(partial(unpin, pin_id=self._pins[0]))
            except ControlPlaneUnavailable:
                return  # it is given back with the next batch's, or ends by itself
            del self._pins[0]


def _first_of(start: Offsets, partition: TopicPartition, end: int, log: PartitionLog) -> int:
    """Where what ends at `end` begins: at the log's beginning where the partition is new, or was made anew
    meanwhile, as an end before the start tells.
    """
    first = start.get(partition, log.log_start_offset)
    return first if first <= end else log.log_start_offset


def _moves(options: ReadOptions) -> bool:
    """Whether the beginning may be another offset when it is asked for again."""
    match options.starting:
        case AtEdge(edge):
            return edge != EARLIEST
        case AtOffsets(offsets):
            return LATEST in offsets.values()
    return True
