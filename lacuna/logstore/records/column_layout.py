"""Records as columns in the layout of Apache Arrow's arrays, but in plain buffers that need no Arrow library.

Integers are in native byte order. A validity bitmap has a bit for each row, set if the row has a value; row 0 is the
lowest bit of the first byte. A column without nulls has no bitmap. Row i of a BinaryColumn is data[offsets[i]:offsets[i
+ 1]]. With pyarrow:

    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    pa.Array.from_buffers(pa.binary(), count, buffers)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """Byte strings or nulls. `validity` is a bitmap or None; `offsets` is int32[rows + 1]."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer


@dataclass(frozen=True, slots=True)
class HeaderColumn:
    """The headers of records. Record i has the headers list_offsets[i] to list_offsets[i + 1] - 1.

    `list_offsets` is int32[records + 1], and no list is null. Keys are UTF-8, and never null.
    """

    list_offsets: Buffer
    keys: BinaryColumn
    values: BinaryColumn


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """`count` records in offset order. A column that was not requested is None.

    | column | rows |
    |---|---|
    | offsets | int64 |
    | timestamps | int64, ms since the epoch, -1 for none |
    | timestamp_types | int32, 0 CreateTime, 1 LogAppendTime |
    | tombstones | uint8, 1 where the value is null |
    | horizons | int64, the delete horizon of the record's batch in ms (KIP-534), -1 for none |
    """

    count: int
    offsets: memoryview
    timestamps: memoryview
    timestamp_types: memoryview
    keys: BinaryColumn | None
    values: BinaryColumn | None
    headers: HeaderColumn | None
    tombstones: memoryview | None
    horizons: memoryview | None
