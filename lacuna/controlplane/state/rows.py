"""Rows of journal records: the extents and the batches with a producer id, in the current and the older format."""

from struct import Struct
from typing import Final

from lacuna.controlplane.shared.extents import extent_rows
from lacuna.controlplane.v1.journal_pb2 import SegmentRecorded

#: Producer id, producer epoch, base sequence, last sequence, base offset, append time (-1 unless
#: LogAppendTime), max timestamp.
BATCH_ROW: Final = Struct("<qiiiqqq")

_BATCH_NUMBERS: Final = 7


def in_rows(record: SegmentRecorded) -> SegmentRecorded:
    """Return a record with its extents and batches as rows: the same one, or a copy if a version up to 0.1 wrote it."""
    if not record.slices or not record.slices[0].HasField("extents"):
        return record
    copied = SegmentRecorded()
    copied.CopyFrom(record)
    for each in copied.slices:
        numbers = iter(each.producer_batches)
        batches = zip(*[numbers] * _BATCH_NUMBERS, strict=True)
        each.extent_rows = extent_rows(each.extents)
        each.batch_rows = b"".join(BATCH_ROW.pack(*batch) for batch in batches)
        each.ClearField("extents")
        each.ClearField("producer_batches")
    return copied
