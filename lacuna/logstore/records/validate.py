"""Checks produced batches before they enter the log (S11), with Kafka 4.4's errors.

| what is wrong | error |
|---|---|
| no batch, more than one, a truncated one, magic 0 or 1 in Produce v3+ | INVALID_RECORD |
| any other magic, an impossible batch_length, a wrong CRC-32C | CORRUPT_MESSAGE |
| larger than max.message.bytes, or decompresses beyond the limit | MESSAGE_TOO_LARGE |
| a codec that does not exist; zstd below Produce v7 | UNSUPPORTED_COMPRESSION_TYPE |
| base_offset not 0, a count that contradicts last_offset_delta, a control batch, a negative sequence or
  epoch with a producer id, a transaction without a producer id, records that do not match their batch, a null key on a
  compacted topic, a compressed record larger than max.decompressed.message.bytes | INVALID_RECORD |
| data that cannot be decompressed, an LZ4 frame with linked blocks or a dictionary (Kafka returns
  UNKNOWN_SERVER_ERROR, which says nothing) | INVALID_RECORD |
| a timestamp out of the topic's range, LogAppendTime set by the producer | INVALID_TIMESTAMP |
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lacuna.logstore.records import kernel
from lacuna.logstore.records.batch import BatchHeader, RecordBatch
from lacuna.logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, check_for_java
from lacuna.logstore.records.errors import (
    BatchTooLargeError,
    InvalidRecordError,
    InvalidTimestampError,
    UnsupportedCodecError,
)
from lacuna.logstore.records.layout import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MAX_INT64,
    MAX_TIMESTAMP_AT,
    MIN_INT64,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchSummary,
    Codec,
    RecordFaults,
    RecordTimes,
    TimestampType,
)
from lacuna.logstore.records.packing import with_crc

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INT64_SIZE: Final = 8
_MISPLACED: Final = "its offset delta is not its index in the batch"
_KEYLESS: Final = "a compacted topic needs a key in every record"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRules:
    """The requirements of a topic and a request version for a batch. Sizes are in bytes, timestamps in ms.

    `max_message_bytes` applies to the whole batch as sent (003_). Timestamps may be up to `max_before_ms` before and
    `max_after_ms` after the time of arrival; None means no limit, as on topics with LogAppendTime. A decompressed batch
    may be at most `max_decompressed_bytes` long, and each record in it at most `max_record_bytes`.
    """

    max_message_bytes: int
    require_keys: bool = False
    zstd_allowed: bool = True
    max_before_ms: int | None = None
    max_after_ms: int | None = None
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    max_record_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES


def validate_produced(
    buffer: Buffer, rules: ProduceRules, now_ms: int, max_decompressed_bytes: int | None = None
) -> BatchSummary:
    """Check the records for one partition in a Produce request (v3+) that arrived at `now_ms`. Return their summary.

    `max_decompressed_bytes` can lower the limit in the rules. Raises a RecordsError whose `kafka_error` is the error to
    send to the producer.
    """
    data = memoryview(buffer)
    earliest, latest = _time_range(rules, now_ms)
    ordinary = kernel.summarize(data, rules.max_message_bytes, rules.require_keys, earliest, latest)
    if ordinary is not None:
        return ordinary
    header = _framed(data, rules)
    batch = RecordBatch(header, data)
    batch.verify()
    codec = _check_header(header, rules)
    section: Buffer = data[HEADER_SIZE:]
    if codec is not Codec.NONE:
        section = batch.section(max_decompressed_bytes or rules.max_decompressed_bytes)
        check_for_java(codec, data[HEADER_SIZE:])
    times = _check_records(section, header, rules, earliest, latest)
    if codec is not Codec.NONE and len(memoryview(section)) > rules.max_record_bytes:
        _check_sizes(memoryview(section), header.record_count, rules.max_record_bytes)
    return BatchSummary(
        record_count=header.record_count,
        max_timestamp=times.max_timestamp,
        declared_max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        codec=codec,
        is_transactional=header.is_transactional,
    )


def with_max_timestamp(batch: Buffer, timestamp_type: TimestampType, max_timestamp: int) -> bytes:
    """Return a copy of `batch` with this timestamp type and `max_timestamp` (ms) in its header, and a new CRC-32C.

    With LOG_APPEND_TIME, this becomes the timestamp of all records (message.timestamp.type), whose bytes do not change.
    """
    changed = bytearray(batch)
    low_attributes = ATTRIBUTES_AT + 1
    changed[low_attributes] &= ~LOG_APPEND_TIME_BIT
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        changed[low_attributes] |= LOG_APPEND_TIME_BIT
    changed[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + _INT64_SIZE] = max_timestamp.to_bytes(
        _INT64_SIZE, "big", signed=True
    )
    return with_crc(changed)


def _framed(data: memoryview, rules: ProduceRules) -> BatchHeader:
    """Read the header. Raise an error unless `data` is exactly one batch of magic 2 within the topic's size limit."""
    if len(data) > MAGIC_AT and data[MAGIC_AT] < MAGIC:
        raise InvalidRecordError(f"Produce v3 and above requires magic 2, not {data[MAGIC_AT]}")
    if len(data) < HEADER_SIZE:
        raise InvalidRecordError(f"there must be exactly one batch, not {len(data)} bytes")
    header = BatchHeader.parse(data)
    size = header.size
    if size > rules.max_message_bytes:
        raise BatchTooLargeError("the batch", size, rules.max_message_bytes)
    if size > len(data):
        raise InvalidRecordError(f"the batch is cut off after {len(data)} of {size} bytes")
    if size < len(data):
        raise InvalidRecordError(
            f"expected exactly one batch, but {len(data) - size} bytes follow it"
        )
    return header


