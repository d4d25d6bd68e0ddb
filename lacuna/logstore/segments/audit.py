"""Checks every byte of a segment, in bounded memory, and locates damage.

Whereas a reader stops at the first fault, an audit continues, to find everything that is still intact. It returns
batches as it finds them, regardless of damage elsewhere.

    for part in audit_segment(store, key, object_size):
        part.damages            # the damage within the bytes [part.position, part.position + part.size)
        part.batches            # the undamaged batches of the part

If the footer cannot be read, `audit_batches` checks ranges whose positions are known from elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from crc32c import crc32c

from lacuna.logstore.objects import ObjectStore, ShortReadError
from lacuna.logstore.records.batch import BatchHeader, RecordBatch
from lacuna.logstore.records.columns import ColumnBuilder
from lacuna.logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES
from lacuna.logstore.records.errors import (
    CorruptBatchError,
    InvalidRecordError,
    RecordsError,
    TruncatedBatchError,
)
from lacuna.logstore.records.kernel import validate_records
from lacuna.logstore.records.layout import HEADER_SIZE, TimestampType
from lacuna.logstore.segments.layout import (
    MAX_BLOCK_SIZE,
    TRAILER_SIZE,
    CorruptSegmentError,
    SegmentIdentity,
    Trailer,
    decode_trailer,
    encode_header,
)
from lacuna.logstore.segments.mending import find_wrong_byte, find_wrong_byte_and_crc, mend
from lacuna.logstore.segments.paths import parse_segment_key
from lacuna.logstore.segments.reader import TAIL_SIZE, SegmentFooter, SegmentSlice, parse_end

READ_BYTES: Final = 8 << 20
"""The number of bytes that are read at a time, unless one block is larger."""
_SEARCHED_BYTES: Final = 1 << 20
"""In a damaged range larger than this, the audit does not look for a single wrong byte, because the search takes too
long.
"""


_Batches: TypeAlias = list[tuple[int, BatchHeader]]


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage within `size` bytes at `position` of the object, described by `reason`."""

    position: int
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class AuditedPart:
    """The findings for a range of bytes. `found` is the slice that contains the range, or None if no slice does.

    `batches` contains the undamaged batches as (position, header). `footer` is set in the first part, if it can be
    read.
    """

    position: int
    size: int
    found: SegmentSlice | None
    batches: _Batches
    damages: list[Damage]
    footer: SegmentFooter | None = None


def audit_segment(
    store: ObjectStore,
    key: str,
    object_size: int,
    *,
    reads_records: bool = True,
    read_bytes: int = READ_BYTES,
    whole: bytearray | None = None,
) -> Iterator[AuditedPart]:
    """Audit a segment part by part, in order. The first part consists of the segment's header and its end.

    If the end cannot be read, there is only the first part, without a `footer`. If `reads_records` is false, records
    are neither decompressed nor parsed. `whole` is the whole object, if the caller has already read it. Raises the
    store's errors.
    """
    source = _Source(store, key, object_size, read_bytes, whole)
    footer, damages = _read_end(source, key, object_size)
    if footer is None:
        damages = [*_header_damages(source, key, _possible_identities(key)), *damages]
        yield AuditedPart(0, object_size, None, [], damages)
        return
    damages = [*_header_damages(source, key, [footer.identity]), *damages]
    yield AuditedPart(0, footer.slices[0].position, None, [], damages, footer)
    for found in footer.slices:
        checker = _SliceChecker(found, footer.identity.has_true_offsets, reads_records)
        ranges = _groups(found, read_bytes)
        for position, data in source.get_each(key, ranges):
            yield checker.check(position, data)


def audit_batches(
    store: ObjectStore, key: str, position: int, size: int, *, reads_records: bool = True
) -> AuditedPart:
    """Audit a range that begins with a batch, using only the batches' own checksums.

    These do not cover a batch's base_offset and partition_leader_epoch. Raises the store's errors, including
    ShortReadError if the object ends within the range.
    """
    data = memoryview(store.get(key, position, size))
    batches, damages = _walk(position, data, reads_records)
    return AuditedPart(position, size, None, batches, damages)


