"""Lays out segments: combines batches of many partitions into the parts of one object.

No payload is copied: the parts are the caller's buffers, preceded by a header and followed by a footer and trailer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from lacuna.logstore.objects import Part
from lacuna.logstore.records.layout import HEADER, HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL_BIT
from lacuna.logstore.segments.layout import (
    MAX_BLOCK_SIZE,
    TOPIC_ID_SIZE,
    SegmentIdentity,
    encode_end,
    encode_footer,
    encode_header,
)
from lacuna.logstore.segments.paths import SegmentId
from lacuna.logstore.segments.v1 import segment_pb2


class SliceInput(NamedTuple):
    """The batches of one partition, in order. Each buffer holds exactly one batch of magic 2.

    `topic_id` is 16 bytes.
    """

    topic_id: bytes
    partition: int
    batches: Sequence[Part]


class WrittenSlice(NamedTuple):
    """The byte positions of a slice and of each of its batches in the object."""

    topic_id: bytes
    partition: int
    position: int
    size: int
    batch_positions: list[int]
    batch_sizes: list[int]


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A segment to store. `parts` are the parts to pass to `ObjectStore.put`, and `size` is their total size in bytes.

    `slices` are in the order of the input.
    """

    segment_id: SegmentId
    parts: list[Part]
    size: int
    slices: list[WrittenSlice]


def write_segment(
    cluster_id: str,
    segment_id: SegmentId,
    slices: Iterable[SliceInput],
    *,
    has_true_offsets: bool = False,
    journal_position: int = 0,
) -> WrittenSegment:
    """Lay out a segment. With `has_true_offsets`, each batch's base_offset must be its offset in the log.

    The writer knows that the journal is durable up to `journal_position`.

    Raises ValueError if there are no slices, a slice has no batches, a partition occurs twice, a buffer is not exactly
    one batch, or true offsets do not ascend.
    """
    identity = SegmentIdentity(cluster_id, segment_id, has_true_offsets)
    header = encode_header(identity)
    parts: list[Part] = [header]
    position = len(header)
    written: list[WrittenSlice] = []
    footers: list[segment_pb2.Slice] = []
    seen: set[tuple[bytes, int]] = set()
    for slice_input in slices:
        name = (slice_input.topic_id, slice_input.partition)
        if name in seen or len(slice_input.topic_id) != TOPIC_ID_SIZE or not slice_input.batches:
            raise ValueError(
                f"the slice of {name} is empty, occurs twice or has an invalid topic id"
            )
        seen.add(name)
        builder = _SliceBuilder(position, has_true_offsets)
        for batch in slice_input.batches:
            builder.add(batch)
        parts.extend(slice_input.batches)
        written.append(builder.finish(*name))
        footers.append(builder.footer(*name))
        position = builder.position
    if not written:
        raise ValueError("a segment needs at least one slice")
    footer = encode_footer(identity, footers, journal_position)
    end = encode_end(footer, position, has_true_offsets=has_true_offsets)
    parts.extend(end)
    size = position + sum(len(part) for part in end)
    return WrittenSegment(segment_id, parts, size, written)


class _SliceBuilder:
    def __init__(self, position: int, has_true_offsets: bool) -> None:
        self.position = position
        self._start = position
        self._has_true_offsets = has_true_offsets
        self._batch_positions: list[int] = []
        self._batch_sizes: list[int] = []
        self._first_offset = 0
        self._next_offset = 0
        self._block_first_offset = 0
        self._owner: tuple[int, int] | None = None
        self._sizes: list[int] = []
        self._crcs: list[int] = []
        self._offset_counts: list[int] = []

    def add(self, batch: Part) -> None:
        size = len(batch)
        if size < HEADER_SIZE:
            raise ValueError(f"a buffer of {size} bytes is not one record batch")
        fields = HEADER.unpack_from(batch)
        base_offset, batch_length, attributes = fields[0], fields[1], fields[5]
        last_offset_delta = fields[6]
        if batch_length + LOG_OVERHEAD != size or last_offset_delta < 0:
            raise ValueError(f"a buffer of {size} bytes is not one record batch")
        owner = (fields[9], fields[10]) if attributes & TRANSACTIONAL_BIT else None
        first_offset = self._place(base_offset)
        if not self._sizes or owner != self._owner or self._sizes[-1] + size > MAX_BLOCK_SIZE:
            self._open_block(first_offset, owner)
        self._sizes[-1] += size
        self._crcs[-1] = crc32c(batch, self._crcs[-1])
        self._batch_positions.append(self.position)
        self._batch_sizes.append(size)
        self.position += size
        self._next_offset = first_offset + last_offset_delta + 1

    def finish(self, topic_id: bytes, partition: int) -> WrittenSlice:
        return WrittenSlice(
            topic_id,
            partition,
            self._start,
            self.position - self._start,
            self._batch_positions,
            self._batch_sizes,
        )

    def footer(self, topic_id: bytes, partition: int) -> segment_pb2.Slice:
        last_count = self._next_offset - self._block_first_offset
        return segment_pb2.Slice(
            topic_id=topic_id,
            partition=partition,
            base_offset=self._first_offset,
            block_sizes=self._sizes,
            block_crcs=self._crcs,
            block_offset_counts=[*self._offset_counts, last_count],
        )

    def _place(self, base_offset: int) -> int:
        """Return where the next batch begins: at `base_offset` if the segment has true offsets, otherwise where the
        previous one ends.
        """
        if not self._has_true_offsets:
            return self._next_offset
        if base_offset < self._next_offset:
            raise ValueError(f"a batch begins at offset {base_offset}, before {self._next_offset}")
        return base_offset

    def _open_block(self, first_offset: int, owner: tuple[int, int] | None) -> None:
        if self._sizes:
            self._offset_counts.append(first_offset - self._block_first_offset)
        else:
            self._first_offset = first_offset
        self._block_first_offset = first_offset
        self._owner = owner
        self._sizes.append(0)
        self._crcs.append(0)
