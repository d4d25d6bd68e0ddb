"""Encodes and decodes the objects of a metadata snapshot.

    part     partitions back to back: each a PartitionDelta with all extents, as a zstd frame
    index    magic 8, CRC-32C u32 of the rest, MetadataIndex as a zstd frame

To detect damage, the index contains a checksum for each partition in a part.
"""

import struct
from typing import Final

from crc32c import crc32c
from google.protobuf.message import DecodeError

from lacuna.controlplane.shared.extents import DeadRanges, ExtentTable
from lacuna.controlplane.shared.history import History
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.log_pb2 import MetadataIndex, PartitionDelta, StoredPartition
from lacuna.logstore.records.compression import compress, decompress
from lacuna.logstore.records.errors import RecordsError
from lacuna.logstore.records.layout import Codec
from lacuna.pipeline.errors import DamagedDataError
from lacuna.pipeline.extents import PartitionLog

MAX_INDEX_BYTES: Final = 256 << 20
MAX_PARTITION_BYTES: Final = 2 << 30

_MAGIC: Final = b"LACUNA\x00\x4d"
_CRC: Final = struct.Struct(">I")


def encode_partition(log: PartitionLog) -> bytes:
    """Returns a partition as a compressed PartitionDelta."""
    delta = PartitionDelta(
        partition=TopicPartition(topic_id=log.topic_id, partition=log.partition),
        version=log.version,
        is_snapshot=True,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        vacated_to=log.vacated_to,
        dead=log.dead.pairs(),
        extents=log.extents.columns(),
        history=None if log.history is None else log.history.message(),
        cut_offset=log.cut,
    )
    return compress(Codec.ZSTD, delta.SerializeToString())


def stored_partition(log: PartitionLog, part: int, position: int, data: bytes) -> StoredPartition:
    """Returns the index entry of a partition that is encoded as `data`, at byte `position` of part number `part`."""
    return StoredPartition(
        partition=TopicPartition(topic_id=log.topic_id, partition=log.partition),
        part=part,
        position=position,
        size=len(data),
        crc=crc32c(data),
    )


def decode_partition(key: str, topic: str, stored: StoredPartition, data: bytes) -> PartitionLog:
    """Decodes a partition of the topic named `topic`. Raises DamagedDataError, which names the part `key`."""
    if crc32c(data) != stored.crc:
        raise _damaged(key, stored.position, len(data), "the checksum does not match")
    raw = decompress(Codec.ZSTD, data, MAX_PARTITION_BYTES)
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
        vacated_to=delta.vacated_to,
        history=History.of(delta.history),
        cut=delta.cut_offset if delta.HasField("cut_offset") else None,
    )


def encode_index(index: MetadataIndex) -> bytes:
    body = compress(Codec.ZSTD, index.SerializeToString())
    return _MAGIC + _CRC.pack(crc32c(body)) + body


def decode_index(key: str, data: bytes) -> MetadataIndex:
    """Decodes an index. Raises DamagedDataError, which names the object `key`."""
    start = len(_MAGIC) + _CRC.size
    body = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : start] != _CRC.pack(crc32c(body)):
        raise _damaged(key, 0, len(data), "it is not a metadata index, or its checksum is wrong")
    try:
        raw = decompress(Codec.ZSTD, body, MAX_INDEX_BYTES)
        return MetadataIndex.FromString(raw)
    except (RecordsError, DecodeError) as error:
        raise _damaged(key, 0, len(data), f"it cannot be read ({error})") from error


def _damaged(key: str, position: int, size: int, reason: str) -> DamagedDataError:
    return DamagedDataError(
        f"object {key!r}, {size} bytes at position {position}: {reason}; publish a new snapshot with "
        "`lacuna metadata publish`, or use the control plane (metadata=control)"
    )