class _Source:
    """Reads ranges of one object. An object of at most `read_bytes` bytes is read only once, as a whole."""

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        object_size: int,
        read_bytes: int,
        whole: bytearray | None,
    ) -> None:
        self._store = store
        self._whole = whole
        if whole is None and 0 < object_size <= read_bytes:
            try:
                self._whole = store.get(key, 0, object_size)
            except ShortReadError:  # the object is shorter, as reading its end will show
                self._whole = None

    def get(self, key: str, position: int, size: int) -> bytearray | memoryview:
        if self._whole is None:
            return self._store.get(key, position, size)
        return memoryview(self._whole)[position : position + size]

    def get_each(
        self, key: str, ranges: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[int, bytearray | memoryview]]:
        """Yield the position and bytes of each range, and read the next range while the caller processes this one."""
        if self._whole is not None:
            for position, size in ranges:
                yield position, self.get(key, position, size)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="audit") as executor:
            coming: deque[tuple[int, Future[bytearray | memoryview]]] = deque()
            for position, size in ranges:
                coming.append((position, executor.submit(self.get, key, position, size)))
                if len(coming) > 1:
                    position, read = coming.popleft()
                    yield position, read.result()
            for position, read in coming:
                yield position, read.result()


def _possible_identities(key: str) -> list[SegmentIdentity]:
    cluster_id, segment_id = parse_segment_key(key)
    return [
        SegmentIdentity(cluster_id, segment_id, has_true_offsets)
        for has_true_offsets in (False, True)
    ]


def _header_damages(
    source: _Source, key: str, identities: Sequence[SegmentIdentity]
) -> list[Damage]:
    candidates = [encode_header(identity) for identity in identities]
    size = len(candidates[0])
    try:
        header = bytes(source.get(key, 0, size))
    except ShortReadError as error:
        return [Damage(error.position, error.size, "the object is truncated")]
    if header in candidates:
        return []
    wrong = min(
        (
            [at for at in range(size) if header[at : at + 1] != each[at : at + 1]]
            for each in candidates
        ),
        key=len,
    )
    reason = "the header is damaged or belongs to another segment"
    if len(wrong) == 1:
        return [Damage(wrong[0], 1, f"{reason}: one byte is wrong")]
    return [Damage(wrong[0], wrong[-1] + 1 - wrong[0], reason)]


def _read_end(
    source: _Source, key: str, object_size: int
) -> tuple[SegmentFooter | None, list[Damage]]:
    """Return the footer and any damage. A single wrong byte in the footer or the trailer is corrected."""
    tail_size = min(object_size, TAIL_SIZE)
    try:
        tail = bytes(source.get(key, object_size - tail_size, tail_size)) if tail_size else b""
        trailer = decode_trailer(key, object_size, tail[-TRAILER_SIZE:])
    except ShortReadError as error:
        return None, [Damage(error.position, error.size, "the object is truncated")]
    except CorruptSegmentError as error:
        return _mend_trailer(source, error, object_size, tail[-TRAILER_SIZE:])
    return _read_footer(source, key, object_size, trailer, tail[-TRAILER_SIZE:])


def _mend_trailer(
    source: _Source, error: CorruptSegmentError, object_size: int, tail: bytes
) -> tuple[SegmentFooter | None, list[Damage]]:
    damage = Damage(error.position, error.size, error.reason)
    wrong = find_wrong_byte_and_crc(tail) if len(tail) == TRAILER_SIZE else None
    if wrong is None:
        return None, [damage]
    mended = mend(tail, wrong)
    try:
        trailer = decode_trailer(error.key, object_size, mended)
    except CorruptSegmentError:
        return None, [damage]
    footer, damages = _read_footer(source, error.key, object_size, trailer, mended)
    exact = Damage(error.position + wrong.position, 1, f"the trailer is damaged: {wrong}")
    return (None, [damage, *damages]) if footer is None else (footer, [exact, *damages])


