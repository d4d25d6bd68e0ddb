"""Read a segment: find its footer, check what was read, find the block of an offset or a time.

Sans-IO below `open_segment`: the caller reads ranges however it likes and hands the bytes in.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from logstore.objects import ObjectStore, ShortReadError
from logstore.records.crc import crc32c
from logstore.records.layout import HEADER, HEADER_SIZE, LOG_OVERHEAD
from logstore.segments.layout import (
    TOPIC_ID_SIZE,
    TRAILER_SIZE,
    CorruptSegmentError,
    SegmentIdentity,
    check_header,
    decode_footer,
    decode_trailer,
    header_size,
)
from logstore.segments.paths import parse_segment_key
from logstore.segments.v1 import segment_pb2

TAIL_SIZE = 64 * 1024
"""Bytes that `open_segment` reads first; they hold the footer of all but the widest segments."""


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """One partition's range of an object and its blocks; positions are in the object, in bytes.

    `block_positions` and `block_offsets` have one entry more than there are blocks: the end.
    Offsets are true ones if the segment has such, else they count from 0 at the slice's first
    record.
    """

    key: str
    topic_id: bytes
    partition: int
    block_positions: array[int]
    block_crcs: array[int]
    block_offsets: array[int]
    block_max_timestamps: array[int]

    @property
    def position(self) -> int:
        return self.block_positions[0]

    @property
    def size(self) -> int:
        return self.block_positions[-1] - self.block_positions[0]

    def covering(self, position: int, size: int) -> tuple[int, int]:
        """The (position, size) of the blocks that hold this range: what to read to check it.

        Raises ValueError for a range that is not within the slice.
        """
        end = position + size
        if not self.block_positions[0] <= position < end <= self.block_positions[-1]:
            raise ValueError(f"{size} bytes at {position} are not within the slice of {self.key!r}")
        first = self.block_positions[bisect_right(self.block_positions, position) - 1]
        last = self.block_positions[bisect_left(self.block_positions, end)]
        return first, last - first

    def verify(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Check `data`, read from `position`, which is a whole number of blocks (see `covering`).

        Raises `CorruptSegmentError` with the range of the first block that does not match.
        """
        if self.covering(position, len(data)) != (position, len(data)):
            raise ValueError(f"{len(data)} bytes at {position} are not whole blocks")
        view = memoryview(data)
        first = bisect_left(self.block_positions, position)
        last = bisect_left(self.block_positions, position + len(data))
        for block in range(first, last):
            start, end = self.block_positions[block], self.block_positions[block + 1]
            if crc32c(view[start - position : end - position]) != self.block_crcs[block]:
                raise CorruptSegmentError(
                    self.key, start, end - start, "the checksum of the block does not match"
                )

    def position_of_offset(self, offset: int) -> int | None:
        """The block to begin at for `offset`, or None if the slice ends before it."""
        if offset >= self.block_offsets[-1]:
            return None
        return self.block_positions[max(0, bisect_right(self.block_offsets, offset) - 1)]

    def position_of_timestamp(self, timestamp: int) -> int | None:
        """The first block with a record at or after `timestamp` (ms), or None if there is none."""
        for block, max_timestamp in enumerate(self.block_max_timestamps):
            if max_timestamp >= timestamp:
                return self.block_positions[block]
        return None


@dataclass(frozen=True, slots=True)
class SegmentFooter:
    """What a segment holds. `slices` are in the order of their positions."""

    key: str
    object_size: int
    identity: SegmentIdentity
    slices: tuple[SegmentSlice, ...]

    def slice_at(self, position: int) -> SegmentSlice:
        """The slice that holds the byte at `position`; ValueError if none does."""
        index = bisect_right(self.slices, position, key=_position) - 1
        if index >= 0 and position < self.slices[index].position + self.slices[index].size:
            return self.slices[index]
        raise ValueError(f"no slice of {self.key!r} holds position {position}")


def open_segment(store: ObjectStore, key: str, object_size: int | None = None) -> SegmentFooter:
    """Read and check the end of a segment: one GET, a HEAD before it if the size is not known.

    Raises `CorruptSegmentError`, and what the store raises.
    """
    size = store.size(key) if object_size is None else object_size
    tail_position = max(0, size - TAIL_SIZE)
    if size < TRAILER_SIZE:
        raise CorruptSegmentError(key, 0, size, "the object is too short for a segment")
    try:
        tail = memoryview(store.get(key, tail_position, size - tail_position))
    except ShortReadError as error:
        raise CorruptSegmentError(
            key, error.position, error.size, "the object is truncated"
        ) from error
    trailer = decode_trailer(key, size, tail[-TRAILER_SIZE:])
    if trailer.footer_position < tail_position:
        missing = store.get(key, trailer.footer_position, tail_position - trailer.footer_position)
        tail = memoryview(bytes(missing) + bytes(tail))
        tail_position = trailer.footer_position
    return parse_end(key, size, tail[trailer.footer_position - tail_position :])


