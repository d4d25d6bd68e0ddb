"""compression.type: a batch of another codec is compressed anew before it is stored, as a Kafka broker does.

Only the codec is compared, never the level: a batch of the right codec keeps its bytes. Levels are Kafka's
numbers; where our library has no such level the nearest one stands for it. It takes up to seconds (a batch of
1 MiB may hold 64 MiB), so the service has a thread do it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.topic_configs import stored_compression
from logstore.records.batch import BatchHeader, RecordBatch
from logstore.records.compression import Compression, compress
from logstore.records.errors import BatchTooLargeError, DecompressedTooLargeError
from logstore.records.layout import CODEC_MASK
from logstore.records.packing import pack_batch
from logstore.records.validate import ProduceRules


def compression_of(configs: Mapping[str, str]) -> Compression | None:
    """What batches of a topic are stored in; None where they keep their producer's codec."""
    found = stored_compression(configs)
    return None if found is None else Compression.of_kafka(*found)


@dataclass(frozen=True, slots=True)
class Recompression:
    """What is left to do with a checked batch: another codec, within the topic's rules."""

    target: Compression
    rules: ProduceRules

    def apply(self, batch: memoryview | bytes) -> bytes:
        """The batch to store. As in Kafka its size counts before and after: raises a RecordsError."""
        part = recompressed(batch, self.target, self.rules.max_decompressed_bytes)
        if len(part) > self.rules.max_message_bytes:
            raise BatchTooLargeError("the batch", len(part), self.rules.max_message_bytes)
        return part


def recompressed(batch: memoryview | bytes, target: Compression, max_bytes: int) -> bytes:
    """A checked batch with its records under the codec of `target`; all else stays.

    `max_bytes` bounds the decompressed records. Raises a RecordsError as `decompress`.
    """
    header = BatchHeader.parse(batch)
    section = RecordBatch(header, memoryview(batch)).section(max_bytes)
    if len(section) > max_bytes:  # it came uncompressed, and nobody could decompress it
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
