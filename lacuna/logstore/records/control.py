"""Control records, and the filler that closes a hole (seeds 000_, 003_ and 004_; S17, S25).

A control record's key is int16 version, int16 type. The value of an end-of-transaction marker is int16 version, int32
coordinator epoch. Newer versions may append fields, which are ignored. Unknown types are kept as numbers, so that
readers can skip these records.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from lacuna.logstore.records.batch import BatchToWrite, NewRecord, Record
from lacuna.logstore.records.errors import InvalidRecordError

_KEY: Final = struct.Struct(">hh")
_END_TXN_MARKER: Final = struct.Struct(">hi")
CONTROL_KEY_VERSION: Final = 0
END_TXN_MARKER_VERSION: Final = 0
# The filler ends a transaction of the producer id that is never allocated (S8, 004_).
FILLER_PRODUCER_ID: Final = 0


class ControlType(IntEnum):
    """The control record types that end a transaction. Kafka has others, which occur only in its own logs."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class EndTxnMarker:
    """The end of a transaction: COMMIT or ABORT, and the epoch of the coordinator that wrote it."""

    control_type: ControlType
    coordinator_epoch: int
    version: int = END_TXN_MARKER_VERSION

    def key(self) -> bytes:
        return _KEY.pack(CONTROL_KEY_VERSION, self.control_type)

    def value(self) -> bytes:
        return _END_TXN_MARKER.pack(self.version, self.coordinator_epoch)


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A control record read from a batch. `marker` is set if the record ends a transaction; skip all other records."""

    offset: int
    version: int
    type_number: int
    marker: EndTxnMarker | None


def read_control_record(record: Record) -> ControlRecord:
    """Return the control record in `record`, which must come from a control batch.

    Raises InvalidRecordError if the key is null or shorter than four bytes, a version is negative, or an
    end-of-transaction marker's value is shorter than six bytes.
    """
    key = record.key
    if key is None or len(key) < _KEY.size:
        length = "null" if key is None else f"{len(key)} bytes"
        raise InvalidRecordError(
            f"the key of the control record at offset {record.offset} is {length}; it needs at least 4 bytes"
        )
    version, type_number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(
            f"the control record at offset {record.offset} has key version {version}, which is negative"
        )
    marker = None
    if type_number in (ControlType.ABORT, ControlType.COMMIT):
        marker = _read_marker(record, ControlType(type_number))
    return ControlRecord(record.offset, version, type_number, marker)


def _read_marker(record: Record, control_type: ControlType) -> EndTxnMarker:
    value = record.value
    if value is None or len(value) < _END_TXN_MARKER.size:
        raise InvalidRecordError(
            f"the value of the marker at offset {record.offset} is shorter than 6 bytes"
        )
    version, coordinator_epoch = _END_TXN_MARKER.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(
            f"the marker at offset {record.offset} has version {version}, which is negative"
        )
    return EndTxnMarker(control_type, coordinator_epoch, version)


def filler(asked_offset: int, end_offset: int) -> bytes:
    """Return a batch that moves a client from `asked_offset` to `end_offset` without a visible record (S17).

    It contains one synthetic control record, at end_offset - 1: the commit of a transaction by producer id 0. No such
    transaction exists, so every client skips the record. The batch begins at `asked_offset`, or later if
    last_offset_delta would otherwise exceed 2^31-1. Raises ValueError for an empty range.
    """
    if not 0 <= asked_offset < end_offset:
        raise ValueError(f"there is nothing to fill in [{asked_offset}, {end_offset})")
    base_offset = max(asked_offset, end_offset - 2**31)
    marker = EndTxnMarker(ControlType.COMMIT, coordinator_epoch=0)
    record = NewRecord(
        offset_delta=end_offset - 1 - base_offset, key=marker.key(), value=marker.value()
    )
    return BatchToWrite(
        records=(record,),
        base_offset=base_offset,
        is_transactional=True,
        is_control=True,
        producer_id=FILLER_PRODUCER_ID,
        producer_epoch=0,
        partition_leader_epoch=0,
    ).encode()
