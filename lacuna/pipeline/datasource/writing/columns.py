"""Converts Arrow arrays to the columns of lacuna.logstore.records, without copying their data."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lacuna.logstore.records.column_layout import BinaryColumn, HeaderColumn

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INT32 = 4


def binary_column(found: pa.Array) -> BinaryColumn:
    """Converts a binary array, or a slice of one."""
    _, offsets, data = found.buffers()
    return BinaryColumn(_validity(found), _offsets(offsets, found), data or b"")


def header_column(found: pa.Array) -> HeaderColumn | None:
    """Converts an array or slice of list<struct<key: binary, value: binary>>. Returns None if all values are null."""
    if found.null_count == len(found):
        return None
    if found.null_count:
        found = pc.coalesce(found, pa.scalar([], found.type))
    pairs = found.values
    return HeaderColumn(
        _offsets(found.buffers()[1], found),
        binary_column(pc.struct_field(pairs, "key")),
        binary_column(pc.struct_field(pairs, "value")),
    )


def _offsets(offsets: pa.Buffer | None, found: pa.Array) -> "Buffer":
    if offsets is None or not len(found):
        return bytes(_INT32)
    view = memoryview(offsets)[found.offset * _INT32 : (found.offset + len(found) + 1) * _INT32]
    return view.cast("B").cast("i")


def _validity(found: pa.Array) -> "Buffer | None":
    """Returns the validity bitmap, whose first bit belongs to the first row, or None if there are no nulls."""
    if not found.null_count:
        return None
    validity = found.buffers()[0]
    if not found.offset and validity is not None:
        return memoryview(validity)
    bits = np.packbits(found.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    return bits.tobytes()
