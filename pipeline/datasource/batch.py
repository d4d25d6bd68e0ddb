"""Reading a batch: planned on the driver, read by tasks."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pipeline.datasource.failing import one_message
from pipeline.datasource.filters import Condition, push
from pipeline.datasource.offsets import Resolver, report_loss, selected_logs
from pipeline.datasource.options import Options
from pipeline.datasource.pinning import pin
from pipeline.datasource.planning import Bucket, Plan, ReadTask, Stretch, plan_tasks
from pipeline.datasource.reading_options import PLAN, ReadOptions, read_options
from pipeline.datasource.schema import check_schema
from pipeline.errors import PipelineError
from pipeline.metadata import MetadataSource, open_metadata
from pipeline.stores import check_store


class BatchReader(DataSourceReader):
    """Of records, or of the plan. Raises PipelineError for options that do not fit."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = read_options(options, is_streaming=False)
        check_schema(schema, self._options)
        self._schema = schema
        self._condition = Condition()
        if self._options.pushdown and self._options.view != PLAN:
            # On the instance: a session without spark.sql.python.filterPushdown.enabled refuses a
            # reader whose class has the method of its own.
            self.pushFilters = _Pushing(self)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if name != "pushFilters"}

    def push(self, filters: list[Filter]) -> list[Filter]:
        """Keeps what bounds the reading; gives back what Spark has to apply."""
        self._condition, left = push(self._condition, filters)
        return left

    @one_message
    def partitions(self) -> list[InputPartition]:
        """The tasks. What they read is pinned, until the pin ends by itself."""
        options = self._options
        with closing(open_metadata(options.location, options.metadata)) as metadata:
            check_store(options.location.store, metadata.cluster_id)
            pin(metadata, options.pin)
            bucket = Bucket(
                options.location.store, metadata.cluster_id, not options.fail_on_data_loss
            )
            stretches = _stretches(metadata, options, bucket)
        if options.view == PLAN:
            from pipeline.datasource.plan_view import view_tasks

            return list(view_tasks(stretches, is_committed=options.is_committed))
        plan = Plan(
            bucket=bucket,
            condition=self._condition,
            is_committed=options.is_committed,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )
        return list(plan_tasks(stretches, plan))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task; Spark makes a partition of its own where there is nothing to read."""
        if isinstance(partition, ReadTask):
            from pipeline.datasource.reading import read_task

            return read_task(partition, self._schema)
        from pipeline.datasource.plan_view import read_view

        return read_view(partition, self._schema)


class _Pushing:
    """pushFilters of one reader."""

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        #: What Spark looks at to find whether a reader has its own.
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        return self._reader.push(filters)


def _stretches(metadata: MetadataSource, options: ReadOptions, bucket: Bucket) -> list[Stretch]:
    """What was asked for, cut to what there is. Raises DataLossError where that is less."""
    logs = selected_logs(metadata, options.selection)
    resolver = Resolver(logs, bucket, is_committed=options.is_committed)
    firsts, ends = resolver.offsets(options.starting), resolver.offsets(options.ending)
    found = []
    for partition, log in logs.items():
        first, end, latest = firsts[partition], ends[partition], resolver.latest(partition)
        if first < log.log_start_offset:
            report_loss(
                f"{partition} begins at offset {log.log_start_offset}, asked for is {first}",
                is_failing=options.fail_on_data_loss,
            )
        if max(first, end) > latest and options.fail_on_data_loss:
            raise PipelineError(
                f"{partition} ends at offset {latest}, asked for is {max(first, end)}: name no later "
                "one, or read what there is with failOnDataLoss=false"
            )
        first = max(first, log.log_start_offset)
        if end < first:
            report_loss(
                f"{partition} is to be read from offset {first} on, and ends before it, at {end}",
                is_failing=options.fail_on_data_loss,
            )
        found.append(Stretch(log, first, min(end, latest)))
    return found
