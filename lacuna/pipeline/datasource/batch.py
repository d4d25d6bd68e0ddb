"""Reads a batch: the driver plans it, and tasks read it."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.pipeline.datasource.bounds import TopicPartition
from lacuna.pipeline.datasource.failing import one_message
from lacuna.pipeline.datasource.filters import Condition, push
from lacuna.pipeline.datasource.offsets import (
    Logs,
    Resolver,
    cut_of,
    ending_at,
    ends_as_of,
    report_loss,
    selected_logs,
)
from lacuna.pipeline.datasource.options import Options
from lacuna.pipeline.datasource.pinning import Hold, pin
from lacuna.pipeline.datasource.planning import Bucket, Division, ReadRange, ReadTask, plan_tasks
from lacuna.pipeline.datasource.reading_options import PLAN, ReadOptions, read_options
from lacuna.pipeline.datasource.schema import check_schema
from lacuna.pipeline.datasource.spark_api import Filter
from lacuna.pipeline.errors import PipelineError, StaleMetadataError
from lacuna.pipeline.holding import HOLD_SECONDS
from lacuna.pipeline.metadata import MetadataSource, open_checked


class BatchReader(DataSourceReader):
    """Reads a batch of records or plan view rows. Raises PipelineError for invalid options or schemas."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = read_options(options, is_streaming=False)
        check_schema(schema, self._options)
        self._schema = schema
        self._condition = Condition()
        if self._options.pushdown and self._options.view != PLAN:
            # Set on the instance, because a session without spark.sql.python.filterPushdown.enabled rejects readers
            # whose class defines this method.
            self.pushFilters = _Pushing(self)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if name != "pushFilters"}

    def push(self, filters: list[Filter]) -> list[Filter]:
        """Uses these filters to narrow the records to read, and returns the filters that Spark must still apply."""
        self._condition, left = push(self._condition, filters)
        return left

    @one_message
    def partitions(self) -> list[InputPartition]:
        """Returns the tasks of the batch, and pins the objects that they read."""
        options = self._options
        with closing(open_checked(options.location, options.metadata)) as metadata:
            hold = self._pin(metadata)
            bucket = Bucket(
                options.location.store, metadata.cluster_id, not options.fail_on_data_loss
            )
            ranges = _ranges(metadata, options, bucket)
        if options.view == PLAN:
            from lacuna.pipeline.datasource.plan_view import view_tasks

            return list(view_tasks(ranges, is_committed=options.is_committed))
        division = Division(
            bucket=bucket,
            condition=self._condition,
            is_committed=options.is_committed,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
            hold=hold,
        )
        return list(plan_tasks(ranges, division))

    def _pin(self, metadata: MetadataSource) -> Hold | None:
        options = self._options
        if options.view == PLAN:  # its tasks read no objects
            pin(metadata, min(HOLD_SECONDS, options.pin))
            return None
        brief = None if options.is_pin_given else pin(metadata, HOLD_SECONDS)
        full = pin(metadata, options.pin)
        if brief is None or full is None:
            return None
        return Hold(options.location.require_control(), metadata.cluster_id, brief, full)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads a partition in a task. If a batch has no tasks, Spark passes an empty partition of its own."""
        if isinstance(partition, ReadTask):
            from lacuna.pipeline.datasource.reading import read_task

            return read_task(partition, self._schema)
        from lacuna.pipeline.datasource.plan_view import read_view

        return read_view(partition, self._schema)


class _Pushing:
    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        #: Spark checks this to find out whether a reader overrides the method.
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        return self._reader.push(filters)


def _ranges(metadata: MetadataSource, options: ReadOptions, bucket: Bucket) -> list[ReadRange]:
    """Returns the ranges to read in the partitions that exist. Unless `failOnDataLoss=false`, missing offsets raise
    DataLossError or PipelineError.
    """
    # Requested before the logs are read, which therefore reach at least as far.
    past = None
    if options.as_of_ms is not None:
        past = ends_as_of(metadata, options.selection, options.as_of_ms, is_cut=options.is_cut)
    cut = cut_of(metadata, options)
    logs = ending_at(selected_logs(metadata, options), cut)
    resolver = Resolver(logs, bucket, is_committed=options.is_committed)
    firsts = resolver.offsets(options.starting)
    ends = resolver.offsets(options.ending) if past is None else _past_ends(logs, firsts, past)
    found = []
    for partition, log in logs.items():
        first, end, latest = firsts[partition], ends[partition], resolver.latest(partition)
        if first < log.log_start_offset:
            report_loss(
                f"{partition} begins at offset {log.log_start_offset}, but offset {first} was requested",
                is_failing=options.fail_on_data_loss,
            )
        if max(first, end) > latest and options.fail_on_data_loss:
            raise PipelineError(
                f"{partition} ends at offset {latest}, but offset {max(first, end)} was requested: "
                "request an earlier one, or read what exists with failOnDataLoss=false"
            )
        first = max(first, log.log_start_offset)
        if end < first:
            report_loss(
                f"{partition} was requested from offset {first}, but ends earlier, at {end}",
                is_failing=options.fail_on_data_loss,
            )
        found.append(ReadRange(log, first, min(end, latest)))
    return found


def _past_ends(
    logs: Logs, firsts: Mapping[TopicPartition, int], past: Mapping[PartitionKey, int]
) -> dict[TopicPartition, int]:
    """Returns where each partition ended at the past time.

    A partition whose log now starts later is not read, since its records from that time are gone.
    """
    found = {}
    for partition, log in logs.items():
        end = past.get(log.key)
        if end is None:
            raise StaleMetadataError(
                f"{partition} was created while the batch was being planned: try again"
            )
        found[partition] = max(end, firsts[partition])
    return found
