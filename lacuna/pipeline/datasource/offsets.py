"""Resolves the user's selection to partitions, and to the first and end offset of each."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from lacuna.controlplane.client import not_known, show_time
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.pipeline.datasource.bounds import (
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
from lacuna.pipeline.datasource.planning import Bucket
from lacuna.pipeline.datasource.positions import Position
from lacuna.pipeline.datasource.reading import warn_of
from lacuna.pipeline.datasource.reading_options import Partitions, ReadOptions, Selection
from lacuna.pipeline.decoding import first_offset_since
from lacuna.pipeline.errors import DataLossError, PipelineError, StaleMetadataError
from lacuna.pipeline.extents import PartitionLog
from lacuna.pipeline.metadata import MetadataSource
from lacuna.pipeline.stores import shared_store

_log = logging.getLogger("lacuna.datasource")

Logs = Mapping[TopicPartition, PartitionLog]


def selected(
    metadata: MetadataSource, selection: Selection, *, may_miss: bool = False
) -> dict[TopicPartition, PartitionKey]:
    """Returns the selected partitions that exist now, in order, with their keys.

    Raises PipelineError if a selected topic or partition does not exist, unless `may_miss`.
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
        raise PipelineError(_missing(sorted(set(wanted) - set(there)), topics, metadata.whose))
    return {each: (topics[each.topic].topic_id, each.partition) for each in there}


def _missing(partitions: Iterable[TopicPartition], topics: Iterable[str], whose: str) -> str:
    without = sorted({each.topic for each in partitions} - set(topics))
    if without:
        return f"there is no topic {', '.join(without)}{whose}: check the name, or create it first"
    return f"there is no partition {names_of(partitions)}: the topic has fewer partitions"


def cut_of(metadata: MetadataSource, options: ReadOptions) -> Mapping[PartitionKey, int]:
    """Returns end offsets of the selected partitions that together split no transaction, or nothing without `cut` or
    for a past time.
    """
    if not options.is_cut or options.as_of_ms is not None:
        return {}
    keys = list(selected(metadata, options.selection, may_miss=True).values())
    return {key: each.end_offset for key, each in metadata.cut(keys).partitions.items()}


def ending_at(logs: Logs, cut: Mapping[PartitionKey, int]) -> Logs:
    """Returns the logs with their last stable offsets replaced by the ends in the cut, unless the cut is empty.

    A partition that is too new for the cut ends at its log start.
    """
    if not cut:
        return logs
    return {
        each: replace(log, last_stable_offset=max(cut.get(log.key, 0), log.log_start_offset))
        for each, log in logs.items()
    }


def selected_logs(
    metadata: MetadataSource,
    options: ReadOptions,
    *,
    are_read: bool = True,
    may_miss: bool = False,
    among: Collection[TopicPartition] | None = None,
) -> Logs:
    """Returns the logs of the selected partitions that exist now (only those in `among`, if given).

    With `are_read`, the records to read are in the bucket on return. A topic that is deleted during the call is treated
    as if it had been deleted before. Raises the same errors as `selected`.
    """
    keys = _among(selected(metadata, options.selection, may_miss=may_miss), among)
    while True:
        try:
            if are_read:
                store, is_committed = options.location.store, options.is_committed
                logs = metadata.readable_logs(keys.values(), store, is_committed=is_committed)
            else:
                logs = metadata.partition_logs(keys.values())
            return dict(zip(keys, logs, strict=True))
        except StaleMetadataError:
            before = keys
            keys = _among(selected(metadata, options.selection, may_miss=may_miss), among)
            if keys == before:
                raise


def _among(
    keys: Mapping[TopicPartition, PartitionKey], wanted: Collection[TopicPartition] | None
) -> Mapping[TopicPartition, PartitionKey]:
    return keys if wanted is None else {each: keys[each] for each in keys if each in wanted}


