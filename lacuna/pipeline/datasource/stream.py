"""Reads a stream: one process determines offsets and plans micro-batches, which tasks read."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lacuna.controlplane.client import CommandRefused, ControlPlaneUnavailable
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.pipeline.datasource.bounds import (
    EARLIEST,
    LATEST,
    AtEdge,
    AtOffsets,
    TopicPartition,
)
from lacuna.pipeline.datasource.connection import Connection
from lacuna.pipeline.datasource.failing import one_message
from lacuna.pipeline.datasource.filters import Condition
from lacuna.pipeline.datasource.limits import Gate, limited
from lacuna.pipeline.datasource.offsets import (
    Logs,
    Resolver,
    cut_of,
    ending_at,
    report_loss,
    selected_logs,
)
from lacuna.pipeline.datasource.options import Options
from lacuna.pipeline.datasource.pinning import pin, prolong, unpin
from lacuna.pipeline.datasource.planning import Bucket, Division, ReadRange, ReadTask, plan_tasks
from lacuna.pipeline.datasource.positions import Position
from lacuna.pipeline.datasource.reading_options import ReadOptions, read_options
from lacuna.pipeline.datasource.schema import check_schema
from lacuna.pipeline.datasource.spark_api import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.metadata import MetadataSource

Offsets = Mapping[TopicPartition, int]
#: A position as Spark keeps it in a checkpoint.
Json = dict[str, dict[str, Any]]

#: The duration of a pin in seconds. A running query extends its pins, so those of a killed query end soon.
PIN_SECONDS: Final = 120.0
#: The maximum number of pins of unfinished batches; there are more only if Spark plans a batch repeatedly.
_MAX_PINS: Final = 4


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream of records.

    Stream offsets contain the next offsets to read, and topic ids: {"topic": {"0": 12, "id": "gV0D…"}}.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._given = options
        self._schema = schema
        #: The start of a new query, kept because Spark requests it repeatedly while the log grows.
        self._initial: Position | None = None
        self._has_begun = False  # whether latestOffset was called
        self._latest = Position()
        self._is_available_now = False
        #: The offsets up to which trigger(availableNow=True) reads.
        self._target: Position | None = None
        #: The pins of unfinished batches, each with the monotonic time in seconds until which it is extended.
        self._pins: list[tuple[int, float]] = []
        #: Ends the thread that extends pins. Created with the first pin, because Spark pickles the reader before then.
        self._end: threading.Event | None = None

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
    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        options = self._options

        def resolve(metadata: MetadataSource) -> Position:
            cut = cut_of(metadata, options)
            logs = ending_at(selected_logs(metadata, options), cut)
            resolver = Resolver(logs, self._bucket(metadata), is_committed=options.is_committed)
            return Position.in_logs(resolver.offsets(options.starting), logs.values())

        if self._initial is None:
            self._initial = self._connection.use(resolve)
        return self._initial.as_json()

    @one_message
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Returns the limit set by maxOffsetsPerTrigger or minOffsetsPerTrigger, or no limit."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @one_message
    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Returns the end offsets of the next batch. For read_committed, no last stable offset is exceeded (S13)."""
        given = Position.of_json(start)
        cut, logs = self._logs()
        begin = self._continued(given, logs)
        self._latest = self._ends(begin, logs, cut)
        is_first = self._is_at_start() and given == self._initial
        self._has_begun = True
        if is_first:
            return start
        for partition in sorted(begin.offsets.keys() - logs.keys()):
            self._report(f"{partition} is gone")
        ends = self._next(begin.offsets, logs, limit)
        return Position.in_logs(ends, logs.values()).as_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Returns the latest offsets at the last trigger, which Spark shows in the query's progress."""
        return self._latest.as_json() or None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Makes the query end once it has read up to the latest offsets as of its first batch."""
        self._is_available_now = True

    @one_message
    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Returns the tasks of a batch, and pins their objects until the batch is committed."""
        if start == end or self._is_at_start():
            return []
        options = self._options

        def plan(metadata: MetadataSource) -> list[ReadTask]:
            self._pin(metadata)
            ranges = self._ranges(metadata, Position.of_json(start), Position.of_json(end))
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
        from lacuna.pipeline.datasource.reading import read_task

        assert isinstance(partition, ReadTask)
        return read_task(partition, self._schema)

    @one_message
    def commit(self, end: Json) -> None:  # noqa: ARG002
        """Ends the pins of the finished batch."""
        self._unpin(0)

    def prolong_pins(self) -> None:
        """Extends the pins of unfinished batches, up to the age that the option `pin` allows."""
        seconds = min(PIN_SECONDS, self._options.pin)
        for pin_id, until in list(self._pins):
            if time.monotonic() < until:
                with suppress(ControlPlaneUnavailable, CommandRefused):  # tried again soon
                    self._connection.use_now(partial(prolong, pin_id=pin_id, seconds=seconds))

    def stop(self) -> None:
        if self._end is not None:
            self._end.set()
        if "_connection" in vars(self):
            self._unpin(0)
            self._connection.close()

    def _is_at_start(self) -> bool:
        """Whether the next batch is the first one of a query whose start may move.

        That batch is left empty, so that the checkpoint records the start before anything is read. After a restart, a
        time or "latest" might resolve to a different offset.
        """
        return not self._has_begun and self._initial is not None and _moves(self._options)

    def _bucket(self, metadata: MetadataSource) -> Bucket:
        options = self._options
        return Bucket(options.location.store, metadata.cluster_id, not options.fail_on_data_loss)

    def _logs(self) -> tuple[Mapping[PartitionKey, int], Logs]:
        def look(metadata: MetadataSource) -> tuple[Mapping[PartitionKey, int], Logs]:
            cut = cut_of(metadata, self._options)
            return cut, selected_logs(metadata, self._options, are_read=False, may_miss=True)

        return self._connection.use(look)

    def _continued(self, begin: Position, logs: Logs) -> Position:
        """Returns the position without recreated topics, which are read from the beginning.

        Raises DataLossError if there are any, unless `failOnDataLoss=false`.
        """
        anew = {log.topic for log in logs.values() if not begin.is_of(log)}
        for topic in sorted(anew):
            self._report(
                f"topic {topic} has been deleted and recreated since the query last read it"
            )
        return begin.without(anew)

    def _ends(self, begin: Position, logs: Logs, cut: Mapping[PartitionKey, int]) -> Position:
        """Returns each partition's latest offset or, with trigger(availableNow=True), the latest at the first batch.

        With a cut, this is the partition's end in the cut, or the query's position if that is later. Together, these
        offsets still form a cut.
        """
        is_committed = self._options.is_committed
        latest = {each: log.end_offset(is_committed=is_committed) for each, log in logs.items()}
        for partition, offset in begin.offsets.items():
            if latest.get(partition, offset) < offset:
                self._report(
                    f"{partition} ends at offset {latest[partition]}, but the query has read up to {offset}"
                )
        if cut:
            for each, log in ending_at(logs, cut).items():
                latest[each] = max(log.last_stable_offset, begin.offsets.get(each, 0))
        if not self._is_available_now:
            return Position.in_logs(latest, logs.values())
        if self._target is None:
            self._target = Position.in_logs(latest, logs.values())
        target = self._target
        there = {
            each: target.offsets[each]
            for each, log in logs.items()
            if each in target.offsets and target.is_of(log)
        }
        return Position.in_logs(there, logs.values())

    def _next(self, begin: Offsets, logs: Logs, limit: ReadLimit) -> Offsets:
        options, latest = self._options, self._latest.offsets
        firsts = {each: _first_of(begin, each, latest[each], logs[each]) for each in latest}
        if isinstance(limit, ReadAllAvailable):
            return latest
        if not self._is_available_now and not self._gate.opens(firsts, latest, time.monotonic()):
            return {each: offset for each, offset in begin.items() if each in logs}
        if not isinstance(limit, ReadMaxRows):
            return latest
        return limited(logs, firsts, latest, limit.max_rows, is_committed=options.is_committed)

    def _ranges(self, metadata: MetadataSource, start: Position, end: Position) -> list[ReadRange]:
        """Returns the range to read in each partition of `end`. Raises DataLossError if offsets are missing."""
        options = self._options
        logs = selected_logs(metadata, options, may_miss=True, among=end.offsets)
        begin = self._continued(start, logs).offsets
        found = []
        for partition, until in end.offsets.items():
            log = logs.get(partition)
            if log is None or not end.is_of(log):
                self._report(f"{partition} is gone")
                continue
            latest = log.end_offset(is_committed=options.is_committed)
            first = self._first(begin, partition, min(until, latest), log)
            if until > latest:
                self._report(f"{partition} ends at offset {latest}, but the batch ends at {until}")
            found.append(ReadRange(log, first, min(until, latest)))
        return found

    def _first(self, begin: Offsets, partition: TopicPartition, end: int, log: PartitionLog) -> int:
        """Returns the batch's first offset. In a new partition, records deleted before they were read count as lost."""
        first = _first_of(begin, partition, end, log) if partition in begin else 0
        if first < log.log_start_offset:
            self._report(
                f"{partition} begins at offset {log.log_start_offset}, but the query is at {first}"
            )
        return max(first, log.log_start_offset)

    def _report(self, message: str) -> None:
        report_loss(message, is_failing=self._options.fail_on_data_loss)

    def _pin(self, metadata: MetadataSource) -> None:
        seconds = self._options.pin
        pin_id = pin(metadata, min(PIN_SECONDS, seconds))
        if pin_id is None:
            return
        self._pins.append((pin_id, time.monotonic() + seconds))
        self._unpin(_MAX_PINS)
        if self._end is None:
            self._end = threading.Event()
            threading.Thread(
                target=self._prolong_on, args=(self._end,), name="pins", daemon=True
            ).start()

    def _prolong_on(self, end: threading.Event) -> None:
        while not end.wait(PIN_SECONDS / 4):
            self.prolong_pins()

    def _unpin(self, keep: int) -> None:
        while len(self._pins) > keep:
            try:
                self._connection.use_now(partial(unpin, pin_id=self._pins[0][0]))
            except ControlPlaneUnavailable:
                return  # it is ended with the next batch's pin, or expires
            del self._pins[0]


def _first_of(begin: Offsets, partition: TopicPartition, end: int, log: PartitionLog) -> int:
    """Returns the query's position, or a new partition's log start; or `end`, if the newest records were lost."""
    return min(begin.get(partition, log.log_start_offset), end)


def _moves(options: ReadOptions) -> bool:
    """Whether the start could resolve to a different offset later."""
    match options.starting:
        case AtEdge(edge):
            return edge != EARLIEST
        case AtOffsets(offsets=offsets):
            return LATEST in offsets.values()
    return True
