"""The errors for invalid records and message sets. Each error has the name of the Kafka error that a client gets for
it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import ClassVar


class KafkaErrorName(StrEnum):
    """The names of Kafka's protocol errors that concern records, spelled as in Kafka's `Errors`."""

    CORRUPT_MESSAGE = "CORRUPT_MESSAGE"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    INVALID_TIMESTAMP = "INVALID_TIMESTAMP"
    UNSUPPORTED_COMPRESSION_TYPE = "UNSUPPORTED_COMPRESSION_TYPE"
    INVALID_RECORD = "INVALID_RECORD"


class RecordsError(Exception):
    """Records that cannot be accepted unchanged. `kafka_error` is the error that the producer gets."""

    kafka_error: ClassVar[KafkaErrorName] = KafkaErrorName.CORRUPT_MESSAGE


class TruncatedBatchError(RecordsError):
    """The buffer ends inside a batch. Read on until the buffer holds `needed` bytes from `position`.

    `position` is relative to the buffer's start. `needed` is exact once the first 12 bytes of the batch (base_offset,
    batch_length) are there; until then, it is a minimum.
    """

    def __init__(self, position: int, needed: int) -> None:
        super().__init__(f"the batch at byte {position} needs {needed} bytes; read more")
        self.position = position
        self.needed = needed


class CorruptBatchError(RecordsError):
    """A batch with wrong bytes, so that reading more would not help; `position` is in bytes."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"corrupt batch at byte {position}: {reason}")
        self.reason = reason
        self.position = position


class InvalidRecordError(RecordsError):
    """A batch or record that breaks the rules of the format, although its checksum is right.

    `record_index` is the record's index in its batch, or -1 if the batch itself is wrong. `faults` has the index of
    every bad record and the reason why the record is bad.
    """

    kafka_error = KafkaErrorName.INVALID_RECORD

    def __init__(
        self, reason: str, record_index: int = -1, faults: Collection[tuple[int, str]] = ()
    ) -> None:
        if record_index >= 0 and not faults:
            faults = ((record_index, reason),)
        where = f"record {record_index}: " if record_index >= 0 else ""
        more = f"; {len(faults) - 1} more records are at fault" if len(faults) > 1 else ""
        super().__init__(where + reason + more)
        self.reason = reason
        self.record_index = record_index
        self.faults = faults


class InvalidTimestampError(InvalidRecordError):
    """A timestamp outside the topic's range, or a timestamp type that a producer may not set."""

    kafka_error = KafkaErrorName.INVALID_TIMESTAMP


class CorruptRecordsError(InvalidRecordError):
    """A compressed records section that its codec cannot decompress."""


class UnsupportedCodecError(RecordsError):
    """A compression codec that does not exist, or that the request's version may not use."""

    kafka_error = KafkaErrorName.UNSUPPORTED_COMPRESSION_TYPE


class BatchTooLargeError(RecordsError):
    """A batch larger than max.message.bytes. `size` and `limit` are in bytes."""

    kafka_error = KafkaErrorName.MESSAGE_TOO_LARGE

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} is {size} bytes, more than the limit of {limit}")
        self.size = size
        self.limit = limit


class DecompressedTooLargeError(RecordsError):
    """Records that decompress to more than `limit` bytes. A Java producer splits such a batch."""

    kafka_error = KafkaErrorName.MESSAGE_TOO_LARGE

    def __init__(self, limit: int) -> None:
        super().__init__(f"the records decompress to more than {limit} bytes; send smaller batches")
        self.limit = limit


class CorruptMessageError(RecordsError):
    """A message with wrong bytes. `position` is the position of the message's entry in its set, in bytes."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"corrupt message at byte {position} of its set: {reason}; send it again")
        self.reason = reason
        self.position = position


class EmptyMessageSetError(InvalidRecordError):
    """A message set that has no whole message."""

    def __init__(self) -> None:
        super().__init__("the message set holds no whole message; send at least one")
