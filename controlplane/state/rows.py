"""Rows of journal records: the extents and the batches with a producer id, in the current and the older format."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from lacuna.controlplane.shared.extents import extent_rows
from lacuna.controlplane.v1.journal_pb2 import RecordedSlice

#: Producer id, producer epoch, base sequence, last sequence, base offset, append time (-1 unless
#: LogAppendTime), max timestamp.
BATCH_ROW: Final = Struct("<qiiiqqq")

_BATCH_NUMBERS: Final = 7


def rows_of(recorded: RecordedSlice) -> bytes:
    """Return the slice's extents as rows (lacuna.controlplane.shared.extents.EXTENT_ROW)."""
    return recorded.extent_rows or extent_rows(recorded.extents)


def batches_of(recorded: RecordedSlice) -> Iterator[tuple[int, ...]]:
    """Yield the values of a BATCH_ROW for each of the slice's batches that has a producer id."""
    if recorded.batch_rows:
        return BATCH_ROW.iter_unpack(recorded.batch_rows)
    numbers = iter(recorded.producer_batches)
    return zip(*[numbers] * _BATCH_NUMBERS, strict=True)
