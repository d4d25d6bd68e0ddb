"""Writes segments to the bucket. One is being written while the next one is filled."""

from array import array
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from lacuna.logstore.objects import ObjectStore
from lacuna.logstore.segments import SliceInput, segment_key, write_segment
from lacuna.pipeline.datasource.writing.encoding import EncodedBatch
from lacuna.pipeline.datasource.writing.lease import JobLease
from lacuna.pipeline.datasource.writing.messages import WrittenObject, WrittenPartition
from lacuna.pipeline.datasource.writing.topics import Targets


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
        """Starts writing the batches, given by slot, as one segment. Raises the error of a failed previous PUT."""
        self._await()
        self._lease.renew()
        self._under_way = self._executor.submit(self._put, batches)

    def finish(self) -> tuple[WrittenObject, ...]:
        """Waits for the last PUT and returns all segments, which are then in the bucket. Raises its error."""
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
