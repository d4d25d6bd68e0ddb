"""From what was asked for to offsets: which partitions, from where, to where."""

import logging
from collections.abc import Collection, Iterable, Mapping

from logstore.records.columns import ColumnBuilder
from pipeline.datasource.bounds import (
    EARLIEST,
    LATEST,
    AtEdge,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Bound,
    TopicPartition,
    names_of,
)
from pipeline.datasource.planning import Bucket, live_slices
from pipeline.datasource.reading_options import Partitions, Selection
from pipeline.errors import DataLossError, PipelineError, StaleMetadataError
from pipeline.extents import PartitionKey, PartitionLog
from pipeline.loading import load_block
from pipeline.metadata import MetadataSource
from pipeline.stores import shared_store

_log = logging.getLogger("lacuna.datasource")

Logs = Mapping[TopicPartition, PartitionLog]


def selected(
    metadata: MetadataSource, selection: Selection, *, may_miss: bool = False
) -> dict[TopicPartition, PartitionKey]:
    """The partitions to read that there are now, in order.

    Raises PipelineError where a named one does not exist, unless it `may_miss`.
    """
    topics = metadata.topics()
    if isinstance(selection, Partitions):
        wanted = sorted(selection.partitions)
    else:
        wanted = [
            TopicPartition(name, partition)
            for name in selection.chosen(topics)
            for partition in range(topics[name].partition_count if name in topics else 1)
        ]
    there = [
        each
        for each in wanted
        if each.topic in topics and each.partition < topics[each.topic].partition_count
    ]
    if len(there) < len(wanted) and not may_miss:
        raise PipelineError(_missing(sorted(set(wanted) - set(there)), topics))
    return {each: (topics[each.topic].topic_id, each.partition) for each in there}


def _missing(partitions: Iterable[TopicPartition], topics: Iterable[str]) -> str:
    without = sorted({each.topic for each in partitions} - set(topics))
    if without:
        return f"there is no topic {', '.join(without)}: check the name, or create it first"
    return f"there is no partition {names_of(partitions)}: the topic has fewer"


def logs_of(metadata: MetadataSource, keys: Mapping[TopicPartition, PartitionKey]) -> Logs:
    """What is known of each partition."""
    return dict(zip(keys, metadata.partition_logs(keys.values()), strict=True))


def selected_logs(
    metadata: MetadataSource,
    selection: Selection,
    *,
    may_miss: bool = False,
    among: Collection[TopicPartition] | None = None,
) -> Logs:
    """What is known of the partitions to read that there are now, of those `among` them where it is given.

    A topic that is deleted between two questions is as one that was deleted before. Raises as `selected`.
    """
    keys = _among(selected(metadata, selection, may_miss=may_miss), among)
    while True:
        try:
            return logs_of(metadata, keys)
        except StaleMetadataError:
            before = keys
            keys = _among(selected(metadata, selection, may_miss=may_miss), among)
            if keys == before:
                raise


def _among(
    keys: Mapping[TopicPartition, PartitionKey], wanted: Collection[TopicPartition] | None
) -> Mapping[TopicPartition, PartitionKey]:
    return keys if wanted is None else {each: keys[each] for each in keys if each in wanted}


def report_loss(message: str, *, is_failing: bool) -> None:
    """Raises DataLossError, or warns where the user said so."""
    if is_failing:
        raise DataLossError(
            f"{message}; what is missing was taken away by retention, or with a topic that was "
            "deleted: read what there is with failOnDataLoss=false"
        )
    _log.warning("%s; reading goes on, as failOnDataLoss=false says", message)


class Resolver:
    """Turns bounds into offsets of `logs`; reads in the bucket where a bound is a time."""

    def __init__(self, logs: Logs, bucket: Bucket, *, is_committed: bool) -> None:
        self._logs = logs
        self._bucket = bucket
        self._is_committed = is_committed

    def latest(self, partition: TopicPartition) -> int:
        """Where a reader of this isolation stops (S13)."""
        return self._logs[partition].end_offset(is_committed=self._is_committed)

    def offsets(self, bound: Bound) -> dict[TopicPartition, int]:
        """Of every partition. Raises PipelineError where `bound` does not name them all."""
        match bound:
            case AtEdge(edge):
                return {each: self._edge(each, edge) for each in self._logs}
            case AtOffsets(offsets):
                self._check_named(offsets, "offsets")
                return {each: self._edge(each, offsets[each]) for each in self._logs}
            case AtTimestamp(timestamp, is_latest_without):
                return {
                    each: self._at_time(each, timestamp, is_latest_without) for each in self._logs
                }
            case AtTimestamps(timestamps, is_latest_without):
                self._check_named(timestamps, "timestamps")
                return {
                    each: self._at_time(each, timestamps[each], is_latest_without)
                    for each in self._logs
                }

    def _edge(self, partition: TopicPartition, offset: int) -> int:
        if offset == EARLIEST:
            return self._logs[partition].log_start_offset
        return self.latest(partition) if offset == LATEST else offset

    def _check_named(self, named: Mapping[TopicPartition, int], what: str) -> None:
        if named.keys() != self._logs.keys():
            raise PipelineError(
                f"{what} are given for {names_of(named)}, and read are {names_of(self._logs)}: name "
                "exactly these (-2 is the earliest offset, -1 the latest)"
            )

    def _at_time(self, partition: TopicPartition, timestamp: int, is_latest_without: bool) -> int:
        found = self._first_since(partition, timestamp)
        if found is not None:
            return found
        if is_latest_without:
            return self.latest(partition)
        raise PipelineError(
            f"no record of {partition} is as late as {timestamp}: take an earlier time, or begin at "
            "the end then with startingOffsetsByTimestampStrategy=latest"
        )

    def _first_since(self, partition: TopicPartition, timestamp: int) -> int | None:
        """The first offset with that time or a later one; reads one extent, as a rule."""
        log, end = self._logs[partition], self.latest(partition)
        slices = live_slices(log, log.log_start_offset, end, is_committed=self._is_committed)
        store = shared_store(self._bucket.store_url)
        for start, stop in slices:
            for index in range(start, stop):
                if log.extents.max_timestamps[index] < timestamp:
                    continue
                block = load_block(store, self._bucket.cluster_id, [log.piece(index)])
                builder = ColumnBuilder(keys=False, values=False)
                found = next(
                    builder.read(
                        block.data,
                        first_offset=log.log_start_offset,
                        end_offset=end,
                        min_timestamp=timestamp,
                    ),
                    None,
                )
                found = found or builder.take()
                if found is not None:
                    return int(found.offsets[0])
        return None
