"""Encodes and decodes the parts of a segment other than batches. All integers are big-endian.

    header     magic 8, version u16, flags u16, lease_id u64, sequence u64,
               cluster_id (u8 size, bytes), CRC-32C u32 of all before it
    slices     the batches of one partition after another, with nothing in between
    footer     the message Footer of proto/segments/v1/segment.proto, lz4 block format
    trailer    footer position u64, footer size u32, its size decompressed u32, its CRC-32C u32,
               version u16, flags u16, magic 8, CRC-32C u32 of all before it: 36 bytes

Checksums cover every byte: of the header, of each block (stored in the footer), of the footer and of the trailer. A
reader begins with the trailer, the only part whose position it knows, and so rejects an object whose end is missing.

Bit 0 of the flags is set if the batches contain true offsets.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import lz4.block
from crc32c import crc32c
from google.protobuf.message import DecodeError

from lacuna.logstore.segments.paths import InvalidPathError, SegmentId, check_cluster_id
from lacuna.logstore.segments.v1 import segment_pb2

VERSION = 1
MAX_BLOCK_SIZE = 256 * 1024
"""In bytes. Only a block that consists of a single batch may be larger."""
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
    """An object's bytes differ from those written; `position` and `size` locate the damage."""

    def __init__(self, key: str, position: int, size: int, reason: str) -> None:
        super().__init__(key, position, size, reason)  # as args, so that it can be pickled
        self.key = key
        self.position = position
        self.size = size
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"object {self.key!r}, {self.size} bytes at position {self.position}: {self.reason}. "
            "None of these bytes were used: restore the object, or run `lacuna verify` to see what is lost"
        )


@dataclass(frozen=True, slots=True)
class SegmentIdentity:
    """The identity of a segment, which is stored in its header and in its footer."""

    cluster_id: str
    segment_id: SegmentId
    has_true_offsets: bool = False


@dataclass(frozen=True, slots=True)
class Trailer:
    footer_position: int
    footer_size: int
    footer_raw_size: int
    footer_crc: int
    has_true_offsets: bool


def header_size(cluster_id: str) -> int:
    """Return the size of the header in bytes, which is also the position of the first slice."""
    return _HEADER.size + len(cluster_id) + _CRC.size


def encode_header(identity: SegmentIdentity) -> bytes:
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


def encode_footer(
    identity: SegmentIdentity, slices: Sequence[segment_pb2.Slice], journal_position: int = 0
) -> bytes:
    """Return the footer, uncompressed. The writer knows that the journal is durable up to `journal_position`."""
    return segment_pb2.Footer(
        journal_position=journal_position,
        cluster_id=identity.cluster_id,
        lease_id=identity.segment_id.lease_id,
        sequence=identity.segment_id.sequence,
        has_true_offsets=identity.has_true_offsets,
        slices=slices,
    ).SerializeToString()


def encode_end(
    footer: bytes, footer_position: int, *, has_true_offsets: bool
) -> tuple[bytes, bytes]:
    """Return the compressed footer and the trailer."""
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
    """Decode the trailer, the last `TRAILER_SIZE` bytes of an object. Raises `CorruptSegmentError`."""
    position = object_size - TRAILER_SIZE
    if len(data) != TRAILER_SIZE or position < 0:
        raise CorruptSegmentError(key, 0, object_size, "the object is too short for a segment")

    def corrupt(reason: str) -> CorruptSegmentError:
        return CorruptSegmentError(key, position, TRAILER_SIZE, reason)

    footer_position, size, raw_size, crc, version, flags, magic = _TRAILER.unpack_from(data)
    if magic != _END_MAGIC:
        raise corrupt("the object does not end like a segment, so it is truncated or damaged")
    if crc32c(data[: _TRAILER.size]) != _CRC.unpack_from(data, _TRAILER.size)[0]:
        raise corrupt("the checksum of the trailer does not match")
    if version != VERSION or flags & ~HAS_TRUE_OFFSETS:
        raise corrupt(
            f"it has segment version {version} and flags {flags:#x}, so a newer version of Lacuna "
            "wrote it: use that version"
        )
    if footer_position + size != position or raw_size > _MAX_FOOTER_SIZE:
        raise corrupt("the trailer does not fit the object, so a part in the middle is missing")
    return Trailer(footer_position, size, raw_size, crc, bool(flags & HAS_TRUE_OFFSETS))


def decode_footer(
    key: str, trailer: Trailer, data: bytes | bytearray | memoryview
) -> tuple[SegmentIdentity, segment_pb2.Footer]:
    """Decode the footer from the bytes that the trailer locates. Raises `CorruptSegmentError`."""

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
    return identity, footer


def _with_crc(fields: bytes) -> bytes:
    return fields + _CRC.pack(crc32c(fields))
