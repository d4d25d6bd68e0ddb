"""Which batches may enter the log (S11): the records' own form, and the topic's configs.

What is wrong with one batch is its own: an error for its partition, and the others are kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agent.produce.buffer import PendingBatch
from agent.produce.codec import FIRST_IMPLICIT_ADD, PartitionAnswer, RecordError
from agent.produce.recompress import Recompression, compression_of
from controlplane.batches import FLAG_ADDS_PARTITION, FLAG_LOG_APPEND_TIME, FLAG_TRANSACTIONAL
from controlplane.errors import ErrorCode
from controlplane.topic_configs import effective, is_compacted
from logstore.records.compression import Compression
from logstore.records.errors import InvalidRecordError, KafkaErrorName, RecordsError
from logstore.records.validate import (
    BatchSummary,
    ProduceRules,
    validate_produced,
    with_create_time,
    with_log_append_time,
)

if TYPE_CHECKING:
    from controlplane.v1.cluster_pb2 import Topic

_FIRST_ZSTD: Final = 7
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53

#: Kafka's numbers of the errors that records can have.
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
    """What a topic's configs demand, at Produce versions that know zstd and at those that do not."""

    rules: ProduceRules
    rules_without_zstd: ProduceRules
    is_log_append_time: bool
    compression: Compression | None

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> "TopicRules":
        """From the configs that were set."""
        is_log_append_time = effective(configs, "message.timestamp.type") == "LogAppendTime"
        before_ms = int(effective(configs, "message.timestamp.before.max.ms"))
        after_ms = int(effective(configs, "message.timestamp.after.max.ms"))
        rules = ProduceRules(
            max_message_bytes=int(effective(configs, "max.message.bytes")),
            require_keys=is_compacted(configs),
            max_before_ms=None if is_log_append_time else before_ms,
            max_after_ms=None if is_log_append_time else after_ms,
        )
        without_zstd = replace(rules, zstd_allowed=False)
        return cls(rules, without_zstd, is_log_append_time, compression_of(configs))


class RulesByTopic:
    """Rules of the topics in use, made once for each version of a topic; at most `max_topics`."""

    def __init__(self, max_topics: int = 10_000) -> None:
        self._max_topics = max_topics
        self._rules: dict[bytes, tuple[Topic, TopicRules]] = {}

    def of(self, topic: "Topic") -> TopicRules:
        """The rules of a topic as the cluster view has it now."""
        known = self._rules.get(topic.topic_id)
        if known is not None and known[0] is topic:
            return known[1]
        if len(self._rules) >= self._max_topics:
            self._rules.clear()
        rules = TopicRules.of(topic.configs)
        self._rules[topic.topic_id] = (topic, rules)
        return rules


def check_batch(
    records: memoryview,
    key: tuple[bytes, int],
    rules: TopicRules,
    version: int,
    now_ms: int,
) -> PendingBatch:
    """The batch as it is to be written for partition `key`, but for compression.type. Raises RecordsError.

    A LogAppendTime topic gets `now_ms` into the batch here, before it is stored. Only then, or where a
    header lies about its max_timestamp, is the batch copied. Its `recompression` is left to the caller.
    """
    summary = validate_produced(
        records, rules.rules if version >= _FIRST_ZSTD else rules.rules_without_zstd, now_ms
    )
    part: memoryview | bytes = records
    flags = 0
    max_timestamp = summary.max_timestamp
    if rules.is_log_append_time:
        part = with_log_append_time(part, now_ms)
        flags = FLAG_LOG_APPEND_TIME
        max_timestamp = now_ms
    elif max_timestamp != summary.declared_max_timestamp:
        part = with_create_time(part, max_timestamp)
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


def refuse_batch(partition: int, error: RecordsError) -> PartitionAnswer:
    """The answer for records that may not enter; it names the record where one is at fault."""
    record_errors: tuple[RecordError, ...] = ()
    if isinstance(error, InvalidRecordError) and error.record_index >= 0:
        record_errors = (RecordError(error.record_index, error.reason),)
    return PartitionAnswer(
        partition,
        _CODES[error.kafka_error],
        record_errors=record_errors,
        error_message=str(error),
    )


def refuse_transactional(partition: int, transactional_id: str | None) -> PartitionAnswer:
    """Transactional records in a request without a transactional id, or an empty one: as in Kafka."""
    return PartitionAnswer(
        partition,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if transactional_id is None
        else ErrorCode.INVALID_REQUEST,
        error_message="transactional records need a transactional id in the request",
    )
