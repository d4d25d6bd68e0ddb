"""What a journal remembers of each batch with a producer id, as bytes; and both kinds of rows of older records."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from controlplane.extents import extent_rows
from controlplane.v1.journal_pb2 import RecordedSlice

#: Producer id, producer epoch, base sequence, last sequence, base offset, append time (-1 unless
#: LogAppendTime), max timestamp.
BATCH_ROW: Final = Struct("<qiiiqqq")

_BATCH_NUMBERS: Final = 7


def rows_of(recorded: RecordedSlice) -> bytes:
    """Its extents, a row each (controlplane.extents.EXTENT_ROW)."""
    return recorded.extent_rows or extent_rows(recorded.extents)


def batches_of(recorded: RecordedSlice) -> Iterator[tuple[int, ...]]:
    """Its batches with a producer id, the numbers of a row each."""
    if recorded.batch_rows:
        return BATCH_ROW.iter_unpack(recorded.batch_rows)
    numbers = iter(recorded.producer_batches)
    return zip(*[numbers] * _BATCH_NUMBERS, strict=True)