def _check_header(header: BatchHeader, rules: ProduceRules) -> Codec:
    codec = header.codec
    if codec is Codec.ZSTD and not rules.zstd_allowed:
        raise UnsupportedCodecError("zstd needs Produce v7 or above")
    if header.attributes & LOG_APPEND_TIME_BIT:
        raise InvalidTimestampError("a producer may not set the timestamp type LogAppendTime")
    if header.base_offset != 0:
        raise InvalidRecordError(f"base_offset is {header.base_offset}, not 0")
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecordError(
            f"last_offset_delta {header.last_offset_delta} does not fit {header.record_count} records"
        )
    if header.is_control:
        raise InvalidRecordError("a client may not write control records")
    _check_producer(header)
    return codec


def _check_producer(header: BatchHeader) -> None:
    if header.producer_id == NO_PRODUCER_ID:
        if header.is_transactional:
            raise InvalidRecordError("a transactional batch needs a producer id")
        return
    if header.producer_id < 0:
        raise InvalidRecordError(f"producer id {header.producer_id} is negative")
    if header.producer_epoch < 0:
        raise InvalidRecordError(f"producer epoch {header.producer_epoch} is negative")
    if header.base_sequence < 0:
        raise InvalidRecordError(f"base sequence {header.base_sequence} is negative")


def _check_records(
    section: Buffer, header: BatchHeader, rules: ProduceRules, earliest: int, latest: int
) -> RecordTimes:
    """Return the records' timestamps. If records are invalid, raise an error that lists them all, as Kafka does."""
    asked = (section, header.record_count, header.base_timestamp, rules.require_keys)
    try:
        times = kernel.validate_records(*asked)
    except InvalidRecordError:
        _refuse(kernel.find_faults(*asked, earliest, latest), earliest, latest)
        raise
    is_timed = times.min_timestamp != NO_TIMESTAMP
    if is_timed and (times.min_timestamp < earliest or times.max_timestamp > latest):
        _refuse(kernel.find_faults(*asked, earliest, latest), earliest, latest)
    return times


def _check_sizes(section: memoryview, count: int, most: int) -> None:
    """Raise InvalidRecordError if any of the valid records in `section` exceeds `most` bytes."""
    at = 0
    for index in range(count):
        size, shift = 0, 0
        while True:
            byte = section[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        size >>= 1  # zigzag: no record has a negative size
        if size > most:
            raise InvalidRecordError(
                f"record {index} has {size} bytes; the topic accepts at most {most}"
            )
        at += size


def _time_range(rules: ProduceRules, now_ms: int) -> tuple[int, int]:
    before, after = rules.max_before_ms, rules.max_after_ms
    earliest = MIN_INT64 if before is None else max(now_ms - before, MIN_INT64)
    latest = MAX_INT64 if after is None else min(now_ms + after, MAX_INT64)
    return earliest, latest


def _refuse(found: RecordFaults, earliest: int, latest: int) -> None:
    """Raise the error for bad records: as in Kafka, INVALID_TIMESTAMP if any timestamp is out of range."""
    faults = _Faults(found, earliest, latest)
    if found.untimely:
        raise InvalidTimestampError(faults.untimely(found.timestamps[0]), found.untimely[0], faults)
    for index, reason in faults:
        raise InvalidRecordError(reason, index, faults)


@dataclass(frozen=True, slots=True)
class _Faults(Collection[tuple[int, str]]):
    """All bad records with their reasons, which are built only during iteration because there may be millions."""

    found: RecordFaults
    earliest: int
    latest: int

    def __len__(self) -> int:
        return len(self.found.misplaced) + len(self.found.keyless) + len(self.found.untimely)

    def __contains__(self, fault: object) -> bool:
        return any(fault == each for each in self)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        timed = zip(self.found.untimely, self.found.timestamps, strict=True)
        return heapq.merge(
            ((index, _MISPLACED) for index in self.found.misplaced),
            ((index, _KEYLESS) for index in self.found.keyless),
            ((index, self.untimely(timestamp)) for index, timestamp in timed),
        )

    def untimely(self, timestamp: int) -> str:
        if timestamp < self.earliest:
            return (
                f"timestamp {timestamp} is before {self.earliest}, the earliest that the topic "
                "accepts now"
            )
        return (
            f"timestamp {timestamp} is after {self.latest}, the latest that the topic accepts now"
        )
