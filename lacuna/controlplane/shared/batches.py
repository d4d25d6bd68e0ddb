"""Rows of bytes that describe the slices and batches of a commit in its command, verdicts and journal record.

Packing or reading a row takes a tenth of the time needed for a message with as many fields. Rows are little-endian.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.log_pb2 import CommitSegment, SegmentCommitted, SegmentId

#: A slice of a commit: topic id, partition, and number of batches.
COMMITTED_SLICE: Final = Struct("<16siI")
#: A batch of a commit: byte position in the object, size, last_offset_delta + 1, maximum timestamp (with LogAppendTime,
#: the append time), producer id (-1 for none), producer epoch, base sequence, and flags.
COMMITTED_BATCH: Final = Struct("<qiiqqiiI")

FLAG_LOG_APPEND_TIME: Final = 1
#: The producer came from another agent. If its state is unknown, its first batch must have sequence 0.
FLAG_FOLLOWS: Final = 2
FLAG_TRANSACTIONAL: Final = 4
#: The batch adds its partition to the transaction (Produce v12 and later).
FLAG_ADDS_PARTITION: Final = 8
#: This bit and the higher ones hold the index of the request's transactional id in the commit's list, plus 1, or 0 if
#: the request has none.
TRANSACTIONAL_ID_SHIFT: Final = 4

#: The verdict on a slice: the error code of the whole slice, the number of its batches (0 if there is an error), and
#: the log start offset.
SLICE_VERDICT: Final = Struct("<hIq")
#: The verdict on a batch: error code, base offset (-1 if there is an error; for a duplicate, the one in its first
#: answer), and append time (-1 unless LogAppendTime).
BATCH_VERDICT: Final = Struct("<hqq")

#: A slice in the journal: topic id, partition, number of extents, number of BATCH_ROW rows, and high watermark after
#: the slice.
RECORDED_SLICE: Final = Struct("<16siIIq")
#: What an idempotence window remembers about a batch: producer id, producer epoch, base sequence, last sequence, base
#: offset, append time (-1 unless LogAppendTime), max timestamp.
BATCH_ROW: Final = Struct("<qiiiqqq")


@dataclass(slots=True)
class SegmentSlice:
    """The batches of one partition in a segment, as rows of COMMITTED_BATCH."""

    key: PartitionKey
    batches: bytes = b""


def commit_of(
    segment: SegmentId,
    object_size: int,
    slices: Sequence[SegmentSlice],
    transactional_ids: Iterable[str] = (),
) -> CommitSegment:
    return CommitSegment(
        segment=segment,
        object_size=object_size,
        slices=b"".join(
            COMMITTED_SLICE.pack(*each.key, len(each.batches) // COMMITTED_BATCH.size)
            for each in slices
        ),
        batches=b"".join(each.batches for each in slices),
        transactional_ids=transactional_ids,
    )


def topic_ids_of(command: CommitSegment) -> Iterator[bytes]:
    """Yield the topic id of each slice. An incomplete last row, for which the commit is rejected, is skipped."""
    size = COMMITTED_SLICE.size
    whole = len(command.slices) // size * size
    for topic_id, _, _ in COMMITTED_SLICE.iter_unpack(memoryview(command.slices)[:whole]):
        yield topic_id


class SliceVerdict(NamedTuple):
    """The verdict on a slice, and the verdicts on its batches (none if the whole slice is rejected)."""

    error_code: int
    log_start_offset: int
    error_codes: Sequence[int]
    base_offsets: Sequence[int]
    append_times: Sequence[int]


def verdicts_of(committed: SegmentCommitted) -> list[SliceVerdict]:
    """Return the verdict on each slice of a commit, in order."""
    batches = BATCH_VERDICT.iter_unpack(committed.batches)
    verdicts = []
    for code, count, log_start_offset in SLICE_VERDICT.iter_unpack(committed.slices):
        columns = tuple(zip(*(next(batches) for _ in range(count)), strict=True)) or ((), (), ())
        verdicts.append(SliceVerdict(code, log_start_offset, *columns))
    return verdicts
