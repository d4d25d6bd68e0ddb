"""Finding a record of a batch by its timestamp, as ListOffsets asks for it (S21)."""

from __future__ import annotations

from logstore.records.batch import RecordBatch
from logstore.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES


def first_offset_at(
    batch: RecordBatch, timestamp: int, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
) -> tuple[int, int] | None:
    """The first record of `batch` at or behind `timestamp` (ms): its offset and its timestamp.

    None where all are earlier. With the batch's own max_timestamp it is the record that ListOffsets
    names for MAX_TIMESTAMP. `max_bytes` bounds the decompressed section; raises as
    `RecordBatch.records`.
    """
    for record in batch.records(max_bytes):
        if record.timestamp >= timestamp:
            return record.offset, record.timestamp
    return None
