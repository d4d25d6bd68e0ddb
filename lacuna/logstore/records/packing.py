"""Makes a batch from a records section by adding the header and the CRC-32C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crc32c import crc32c

from lacuna.logstore.records.layout import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer


def pack_batch(
    section: Buffer,
    *,
    base_offset: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = 0,
) -> bytes:
    """Return the batch with the given records section, which must already be compressed according to `attributes`."""
    header = HEADER.pack(
        base_offset,
        HEADER_SIZE - LOG_OVERHEAD + memoryview(section).nbytes,
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    covered = header[ATTRIBUTES_AT:]
    crc = crc32c(section, crc32c(covered)).to_bytes(4, "big")
    return b"".join((header[:CRC_AT], crc, covered, section))


def with_crc(batch: bytearray) -> bytes:
    batch[CRC_AT:ATTRIBUTES_AT] = crc32c(memoryview(batch)[ATTRIBUTES_AT:]).to_bytes(4, "big")
    return bytes(batch)
