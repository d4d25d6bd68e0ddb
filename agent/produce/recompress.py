"""compression.type: a batch of another codec is compressed anew before it is stored, as a Kafka broker does.

Only the codec is compared, never the level: a batch of the right codec keeps its bytes. Levels are Kafka's
numbers; where our library has no such level the nearest one stands for it. It takes up to seconds (a batch of
1 MiB may hold 64 MiB), so the service has a thread do it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controlplane.topic_configs import TOPIC_CONFIGS, effective
from logstore.records.batch import BatchHeader, RecordBatch
from logstore.records.compression import compress
from logstore.records.errors import BatchTooLargeError
from logstore.records.layout import CODEC_MASK, Codec
from logstore.records.packing import pack_batch
from logstore.records.validate import ProduceRules

_CODECS: Final[Mapping[str, Codec]] = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
# lz4 has its slow, better compression from level 3 on; Kafka's default, 9, is its name for the fast one.
_LZ4_LEVELS: Final = range(3, 13)
_SMALLEST_ZSTD_LEVEL: Final = 1


@dataclass(frozen=True, slots=True)
class Compression:
    """What batches of a topic are stored in. `level` is logstore's, None for the codec's default."""

    codec: Codec
    level: int | None = None

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> "Compression | None":
        """From a topic's configs; None where batches keep their producer's codec."""
        codec = _CODECS.get(effective(configs, "compression.type"))
        return None if codec is None else cls(codec, _level(configs, codec))


def _level(configs: Mapping[str, str], codec: Codec) -> int | None:
    name = f"compression.{codec.name.lower()}.level"
    if name not in TOPIC_CONFIGS or effective(configs, name) == TOPIC_CONFIGS[name].default:
        return None
    level = int(effective(configs, name))
    if codec is Codec.LZ4:
        return min(max(level, _LZ4_LEVELS[0]), _LZ4_LEVELS[-1])
    return max(level, _SMALLEST_ZSTD_LEVEL) if codec is Codec.ZSTD else level


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