def _read_footer(
    source: _Source, key: str, object_size: int, trailer: Trailer, tail: bytes
) -> tuple[SegmentFooter | None, list[Damage]]:
    position, size = trailer.footer_position, trailer.footer_size
    if not size:
        return None, [
            Damage(
                object_size - TRAILER_SIZE,
                TRAILER_SIZE,
                "according to the trailer, the footer is empty",
            )
        ]
    data = bytes(source.get(key, position, size))
    try:
        return parse_end(key, object_size, data + tail), []
    except CorruptSegmentError as error:
        damage = Damage(error.position, error.size, error.reason)
    wrong = find_wrong_byte(data, trailer.footer_crc) if size <= _SEARCHED_BYTES else None
    if wrong is None:
        return None, [damage]
    try:
        footer = parse_end(key, object_size, mend(data, wrong) + tail)
    except CorruptSegmentError:
        return None, [damage]
    return footer, [Damage(position + wrong.position, 1, f"the footer is damaged: {wrong}")]


def _groups(found: SegmentSlice, read_bytes: int) -> Iterator[tuple[int, int]]:
    """Group consecutive blocks into ranges (position, size) of at most `read_bytes`, unless one block is larger."""
    edges = found.block_positions
    start = edges[0]
    for before, edge in pairwise(edges):
        if edge - start > read_bytes and before > start:
            yield start, before - start
            start = before
    yield start, edges[-1] - start


class _SliceChecker:
    def __init__(self, found: SegmentSlice, has_true_offsets: bool, reads_records: bool) -> None:
        self._found = found
        self._has_true_offsets = has_true_offsets
        self._reads_records = reads_records
        self._block = 0
        self._next_offset: int | None = found.block_offsets[0]

    def check(self, position: int, data: bytearray | memoryview) -> AuditedPart:
        """Check the blocks in `data`, which begins at `position`, where the previous call's data ended."""
        view = memoryview(data)
        part = AuditedPart(position, len(view), self._found, [], [])
        edges = self._found.block_positions
        while self._block < len(edges) - 1 and edges[self._block] < position + len(view):
            start, end = edges[self._block], edges[self._block + 1]
            self._check_block(start, view[start - position : end - position], part)
            self._block += 1
        return part

    def _check_block(self, position: int, block: memoryview, part: AuditedPart) -> None:
        batches, damages = _walk(position, block, self._reads_records)
        expected_crc = self._found.block_crcs[self._block]
        if crc32c(block) != expected_crc:
            damage, batches = _block_damage(position, block, expected_crc, batches, damages)
            if self._has_true_offsets and damage.size > 1:
                batches = []  # their own checksums do not cover their offsets
            damages = [damage]
        elif not damages:
            damages = self._index_damages(position, block, batches)
        if damages:
            self._next_offset = (
                None  # only the footer has the offset at which the next block begins
            )
        part.batches.extend(batches)
        part.damages.extend(damages)

    def _index_damages(self, position: int, block: memoryview, batches: _Batches) -> list[Damage]:
        """Return a Damage for each way in which the batches of an intact block contradict the footer."""
        found, index = self._found, self._block
        first_offset = found.block_offsets[index]
        reasons = []
        if len(block) > MAX_BLOCK_SIZE and len(batches) > 1:
            reasons.append(f"it has more than {MAX_BLOCK_SIZE} bytes and more than one batch")
        owners = {
            (header.producer_id, header.producer_epoch)
            for _, header in batches
            if header.is_transactional
        }
        if len(owners) > 1:
            reasons.append("it holds batches of two transactional producers")
        next_offset = first_offset if self._next_offset is None else self._next_offset
        if self._has_true_offsets:
            if batches[0][1].base_offset != first_offset:
                reasons.append("its first offset is not the one in the footer")
            next_offset, is_ascending = _ascend(batches)
            if not is_ascending or next_offset > found.block_offsets[index + 1]:
                reasons.append("its offsets are out of order")
        else:
            if next_offset != first_offset:
                reasons.append("its first offset is not the one in the footer")
            next_offset += sum(header.last_offset_delta + 1 for _, header in batches)
        is_last = index == len(found.block_crcs) - 1
        if next_offset != found.block_offsets[index + 1] and (
            is_last or not self._has_true_offsets
        ):
            reasons.append("it does not end at the offset given in the footer")
        self._next_offset = next_offset
        return [Damage(position, len(block), f"block: {reason}") for reason in reasons]


