"""Writes segments to the bucket in the background, and describes them for the driver."""

from array import array
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from pyspark.sql.datasource import WriterCommitMessage

from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.segments import SliceInput, segment_key, write_segment
from lacuna.pipeline.datasource.writing.encoding import EncodedBatch
from lacuna.pipeline.datasource.writing.lease import JobLease
from lacuna.pipeline.datasource.writing.topics import Targets


@dataclass(frozen=True, slots=True)
class WrittenPartition:
    """The batches of one partition in a segment, stored back to back, starting at byte `position`.

    `sizes` (in bytes), `record_counts` and `max_timestamps` (in ms) contain one entry per batch.
    """

    topic_id: bytes
    partition: int
    position: int
    is_log_append_time: bool
    sizes: "array[int]"
    record_counts: "array[int]"
    max_timestamps: "array[int]"


@dataclass(frozen=True, slots=True)
class WrittenObject:
    """An uncommitted segment in the bucket, written under the task's lease. `object_size` is in bytes."""

    sequence: int
    object_size: int
    partitions: tuple[WrittenPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage(WriterCommitMessage):
    """The work of one task attempt. An attempt without rows has neither a lease (0) nor segments.

    `topics` maps topic ids to names. `query_id` is the id of the streaming query, or None in a batch write.
    """

    lease_id: int = 0
    segments: tuple[WrittenObject, ...] = ()
    topics: Mapping[bytes, str]
    query_id: str | None = None


class SegmentPuts:
    """A context manager that writes segments in the background, one PUT at a time."""

    def __init__(self, store: ObjectStore, lease: JobLease, targets: Targets) -> None:
        self._store = store
        self._lease = lease
        self._targets = targets
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="put")
        self._under_way: Future[WrittenObject] | None = None
        self._written: list[WrittenObject] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()

    def put(self, batches: dict[int, list[EncodedBatch]]) -> None:
        """Starts writing batches, given by slot, as one segment. Raises the previous PUT's error if that failed."""
        self._await()
        self._lease.renew()
        self._under_way = self._executor.submit(self._put, batches)

    def finish(self) -> tuple[WrittenObject, ...]:
        """Waits for the last PUT, and returns all segments. Raises an error if the PUT failed."""
        self._await()
        return tuple(self._written)

    def _await(self) -> None:
        if self._under_way is not None:
            self._written.append(self._under_way.result())
            self._under_way = None

    def _put(self, batches: dict[int, list[EncodedBatch]]) -> WrittenObject:
        segment_id = self._lease.next_segment_id()
        places = [self._targets.at(slot) for slot in batches]
        written = write_segment(
            self._lease.cluster_id,
            segment_id,
            [
                SliceInput(target.topic_id, partition, [batch.data for batch in some])
                for (target, partition), some in zip(places, batches.values(), strict=True)
            ],
        )
        self._store.put(segment_key(self._lease.cluster_id, segment_id), written.parts)
        partitions = tuple(
            WrittenPartition(
                topic_id=target.topic_id,
                partition=partition,
                position=piece.position,
                is_log_append_time=target.is_log_append_time,
                sizes=array("i", piece.batch_sizes),
                record_counts=array("i", [batch.record_count for batch in some]),
                max_timestamps=array("q", [batch.max_timestamp for batch in some]),
            )
            for (target, partition), some, piece in zip(
                places, batches.values(), written.slices, strict=True
            )
        )
        return WrittenObject(segment_id.sequence, written.size, partitions)
