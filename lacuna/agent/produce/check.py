"""Decides which batches may enter the log (S11), based on the form of their records and the topic's configs.

A fault in one batch is an error only for the batch's partition. The request's other batches are kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Final

from lacuna.agent.produce.buffer import LateCheck, PendingBatch
from lacuna.agent.produce.joins import FIRST_IMPLICIT_ADD
from lacuna.agent.produce.recompress import Recompression, compression_of
from lacuna.controlplane.shared.batches import (
    FLAG_ADDS_PARTITION,
    FLAG_LOG_APPEND_TIME,
    FLAG_TRANSACTIONAL,
)
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import effective, is_compacted
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.logstore.records.batch import BatchHeader
from lacuna.logstore.records.compression import Compression
from lacuna.logstore.records.errors import InvalidRecordError, KafkaErrorName, RecordsError
from lacuna.logstore.records.layout import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    RECORD_COUNT_AT,
    BatchSummary,
    TimestampType,
)
from lacuna.logstore.records.validate import (
    ProduceRules,
    validate_produced,
    with_max_timestamp,
)
from lacuna.wire.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse

_FIRST_ZSTD: Final = 7
# A batch with more records, or with more decompressed bytes, is checked in a thread.
_FEW_RECORDS: Final = 50_000
FEW_BYTES: Final = 4 << 20
# The maximum number of faulty records that an answer lists (KIP-467), which take about 10 MB.
MAX_NAMED_RECORDS: Final = 100_000
# An answer lists one faulty record per this many bytes of a batch, but at least _FEW_NAMED, so that it is not
# much larger than its request. Even a small batch may hold millions of records.
_BYTES_PER_NAME: Final = 64
_FEW_NAMED: Final = 50

#: Kafka's error codes for records.
_CODES: Final[Mapping[KafkaErrorName, int]] = MappingProxyType(
    {
        KafkaErrorName.CORRUPT_MESSAGE: 2,
        KafkaErrorName.MESSAGE_TOO_LARGE: 10,
        KafkaErrorName.INVALID_TIMESTAMP: 32,
        KafkaErrorName.UNSUPPORTED_COMPRESSION_TYPE: 76,
        KafkaErrorName.INVALID_RECORD: 87,
    }
)


@dataclass(frozen=True, slots=True)
class TopicRules:
    """A topic's requirements for produced batches, derived from its configs.

    `compression` is None if batches keep their producer's codec. `rules_without_zstd` is for versions of Produce that
    do not allow zstd.
    """

    rules: ProduceRules
    rules_without_zstd: ProduceRules
    is_log_append_time: bool
    compression: Compression | None

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> "TopicRules":
        """Derive the rules from the configs set on a topic."""
        is_log_append_time = effective(configs, "message.timestamp.type") == "LogAppendTime"
        before_ms = int(effective(configs, "message.timestamp.before.max.ms"))
        after_ms = int(effective(configs, "message.timestamp.after.max.ms"))
        rules = ProduceRules(
            max_message_bytes=int(effective(configs, "max.message.bytes")),
            max_record_bytes=int(effective(configs, "max.decompressed.message.bytes")),
            require_keys=is_compacted(configs),
            max_before_ms=None if is_log_append_time else before_ms,
            max_after_ms=None if is_log_append_time else after_ms,
        )
        without_zstd = replace(rules, zstd_allowed=False)
        return cls(rules, without_zstd, is_log_append_time, compression_of(configs))


class RulesByTopic:
    """Caches the rules of at most `max_topics` topics. A topic whose configs change gets new rules."""

    def __init__(self, max_topics: int = 10_000) -> None:
        self._max_topics = max_topics
        self._rules: dict[bytes, tuple[Topic, TopicRules]] = {}

    def of(self, topic: Topic) -> TopicRules:
        """Return the rules of a topic, according to the current cluster view."""
        known = self._rules.get(topic.topic_id)
        if known is not None and known[0] is topic:
            return known[1]
        if len(self._rules) >= self._max_topics:
            self._rules.clear()
        rules = TopicRules.of(topic.configs)
        self._rules[topic.topic_id] = (topic, rules)
        return rules


def is_quick(records: memoryview) -> bool:
    """Whether a batch declares few records or is rejected immediately, so that its check is quick unless it
    decompresses to many bytes.
    """
    if len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
        return True  # the check rejects it
    return int.from_bytes(records[RECORD_COUNT_AT:HEADER_SIZE]) <= _FEW_RECORDS


def unchecked(
    records: memoryview, key: tuple[bytes, int], rules: TopicRules, late_check: LateCheck
) -> PendingBatch:
    """Return a batch that must still be checked before it is queued, since only its header has been read."""
    header = BatchHeader.parse(records)
    return PendingBatch(
        key=key,
        part=records,
        record_count=header.record_count,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        flags=(FLAG_LOG_APPEND_TIME if rules.is_log_append_time else 0)
        | (FLAG_TRANSACTIONAL if header.is_transactional else 0),
        late_check=late_check,
    )


def check_batch(
    records: memoryview,
    key: tuple[bytes, int],
    rules: TopicRules,
    version: int,
    now_ms: int,
    max_decompressed_bytes: int | None = None,
) -> PendingBatch:
    """Check the produced batch `records` for partition `key` (topic id, partition). Raises RecordsError.

    Return the batch as it will be written, except for `recompression`, which the caller applies. `version` is the
    version of the Produce request. In a topic with LogAppendTime, the batch gets `now_ms` as its timestamp. The batch
    is copied only in this case, or if its header has a wrong max_timestamp.
    """
    summary = validate_produced(
        records,
        rules.rules if version >= _FIRST_ZSTD else rules.rules_without_zstd,
        now_ms,
        max_decompressed_bytes,
    )
    part: memoryview | bytes = records
    flags = 0
    max_timestamp = summary.max_timestamp
    if rules.is_log_append_time:
        part = with_max_timestamp(part, TimestampType.LOG_APPEND_TIME, now_ms)
        flags = FLAG_LOG_APPEND_TIME
        max_timestamp = now_ms
    elif max_timestamp != summary.declared_max_timestamp:
        part = with_max_timestamp(part, TimestampType.CREATE_TIME, max_timestamp)
    if summary.is_transactional:
        flags |= FLAG_TRANSACTIONAL
        if version >= FIRST_IMPLICIT_ADD:
            flags |= FLAG_ADDS_PARTITION
    batch = _pending(key, part, summary, max_timestamp, flags)
    if rules.compression is not None and rules.compression.codec is not summary.codec:
        batch.recompression = Recompression(rules.compression, rules.rules)
    return batch


def _pending(
    key: tuple[bytes, int],
    part: memoryview | bytes,
    summary: BatchSummary,
    max_timestamp: int,
    flags: int,
) -> PendingBatch:
    return PendingBatch(
        key=key,
        part=part,
        record_count=summary.record_count,
        max_timestamp=max_timestamp,
        producer_id=summary.producer_id,
        producer_epoch=summary.producer_epoch,
        base_sequence=summary.base_sequence,
        flags=flags,
    )


def most_named_of(records: memoryview) -> int:
    """Return the maximum number of faulty records that an answer lists for a batch."""
    return max(len(records) // _BYTES_PER_NAME, _FEW_NAMED)


def failed(
    partition: int,
    error_code: int,
    message: str | None = None,
    record_errors: Sequence[BatchIndexAndErrorMessage] = (),
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        partition, error_code, -1, record_errors=record_errors, error_message=message
    )


def refuse_batch(
    partition: int, error: RecordsError, most_named: int = 0
) -> PartitionProduceResponse:
    """Build the answer for a partition whose batch was rejected, with its first `most_named` faulty records."""
    faults: Iterable[tuple[int, str]] = ()
    if isinstance(error, InvalidRecordError):
        faults = islice(error.faults, most_named)
    return failed(
        partition,
        _CODES[error.kafka_error],
        str(error),
        tuple(BatchIndexAndErrorMessage(*fault) for fault in faults),
    )


def refuse_transactional(partition: int, transactional_id: str | None) -> PartitionProduceResponse:
    """Build Kafka's answer for transactional records in a request whose transactional id is null or empty."""
    return failed(
        partition,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if transactional_id is None
        else ErrorCode.INVALID_REQUEST,
        "transactional records need a transactional id in the request",
    )
