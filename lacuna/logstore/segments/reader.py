"""Reads the footer of a segment: its identity, its slices, and the blocks of each.

Only `open_segment` performs I/O. For the other functions, the caller reads the bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from lacuna.logstore.objects import DamagedObjectError, ObjectStore, ShortReadError
from lacuna.logstore.segments.layout import (
    TOPIC_ID_SIZE,
    TRAILER_SIZE,
    CorruptSegmentError,
    SegmentIdentity,
    decode_footer,
    decode_trailer,
    header_size,
)
from lacuna.logstore.segments.paths import parse_segment_key
from lacuna.logstore.segments.v1 import segment_pb2

TAIL_SIZE = 64 * 1024
"""The number of bytes that `open_segment` reads first. They contain the footer of all but the widest segments."""


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """The blocks of one partition in a segment. Positions are in bytes from the beginning of the object.

    `block_positions` and `block_offsets` have one more entry than there are blocks, for the end. `block_offsets`
    contains true offsets if the segment has them, and otherwise counts from 0 at the slice's first record.
    """

    key: str
    topic_id: bytes
    partition: int
    block_positions: array[int]
    block_crcs: array[int]
    block_offsets: array[int]

    @property
    def position(self) -> int:
        return self.block_positions[0]

    @property
    def size(self) -> int:
        return self.block_positions[-1] - self.block_positions[0]


@dataclass(frozen=True, slots=True)
class SegmentFooter:
    """The contents of a segment. `slices` are ordered by position.

    When the segment was written, the journal was known to be durable up to `journal_position` (0 if unknown).
    """

    key: str
    object_size: int
    identity: SegmentIdentity
    slices: tuple[SegmentSlice, ...]
    journal_position: int = 0


def open_segment(store: ObjectStore, key: str, object_size: int | None = None) -> SegmentFooter:
    """Read and check the end of a segment. This is usually one GET, plus a HEAD if `object_size` is None.

    Raises `CorruptSegmentError` and the store's errors.
    """
    try:
        return _open(store, key, store.size(key) if object_size is None else object_size)
    except DamagedObjectError as error:
        raise CorruptSegmentError(key, error.position, error.size, error.reason) from error


def _open(store: ObjectStore, key: str, size: int) -> SegmentFooter:
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
    """Parse the footer, given an object's bytes from the beginning of the footer to the end of the object.

    Raises `CorruptSegmentError`, including for a segment that is stored under the wrong key.
    """
    trailer = decode_trailer(key, object_size, end[-TRAILER_SIZE:])
    identity, footer = decode_footer(key, trailer, end[:-TRAILER_SIZE])
    at_footer = (trailer.footer_position, trailer.footer_size)
    if parse_segment_key(key) != (identity.cluster_id, identity.segment_id):
        raise CorruptSegmentError(
            key,
            *at_footer,
            f"it is a copy of segment {identity.segment_id} of cluster {identity.cluster_id}",
        )
    if identity.has_true_offsets != trailer.has_true_offsets:
        raise CorruptSegmentError(key, *at_footer, "footer and trailer contradict each other")
    position = header_size(identity.cluster_id)
    parsed = []
    for message in footer.slices:
        parsed.append(_parse_slice(key, at_footer, position, message))
        position += parsed[-1].size
    if position != trailer.footer_position or not parsed:
        raise CorruptSegmentError(key, *at_footer, "the slices do not fill the object")
    return SegmentFooter(key, object_size, identity, tuple(parsed), footer.journal_position)


def _parse_slice(
    key: str, at_footer: tuple[int, int], position: int, message: segment_pb2.Slice
) -> SegmentSlice:
    blocks = len(message.block_sizes)
    if not blocks or not blocks == len(message.block_crcs) == len(message.block_offset_counts):
        raise CorruptSegmentError(key, *at_footer, "the columns of a slice differ in length")
    if len(message.topic_id) != TOPIC_ID_SIZE or 0 in message.block_sizes:
        raise CorruptSegmentError(key, *at_footer, "a slice has no topic id or an empty block")
    try:
        return SegmentSlice(
            key,
            message.topic_id,
            message.partition,
            _sums(position, message.block_sizes),
            array("L", message.block_crcs),
            _sums(message.base_offset, message.block_offset_counts),
        )
    except OverflowError as error:
        raise CorruptSegmentError(
            key, *at_footer, "the offsets of a slice exceed 64 bits"
        ) from error


def _sums(first: int, steps: Sequence[int]) -> array[int]:
    total = first
    sums = array("q", [first])
    for step in steps:
        total += step
        sums.append(total)
    return sums
