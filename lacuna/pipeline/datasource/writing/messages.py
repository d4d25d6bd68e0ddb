"""The message from a task to the driver: the segments that it wrote, with everything that their commit needs."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


@dataclass(frozen=True, slots=True)
class WrittenPartition:
    """The batches of one partition in a segment, back to back from byte `position`.

    `sizes` (in bytes), `record_counts` and `max_timestamps` (in ms) have one entry per batch.
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
    """A segment under the task's lease that is in the bucket but not committed yet; `object_size` is in bytes."""

    sequence: int
    object_size: int
    partitions: tuple[WrittenPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage(WriterCommitMessage):
    """The work of one task attempt. If it had no rows, it has no lease (0) and no segments.

    `topics` maps topic ids to names; `query_id` is that of the streaming query, or None in a batch write.
    """

    lease_id: int = 0
    segments: tuple[WrittenObject, ...] = ()
    topics: Mapping[bytes, str]
    query_id: str | None = None