def ends_as_of(
    metadata: MetadataSource, selection: Selection, at_ms: int, *, is_cut: bool
) -> dict[PartitionKey, int]:
    """Returns where read_committed consumers of the selected partitions stopped at a past time or, with `is_cut`, a cut
    as of that time.

    If nothing is known for that exact time, the last known time before it is used. Raises PipelineError if there is
    none, and the same errors as `selected`.
    """
    keys = selected(metadata, selection)
    past = metadata.as_of(list(keys.values()), at_ms, is_cut=is_cut)
    if not past.is_known:
        names = ", ".join(sorted({each.topic for each in keys}))
        raise PipelineError(f"option asOf: {not_known(names, past.known_from_ms)}")
    if past.as_of_ms // 1000 < at_ms // 1000:
        _log.warning(
            "asOf: that time is not known; reading records as of %s, the last known time before it",
            show_time(past.as_of_ms),
        )
    return {key: then.end_offset for key, then in past.partitions.items()}


def report_loss(message: str, *, is_failing: bool) -> None:
    if is_failing:
        raise DataLossError(
            f"{message}; the missing records were deleted by retention or with their topic: read what "
            "exists with failOnDataLoss=false"
        )
    _log.warning("%s; reading continues because of failOnDataLoss=false", message)


class Resolver:
    """Resolves bounds to offsets in `logs`. To resolve a time, it reads records from the bucket."""

    def __init__(self, logs: Logs, bucket: Bucket, *, is_committed: bool) -> None:
        self._logs = logs
        self._bucket = bucket
        self._is_committed = is_committed

    def latest(self, partition: TopicPartition) -> int:
        """Returns the offset at which a reader with this isolation level stops (S13)."""
        return self._logs[partition].end_offset(is_committed=self._is_committed)

    def offsets(self, bound: Bound) -> dict[TopicPartition, int]:
        """Returns the offset of the bound in every partition.

        Raises PipelineError if `bound` names partitions other than those being read, or a time that is later than every
        record and has no fallback.
        """
        match bound:
            case AtEdge(edge):
                return {each: self._edge(each, edge) for each in self._logs}
            case AtOffsets(offsets, topic_ids):
                self._check_named(offsets, "offsets")
                self._check_topics(Position(offsets, topic_ids))
                return {each: self._edge(each, offsets[each]) for each in self._logs}
            case AtTimestamp(timestamp, is_latest):
                return {each: self._at_time(each, timestamp, is_latest) for each in self._logs}
            case AtTimestamps(times, is_latest):
                self._check_named(times, "timestamps")
                return {each: self._at_time(each, times[each], is_latest) for each in self._logs}

    def _edge(self, partition: TopicPartition, offset: int) -> int:
        if offset == EARLIEST:
            return self._logs[partition].log_start_offset
        return self.latest(partition) if offset == LATEST else offset

    def _check_named(self, named: Mapping[TopicPartition, int], what: str) -> None:
        if named.keys() != self._logs.keys():
            raise PipelineError(
                f"{what} were given for {names_of(named)}, but the partitions to read are "
                f"{names_of(self._logs)}: specify exactly these (-2 is the earliest offset, -1 the latest)"
            )

    def _check_topics(self, position: Position) -> None:
        for log in self._logs.values():
            if not position.is_of(log):
                raise DataLossError(
                    f"the offsets given for {log.topic} belong to an earlier topic with this name, "
                    "which was deleted with its records: specify different offsets"
                )

    def _at_time(self, partition: TopicPartition, timestamp: int, is_latest_without: bool) -> int:
        found = self._first_since(partition, timestamp)
        if found is not None:
            return found
        if is_latest_without:
            return self.latest(partition)
        raise PipelineError(
            f"{partition} has no record at or after timestamp {timestamp}: choose an earlier time, or "
            "start at the end with startingOffsetsByTimestampStrategy=latest"
        )

    def _first_since(self, partition: TopicPartition, timestamp: int) -> int | None:
        bucket = self._bucket
        return first_offset_since(
            self._logs[partition],
            shared_store(bucket.store_url),
            bucket.cluster_id,
            timestamp,
            is_committed=self._is_committed,
            skip=warn_of if bucket.is_tolerant else None,
        )