def parse_end(key: str, object_size: int, end: bytes | bytearray | memoryview) -> SegmentFooter:
    """The footer from an object's last bytes, from the footer's first to the trailer's last.

    Raises `CorruptSegmentError`, also where the object is not the one that its key says.
    """
    trailer = decode_trailer(key, object_size, end[-TRAILER_SIZE:])
    identity, slices = decode_footer(key, trailer, end[:-TRAILER_SIZE])
    at_footer = (trailer.footer_position, trailer.footer_size)
    if parse_segment_key(key) != (identity.cluster_id, identity.segment_id):
        raise CorruptSegmentError(
            key,
            *at_footer,
            f"it is segment {identity.segment_id} of cluster {identity.cluster_id}, copied here",
        )
    if identity.has_true_offsets != trailer.has_true_offsets:
        raise CorruptSegmentError(key, *at_footer, "footer and trailer contradict each other")
    position = header_size(identity.cluster_id)
    parsed = []
    for message in slices:
        parsed.append(_parse_slice(key, at_footer, position, message))
        position += parsed[-1].size
    if position != trailer.footer_position or not parsed:
        raise CorruptSegmentError(key, *at_footer, "the slices do not fill the object")
    return SegmentFooter(key, object_size, identity, tuple(parsed))


def check_segment(key: str, data: bytes | bytearray) -> SegmentFooter:
    """Check every byte of a whole object, and that its batches are where its footer says.

    Raises `CorruptSegmentError` with the smallest range that is known to hold the damage.
    """
    view = memoryview(data)
    trailer = decode_trailer(key, len(data), view[-TRAILER_SIZE:])
    footer = parse_end(key, len(data), view[trailer.footer_position :])
    check_header(key, footer.identity, bytes(view[: header_size(footer.identity.cluster_id)]))
    for found in footer.slices:
        found.verify(found.position, view[found.position : found.position + found.size])
        _check_batches(found, view, footer.identity.has_true_offsets)
    return footer


def batches_in(
    key: str, position: int, data: bytes | bytearray | memoryview
) -> Iterator[tuple[int, memoryview]]:
    """The batches of a range that was read from `position` and checked: (position, batch), in
    order.

    Raises `CorruptSegmentError` where the range does not begin and end on batch boundaries.
    """
    view = memoryview(data)
    start = 0
    while start < len(view):
        left = len(view) - start
        size = HEADER.unpack_from(view, start)[1] + LOG_OVERHEAD if left >= HEADER_SIZE else 0
        if not HEADER_SIZE <= size <= left:
            raise CorruptSegmentError(key, position + start, left, "no batch where one must begin")
        yield position + start, view[start : start + size]
        start += size


def _position(found: SegmentSlice) -> int:
    return found.position


def _parse_slice(
    key: str, at_footer: tuple[int, int], position: int, message: segment_pb2.Slice
) -> SegmentSlice:
    blocks = len(message.block_sizes)
    columns: tuple[Sequence[int], ...] = (
        message.block_crcs,
        message.block_offset_counts,
        message.block_max_timestamps,
    )
    if not blocks or any(len(column) != blocks for column in columns):
        raise CorruptSegmentError(key, *at_footer, "the columns of a slice differ in length")
    if len(message.topic_id) != TOPIC_ID_SIZE or 0 in message.block_sizes:
        raise CorruptSegmentError(
            key, *at_footer, "a slice without topic id or with an empty block"
        )
    try:
        return SegmentSlice(
            key,
            message.topic_id,
            message.partition,
            _sums(position, message.block_sizes),
            array("L", message.block_crcs),
            _sums(message.base_offset, message.block_offset_counts),
            _sums(0, message.block_max_timestamps)[1:],
        )
    except OverflowError as error:
        raise CorruptSegmentError(
            key, *at_footer, "offsets or timestamps of a slice are beyond 64 bits"
        ) from error


def _sums(first: int, steps: Sequence[int]) -> array[int]:
    total = first
    sums = array("q", [first])
    for step in steps:
        total += step
        sums.append(total)
    return sums


def _check_batches(found: SegmentSlice, view: memoryview, has_true_offsets: bool) -> None:
    """Whether the batches of a slice begin at its blocks and have the offsets that its index
    says."""
    start = found.position
    next_offset = found.block_offsets[0]
    starts = {}
    for position, batch in batches_in(found.key, start, view[start : start + found.size]):
        fields = HEADER.unpack_from(batch)
        first_offset = fields[0] if has_true_offsets else next_offset
        if first_offset < next_offset:
            raise CorruptSegmentError(
                found.key, position, len(batch), "its offset is not ascending"
            )
        starts[position] = first_offset
        next_offset = first_offset + fields[6] + 1
    starts[start + found.size] = next_offset
    for position, offset in zip(found.block_positions, found.block_offsets, strict=True):
        if starts.get(position) != offset:
            raise CorruptSegmentError(
                found.key, found.position, found.size, f"the index is wrong at position {position}"
            )
