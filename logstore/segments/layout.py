"""The bytes of a segment that are not batches, as values; all integers big-endian.

    header     magic 8, version u16, flags u16, lease_id u64, sequence u64,
               cluster_id (u8 size, bytes), CRC-32C u32 of all that
    slices     the batches of one partition after those of another, nothing between them
    footer     the message Footer of proto/segments/v1/segment.proto, lz4 block format
    trailer    footer position u64, footer size u32, its size decompressed u32, its CRC-32C u32,
               version u16, flags u16, magic 8, CRC-32C u32 of all that: 36 bytes

Every byte is covered by one of the checksums: header, blocks (in the footer), footer, trailer. A
reader begins at the end, since only the trailer has a known place: of an object whose end is
missing nothing is read.

Flags: bit 0: the batches carry true offsets.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import lz4.block
from google.protobuf.message import DecodeError

from logstore.records.crc import crc32c
from logstore.segments.paths import InvalidPathError, SegmentId, check_cluster_id
from logstore.segments.v1 import segment_pb2

VERSION = 1
MAX_BLOCK_SIZE = 256 * 1024
"""Bytes; a block is larger only if it is one batch."""
TOPIC_ID_SIZE = 16
HAS_TRUE_OFFSETS = 1
TRAILER_SIZE = 36

_MAGIC = b"LACUNA\x00\x53"
_END_MAGIC = b"\x53\x00ANUCAL"
_HEADER = struct.Struct(">8sHHQQB")
_TRAILER = struct.Struct(">QIIIHH8s")
_CRC = struct.Struct(">I")
_MAX_FOOTER_SIZE = 256 * 1024 * 1024


class CorruptSegmentError(Exception):
    """Bytes of an object that are not what was written. `position` and `size` are the bad range."""

    def __init__(self, key: str, position: int, size: int, reason: str) -> None:
        super().__init__(key, position, size, reason)  # as args, so that it can be pickled
        self.key = key
        self.position = position
        self.size = size
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"object {self.key!r}, {self.size} bytes at position {self.position}: {self.reason}; "
            "nothing of it was used: restore the object, or audit the bucket to see what is lost"
        )


@dataclass(frozen=True, slots=True)
class SegmentIdentity:
    """What header and footer both say of the whole segment."""

    cluster_id: str
    segment_id: SegmentId
    has_true_offsets: bool = False


@dataclass(frozen=True, slots=True)
class Trailer:
    """Where the footer is: positions and sizes in bytes."""

    footer_position: int
    footer_size: int
    footer_raw_size: int
    footer_crc: int
    has_true_offsets: bool


def header_size(cluster_id: str) -> int:
    """Bytes of the header, and so the position of the first slice."""
    return _HEADER.size + len(cluster_id) + _CRC.size


def encode_header(identity: SegmentIdentity) -> bytes:
    """The header of a segment that is about to be written."""
    cluster_id = check_cluster_id(identity.cluster_id).encode()
    fields = _HEADER.pack(
        _MAGIC,
        VERSION,
        HAS_TRUE_OFFSETS if identity.has_true_offsets else 0,
        identity.segment_id.lease_id,
        identity.segment_id.sequence,
        len(cluster_id),
    )
    return _with_crc(fields + cluster_id)


def check_header(key: str, identity: SegmentIdentity, header: bytes | bytearray) -> None:
    """Raise `CorruptSegmentError` unless these first bytes are the header of the same segment."""
    if header != encode_header(identity):
        raise CorruptSegmentError(key, 0, len(header), "the header is damaged or another segment's")


def encode_footer(identity: SegmentIdentity, slices: Sequence[segment_pb2.Slice]) -> bytes:
    """The footer, not compressed yet."""
    return segment_pb2.Footer(
        cluster_id=identity.cluster_id,
        lease_id=identity.segment_id.lease_id,
        sequence=identity.segment_id.sequence,
        has_true_offsets=identity.has_true_offsets,
        slices=slices,
    ).SerializeToString()


def encode_end(
    footer: bytes, footer_position: int, *, has_true_offsets: bool
) -> tuple[bytes, bytes]:
    """The compressed footer and the trailer behind it."""
    compressed = lz4.block.compress(footer, store_size=False)
    trailer = _TRAILER.pack(
        footer_position,
        len(compressed),
        len(footer),
        crc32c(compressed),
        VERSION,
        HAS_TRUE_OFFSETS if has_true_offsets else 0,
        _END_MAGIC,
    )
    return compressed, _with_crc(trailer)


def decode_trailer(key: str, object_size: int, data: bytes | bytearray | memoryview) -> Trailer:
    """The trailer from the last `TRAILER_SIZE` bytes of an object. Raises `CorruptSegmentError`."""
    position = object_size - TRAILER_SIZE
    if len(data) != TRAILER_SIZE or position < 0:
        raise CorruptSegmentError(key, 0, object_size, "the object is too short for a segment")

    def corrupt(reason: str) -> CorruptSegmentError:
        return CorruptSegmentError(key, position, TRAILER_SIZE, reason)

    footer_position, size, raw_size, crc, version, flags, magic = _TRAILER.unpack_from(data)
    if magic != _END_MAGIC:
        raise corrupt("the object does not end as a segment does: it is truncated or damaged")
    if crc32c(data[: _TRAILER.size]) != _CRC.unpack_from(data, _TRAILER.size)[0]:
        raise corrupt("the checksum of the trailer does not match")
    if version != VERSION or flags & ~HAS_TRUE_OFFSETS:
        raise corrupt(f"segment version {version}, flags {flags:#x}: written by a newer Lacuna")
    if footer_position + size != position or raw_size > _MAX_FOOTER_SIZE:
        raise corrupt("the trailer does not fit the object: a part in between is missing")
    return Trailer(footer_position, size, raw_size, crc, bool(flags & HAS_TRUE_OFFSETS))


def decode_footer(
    key: str, trailer: Trailer, data: bytes | bytearray | memoryview
) -> tuple[SegmentIdentity, Sequence[segment_pb2.Slice]]:
    """The footer from the bytes that the trailer points to. Raises `CorruptSegmentError`."""

    def corrupt(reason: str) -> CorruptSegmentError:
        return CorruptSegmentError(key, trailer.footer_position, trailer.footer_size, reason)

    if len(data) != trailer.footer_size or crc32c(data) != trailer.footer_crc:
        raise corrupt("the checksum of the footer does not match")
    try:
        raw = lz4.block.decompress(data, uncompressed_size=trailer.footer_raw_size)
        footer = segment_pb2.Footer.FromString(raw)
        identity = SegmentIdentity(
            check_cluster_id(footer.cluster_id),
            SegmentId(footer.lease_id, footer.sequence),
            footer.has_true_offsets,
        )
    except (lz4.block.LZ4BlockError, DecodeError, InvalidPathError) as error:
        raise corrupt(f"the footer cannot be read ({error})") from error
    return identity, footer.slices


def _with_crc(fields: bytes) -> bytes:
    return fields + _CRC.pack(crc32c(fields))
