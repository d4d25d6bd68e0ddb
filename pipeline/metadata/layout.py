"""The bytes of a metadata snapshot, as values.

    part     partitions one behind the other: each a PartitionDelta with all extents, a zstd frame
    index    magic 8, CRC-32C u32 of the rest, MetadataIndex as a zstd frame

A part is found damaged by the checksums in the index.
"""

import struct
from typing import Final

import zstandard
from google.protobuf.message import DecodeError

from controlplane.extents import DeadRanges, ExtentTable
from controlplane.v1.cluster_pb2 import TopicPartition
from controlplane.v1.log_pb2 import PartitionDelta
from controlplane.v1.metadata_pb2 import MetadataIndex, StoredPartition
from logstore.records.crc import crc32c
from pipeline.errors import DamagedDataError
from pipeline.extents import PartitionLog

MAX_INDEX_BYTES: Final = 256 << 20
MAX_PARTITION_BYTES: Final = 2 << 30

_MAGIC: Final = b"LACUNA\x00\x4d"
_CRC: Final = struct.Struct(">I")


def encode_partition(log: PartitionLog) -> bytes:
    """One partition, compressed."""
    delta = PartitionDelta(
        partition=TopicPartition(topic_id=log.topic_id, partition=log.partition),
        version=log.version,
        is_snapshot=True,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        dead=log.dead.pairs(),
        extents=log.extents.columns(),
    )
    return zstandard.ZstdCompressor().compress(delta.SerializeToString())


def stored_partition(log: PartitionLog, part: int, position: int, data: bytes) -> StoredPartition:
    """Where `data`, what `encode_partition` gave, stands."""
    return StoredPartition(
        partition=TopicPartition(topic_id=log.topic_id, partition=log.partition),
        part=part,
        position=position,
        size=len(data),
        crc=crc32c(data),
    )


def decode_partition(key: str, topic: str, stored: StoredPartition, data: bytes) -> PartitionLog:
    """The inverse; `key` names the part, for errors. Raises DamagedDataError."""
    if crc32c(data) != stored.crc:
        raise _damaged(key, stored.position, len(data), "the checksum does not match")
    raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_PARTITION_BYTES)
    delta = PartitionDelta.FromString(raw)
    return PartitionLog(
        topic=topic,
        topic_id=stored.partition.topic_id,
        partition=stored.partition.partition,
        version=delta.version,
        log_start_offset=delta.log_start_offset,
        last_stable_offset=delta.last_stable_offset,
        high_watermark=delta.high_watermark,
        extents=ExtentTable.from_columns(delta.extents),
        dead=DeadRanges.from_pairs(delta.dead),
    )


def encode_index(index: MetadataIndex) -> bytes:
    """The whole object."""
    body = zstandard.ZstdCompressor().compress(index.SerializeToString())
    return _MAGIC + _CRC.pack(crc32c(body)) + body


def decode_index(key: str, data: bytes) -> MetadataIndex:
    """The inverse. Raises DamagedDataError."""
    start = len(_MAGIC) + _CRC.size
    body = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != _CRC.pack(crc32c(body)):
        raise _damaged(key, 0, len(data), "it is no index of metadata, or its checksum is wrong")
    try:
        raw = zstandard.ZstdDecompressor().decompress(body, max_output_size=MAX_INDEX_BYTES)
        return MetadataIndex.FromString(raw)
    except (zstandard.ZstdError, DecodeError) as error:
        raise _damaged(key, 0, len(data), f"it cannot be read ({error})") from error


def _damaged(key: str, position: int, size: int, reason: str) -> DamagedDataError:
    return DamagedDataError(
        f"object {key!r}, {size} bytes at position {position}: {reason}; publish a new snapshot with "
        "`lacuna metadata publish`, or ask the control plane (metadata=control)"
    )
