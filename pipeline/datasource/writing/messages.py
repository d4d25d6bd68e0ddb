"""What a task tells the driver: the segments that it wrote, and all that their commit has to say."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage


@dataclass(frozen=True, slots=True)
class WrittenPartition:
    """The batches of one partition in a segment, contiguous from byte `position` on.

    One entry a batch: `sizes` in bytes, `record_counts`, `max_timestamps` in ms.
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
    """A segment of the task's lease that is in the bucket, and not committed yet."""

    sequence: int
    object_size: int
    partitions: tuple[WrittenPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage(WriterCommitMessage):
    """The work of one task attempt. Without rows there is no lease (0) and no segment.

    `topics` are the names of the topic ids; `query_id` is that of the streaming query, None in a batch write.
    """

    lease_id: int = 0
    segments: tuple[WrittenObject, ...] = ()
    topics: Mapping[bytes, str]
    query_id: str | None = None
