"""compression.type: batches in a different codec are recompressed before they are stored, as on a Kafka broker.

Only the codec is compared, never the level, so a batch with the right codec keeps its bytes. Levels are numbered as in
Kafka. If the compression library lacks a level, the nearest one is used. Recompressing may take seconds (a batch of 1
MiB may hold 64 MiB of records), so the service does it in a thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lacuna.controlplane.shared.topic_configs import stored_compression
from lacuna.logstore.records.batch import BatchHeader, RecordBatch
from lacuna.logstore.records.compression import Compression, compress
from lacuna.logstore.records.errors import BatchTooLargeError, DecompressedTooLargeError
from lacuna.logstore.records.layout import CODEC_MASK
from lacuna.logstore.records.packing import pack_batch
from lacuna.logstore.records.validate import ProduceRules


def compression_of(configs: Mapping[str, str]) -> Compression | None:
    """Return the compression in which a topic's batches are stored, or None if they keep their producer's codec."""
    found = stored_compression(configs)
    return None if found is None else Compression.of_kafka(*found)


@dataclass(frozen=True, slots=True)
class Recompression:
    """The recompression that a checked batch still needs under the topic's rules."""

    target: Compression
    rules: ProduceRules

    def apply(self, batch: memoryview | bytes) -> bytes:
        """Return the batch to store. Raises a RecordsError if it cannot be recompressed or becomes too large."""
        part = recompressed(batch, self.target, self.rules.max_decompressed_bytes)
        if len(part) > self.rules.max_message_bytes:
            raise BatchTooLargeError("the batch", len(part), self.rules.max_message_bytes)
        return part


def recompressed(batch: memoryview | bytes, target: Compression, max_bytes: int) -> bytes:
    """Return a checked batch with its records in the codec of `target`, and everything else unchanged.

    `max_bytes` bounds the decompressed records. Raises a RecordsError, as `decompress` does.
    """
    header = BatchHeader.parse(batch)
    section = RecordBatch(header, memoryview(batch)).section(max_bytes)
    if (
        len(section) > max_bytes
    ):  # the batch arrived uncompressed, and no reader would decompress so much
        raise DecompressedTooLargeError(max_bytes)
    return pack_batch(
        compress(target.codec, section, target.level),
        base_offset=header.base_offset,
        attributes=header.attributes & ~CODEC_MASK | target.codec,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        record_count=header.record_count,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        partition_leader_epoch=header.partition_leader_epoch,
    )