def _ascend(batches: _Batches) -> tuple[int, bool]:
    """Return the offset that follows the batches, which have true offsets, and whether their offsets ascend."""
    next_offset = -1
    for _, header in batches:
        if header.base_offset < next_offset:
            return next_offset, False
        next_offset = header.next_offset
    return next_offset, True


def _block_damage(
    position: int, block: memoryview, expected_crc: int, batches: _Batches, damages: list[Damage]
) -> tuple[Damage, _Batches]:
    """Return the damage in a block with a wrong checksum, and its intact batches.

    The damage is a single byte if one is found and the batches' checksums confirm it. Otherwise, it is the whole block,
    since the batches' checksums do not cover all of it.
    """
    reason = "the checksum of the block does not match"
    wrong = find_wrong_byte(block, expected_crc) if len(block) <= _SEARCHED_BYTES else None
    if wrong is not None:
        mended, still_wrong = _walk(position, memoryview(mend(block, wrong)), False)
        at = position + wrong.position
        if not still_wrong:
            whole = [
                (start, header) for start, header in mended if not start <= at < start + header.size
            ]
            return Damage(at, 1, f"{reason}: {wrong}"), whole
    bad = ", ".join(f"{each.size} bytes at {each.position} ({each.reason})" for each in damages[:3])
    more = f" and {len(damages) - 3} more" if len(damages) > 3 else ""
    told = f"{reason}; batches: {bad}{more}" if bad else reason
    return Damage(position, len(block), told), batches


def _walk(position: int, data: memoryview, reads_records: bool) -> tuple[_Batches, list[Damage]]:
    """Return the intact batches in a range, and the damage between them."""
    batches: _Batches = []
    damages: list[Damage] = []
    at = 0
    while at < len(data):
        try:
            header = BatchHeader.parse(data, at)
            if at + header.size > len(data):
                raise TruncatedBatchError(at, header.size)
        except (CorruptBatchError, TruncatedBatchError):
            damages.append(
                Damage(position + at, len(data) - at, "no batch begins where one is expected")
            )
            break
        reason = _fault_of(RecordBatch(header, data[at : at + header.size]), reads_records)
        if reason:
            damages.append(Damage(position + at, header.size, reason))
        else:
            batches.append((position + at, header))
        at += header.size
    return batches, damages


def _fault_of(batch: RecordBatch, reads_records: bool) -> str:
    header = batch.header
    try:
        batch.verify()
        if (
            header.last_offset_delta < 0
            or not 0 <= header.record_count <= header.last_offset_delta + 1
        ):
            return f"{header.record_count} records for {header.last_offset_delta + 1} offsets"
        if header.is_control:
            return "a control batch, which is never stored"
        if reads_records:
            return _fault_of_records(batch)
    except RecordsError as error:
        return f"batch: {error}"
    return ""


def _fault_of_records(batch: RecordBatch) -> str:
    """Return how a batch's records contradict the header's count, offsets or timestamps, or "" if they do not."""
    header = batch.header
    if header.record_count == header.last_offset_delta + 1:
        section = batch.section() if header.codec else batch.data[HEADER_SIZE:]
        times = validate_records(section, header.record_count, header.base_timestamp, False)
        newest, is_right = times.max_timestamp, times.max_timestamp == header.max_timestamp
    else:
        count, newest = _read_sparse(batch)
        if count != header.record_count:
            return f"batch: {count} records, but its header states {header.record_count}"
        is_right = newest <= header.max_timestamp
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME or is_right:
        return ""
    return (
        f"batch: its max_timestamp is {header.max_timestamp}, but that of its records is {newest}"
    )


def _read_sparse(batch: RecordBatch) -> tuple[int, int]:
    builder = ColumnBuilder(
        keys=False, values=False, max_decompressed_bytes=DEFAULT_MAX_DECOMPRESSED_BYTES
    )
    found = [*builder.read(batch.data)]
    rest = builder.take()
    if rest is not None:
        found.append(rest)
    count = sum(columns.count for columns in found)
    if count and found[-1].offsets[-1] > batch.header.last_offset:
        raise InvalidRecordError("a record lies beyond the last offset of its batch")
    return count, max((max(columns.timestamps) for columns in found if columns.count), default=-1)
