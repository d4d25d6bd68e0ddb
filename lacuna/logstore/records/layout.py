"""The layout of a record batch of magic 2: header fields, their positions, attribute bits.

All integers are big-endian. The CRC-32C covers everything from `attributes` to the end, so the base_offset and
partition_leader_epoch of a stored batch can be changed without recomputing it (KIP-98).
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from lacuna.logstore.records.errors import RecordsError

MAGIC: Final = 2

# base_offset, batch_length, partition_leader_epoch, magic, crc, attributes, last_offset_delta,
# base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
# base_offset and batch_length precede the bytes that batch_length counts.
LOG_OVERHEAD: Final = 12

BATCH_LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
RECORD_COUNT_AT: Final = 57

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)


class Codec(IntEnum):
    """A batch's compression codec, as encoded in the lowest three attribute bits."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Whether the records' timestamps come from the producer or from the append."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True)
class WalkedBatches:
    """Contiguous batches that have been checked, in columns with one entry per batch (`positions` has one more).

    Batch i is bytes positions[i]:positions[i + 1] of the buffer, so the slice positions[i]:positions[j] consists of
    batches i to j - 1. Offsets are inclusive.
    """

    positions: array[int]
    base_offsets: array[int]
    last_offsets: array[int]
    max_timestamps: array[int]

    def __len__(self) -> int:
        return len(self.base_offsets)


@dataclass(frozen=True, slots=True)
class WalkedPieces:
    """The batches of several pieces that have been checked, in the same columns as in `WalkedBatches`.

    Piece i consists of the batches firsts[i] to firsts[i + 1] - 1 (`firsts` has one more entry than there are pieces).
    `errors` maps the index of each bad piece to its error. A bad piece has at least one entry in the columns; only the
    first one's position is meaningful, because it is the end of the previous piece. Positions are relative to the start
    of the buffer.
    """

    positions: array[int]
    base_offsets: array[int]
    last_offsets: array[int]
    max_timestamps: array[int]
    firsts: array[int]
    errors: dict[int, RecordsError]


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """The largest and smallest timestamps of a batch's records.

    The smallest one ignores records without a timestamp (-1), and is -1 if no record has one.
    """

    max_timestamp: int
    min_timestamp: int


class BatchSummary(NamedTuple):
    """The properties of a valid produced batch that a commit needs.

    `max_timestamp` is the largest timestamp of the records (ms, -1 if they have none), whereas `declared_max_timestamp`
    is the one in the header.
    """

    record_count: int
    max_timestamp: int
    declared_max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    codec: Codec
    is_transactional: bool


@dataclass(frozen=True, slots=True)
class RecordFaults:
    """The indexes of a batch's bad records, by fault and in ascending order. No index is listed twice.

    A record in `misplaced` has an offset delta that differs from its index, one in `keyless` has no key, and one in
    `untimely` has a timestamp out of range. `timestamps` (ms) contains the timestamps of the records in `untimely`.
    """

    misplaced: array[int]
    keyless: array[int]
    untimely: array[int]
    timestamps: array[int]
