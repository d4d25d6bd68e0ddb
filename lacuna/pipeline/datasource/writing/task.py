"""A task attempt: writes its rows to the bucket as segments, under its own lease, and returns a message for the driver.

    rows -> slots -> (when a chunk is full) record batches, slot by slot -> (when a segment is full) PUT

Nothing written here is visible until the driver commits it. Uncommitted segments are deleted once the attempt's lease
has ended. An attempt needs memory for a chunk of rows (twice that while assembling it), for the batches of one segment,
and for those of the previous segment while its PUT is in progress.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lacuna.logstore.objects.store import wall_clock_ms
from lacuna.pipeline.datasource.writing.control import RetryingJobClient
from lacuna.pipeline.datasource.writing.encoding import EncodedBatch, Encoder, row_sizes
from lacuna.pipeline.datasource.writing.lease import JobLease
from lacuna.pipeline.datasource.writing.options import SinkOptions
from lacuna.pipeline.datasource.writing.partitioning import Partitioner
from lacuna.pipeline.datasource.writing.puts import SegmentPuts, TaskMessage, WrittenObject
from lacuna.pipeline.datasource.writing.rows import normalize
from lacuna.pipeline.datasource.writing.topics import Targets, check_timestamps
from lacuna.pipeline.stores import check_store, shared_store

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: Checked once per process and store: a streaming query may run tasks every second.
_check_store = lru_cache(maxsize=8)(check_store)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSizes:
    """The size in bytes of a chunk of rows that are sorted together, and that of the batches that make up a segment."""

    chunk_bytes: int = 32 << 20
    segment_bytes: int = 32 << 20


DEFAULT_SIZES: Final = TaskSizes()


def write_task(
    options: SinkOptions,
    batches: Iterable[pa.RecordBatch],
    query_id: str | None = None,
    sizes: TaskSizes = DEFAULT_SIZES,
) -> TaskMessage:
    """Writes all rows of a task as segments, and returns the message for the driver.

    Raises PipelineError for a row that cannot be written, and errors from the control plane and the store. After an
    error, nothing from the task is committed.
    """
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return TaskMessage(topics={}, query_id=query_id)
    store = shared_store(options.location.store)
    with RetryingJobClient(options.location.require_control()) as control:
        _check_store(options.location.store, control.cluster_id)
        targets = Targets(control.topics(), control.whose)
        lease = JobLease(control)
        try:
            with SegmentPuts(store, lease, targets) as puts:
                writer = TaskWriter(options, targets, puts, sizes)
                writer.add(first)
                for batch in filled:
                    writer.add(batch)
                segments = writer.finish()
            lease.renew(older_than_seconds=60)
        except BaseException:
            lease.release()
            raise
        return TaskMessage(
            lease_id=lease.lease_id, segments=segments, topics=targets.names(), query_id=query_id
        )


class TaskWriter:
    """Collects rows, sorts them by slot, and encodes them. `now_ms` provides timestamps for rows that have none."""

    def __init__(
        self,
        options: SinkOptions,
        targets: Targets,
        puts: SegmentPuts,
        sizes: TaskSizes = DEFAULT_SIZES,
        now_ms: Callable[[], int] = wall_clock_ms,
        randrange: Callable[[int], int] = random.randrange,
    ) -> None:
        self._options = options
        self._targets = targets
        self._puts = puts
        self._sizes = sizes
        self._now_ms = now_ms
        self._partitioner = Partitioner(targets, options.topic, randrange)
        self._rows: list[pa.RecordBatch] = []
        self._slots: list[NDArray[np.int32]] = []
        self._row_bytes = 0
        self._batches: dict[int, list[EncodedBatch]] = {}
        self._batch_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows in the form that Spark passes. A batch larger than a chunk is divided among several."""
        rows = normalize(batch, self._options.topic, self._now_ms())
        slots = self._partitioner.slots(rows)
        ends = np.cumsum(row_sizes(rows))
        first, before = 0, 0
        while first < rows.num_rows:
            room = self._sizes.chunk_bytes - self._row_bytes
            end = int(np.searchsorted(ends, before + room, "right"))
            if end == first and not self._rows:
                end += 1  # a single row is larger than a chunk
            if end > first:
                self._rows.append(rows.slice(first, end - first))
                self._slots.append(slots[first:end])
                self._row_bytes += int(ends[end - 1]) - before
                first, before = end, int(ends[end - 1])
            if first < rows.num_rows:
                self._encode()

    def finish(self) -> tuple[WrittenObject, ...]:
        """Writes the remaining rows, and returns the task's segments, which are all in the bucket."""
        self._encode()
        self._put()
        return self._puts.finish()

    def _encode(self) -> None:
        if not self._rows:
            return
        rows = pa.concat_batches(self._rows)
        slots = np.concatenate(self._slots)
        self._rows, self._slots, self._row_bytes = [], [], 0
        order = np.argsort(slots, kind="stable")
        cuts = np.flatnonzero(np.diff(slots[order])) + 1
        encoder = Encoder(rows, self._options.codec)
        for chosen in np.split(order, cuts):
            target, _ = self._targets.at(int(slots[chosen[0]]))
            now_ms = self._now_ms()
            check_timestamps(rows.column("timestamp").take(chosen), target, now_ms)
            batches = encoder.encode(chosen, target, now_ms)
            self._batches.setdefault(int(slots[chosen[0]]), []).extend(batches)
            self._batch_bytes += sum(len(batch.data) for batch in batches)
            if self._batch_bytes >= self._sizes.segment_bytes:
                self._put()

    def _put(self) -> None:
        if self._batches:
            self._puts.put(self._batches)
            self._batches, self._batch_bytes = {}, 0
