"""Errors for invalid records and message sets, each with the name of the Kafka error that the client receives."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import ClassVar


class KafkaErrorName(StrEnum):
    """The names of Kafka's protocol errors about records, spelled as in Kafka's `Errors`."""

    CORRUPT_MESSAGE = "CORRUPT_MESSAGE"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    INVALID_TIMESTAMP = "INVALID_TIMESTAMP"
    UNSUPPORTED_COMPRESSION_TYPE = "UNSUPPORTED_COMPRESSION_TYPE"
    INVALID_RECORD = "INVALID_RECORD"


class RecordsError(Exception):
    """Records that cannot be accepted unchanged. `kafka_error` is the error that the producer receives."""

    kafka_error: ClassVar[KafkaErrorName] = KafkaErrorName.CORRUPT_MESSAGE


class TruncatedBatchError(RecordsError):
    """The buffer ends inside a batch. Continue reading until it holds `needed` bytes from `position`.

    `position` is relative to the start of the buffer. `needed` is a minimum unless the buffer holds the batch's first
    12 bytes (base_offset, batch_length), which make it exact.
    """

    def __init__(self, position: int, needed: int) -> None:
        super().__init__(f"the batch at byte {position} needs {needed} bytes; read more")
        self.position = position
        self.needed = needed


class CorruptBatchError(RecordsError):
    """A batch is corrupt, so reading more would not help. `position` is in bytes."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"corrupt batch at byte {position}: {reason}")
        self.reason = reason
        self.position = position


class InvalidRecordError(RecordsError):
    """A batch or record violates the format, although its checksum is correct.

    `record_index` is the record's index in its batch, or -1 if the batch itself is invalid. `faults` pairs the index of
    each bad record with the reason.
    """

    kafka_error = KafkaErrorName.INVALID_RECORD

    def __init__(
        self, reason: str, record_index: int = -1, faults: Collection[tuple[int, str]] = ()
    ) -> None:
        if record_index >= 0 and not faults:
            faults = ((record_index, reason),)
        where = f"record {record_index}: " if record_index >= 0 else ""
        more = f"; {len(faults) - 1} more records are invalid" if len(faults) > 1 else ""
        super().__init__(where + reason + more)
        self.reason = reason
        self.record_index = record_index
        self.faults = faults


class InvalidTimestampError(InvalidRecordError):
    """A timestamp is outside the topic's range, or has a type that producers may not set."""

    kafka_error = KafkaErrorName.INVALID_TIMESTAMP


class CorruptRecordsError(InvalidRecordError):
    """The codec cannot decompress a records section."""


class UnsupportedCodecError(RecordsError):
    """The compression codec does not exist, or may not be used in the request's version."""

    kafka_error = KafkaErrorName.UNSUPPORTED_COMPRESSION_TYPE


class BatchTooLargeError(RecordsError):
    """A batch is larger than max.message.bytes. `size` and `limit` are in bytes."""

    kafka_error = KafkaErrorName.MESSAGE_TOO_LARGE

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} is {size} bytes, more than the limit of {limit}")
        self.size = size
        self.limit = limit


class DecompressedTooLargeError(RecordsError):
    """The records decompress to more than `limit` bytes. A Java producer splits the batch."""

    kafka_error = KafkaErrorName.MESSAGE_TOO_LARGE

    def __init__(self, limit: int) -> None:
        super().__init__(f"the records decompress to more than {limit} bytes; send smaller batches")
        self.limit = limit


class CorruptMessageError(RecordsError):
    """A message is corrupt. `position` is the byte position of the message's entry in its set."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"corrupt message at byte {position} of its set: {reason}; send it again")
        self.reason = reason
        self.position = position


class EmptyMessageSetError(InvalidRecordError):
    """A message set contains no complete message."""

    def __init__(self) -> None:
        super().__init__("the message set holds no complete message; send at least one")
