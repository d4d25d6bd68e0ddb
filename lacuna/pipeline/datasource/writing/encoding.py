"""Encodes rows as record batches of magic 2.

The batches have neither a producer id nor a transactional bit, because their commit names the transaction
(docs/adr/0013).
"""

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lacuna.logstore.records.batch import BatchHeader
from lacuna.logstore.records.compression import Compression
from lacuna.logstore.records.encoding import encode_batches
from lacuna.logstore.records.errors import BatchTooLargeError, InvalidRecordError
from lacuna.logstore.records.layout import Codec, TimestampType
from lacuna.logstore.records.validate import with_max_timestamp
from lacuna.pipeline.datasource.writing.columns import binary_column, header_column
from lacuna.pipeline.datasource.writing.topics import Target
from lacuna.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The maximum size in bytes of a record's lengths, deltas and attributes.
_RECORD_OVERHEAD: Final = 36
_HEADER_OVERHEAD: Final = 10


class EncodedBatch(NamedTuple):
    data: bytes
    record_count: int
    max_timestamp: int


class Encoder:
    """Encodes selected rows of `rows` (schema ROWS). `codec` is used for topics without compression.type."""

    def __init__(self, rows: pa.RecordBatch, codec: Codec) -> None:
        self._compression = Compression(codec)
        self._keys = binary_column(rows.column("key"))
        self._values = binary_column(rows.column("value"))
        self._headers = header_column(rows.column("headers"))
        self._timestamps = rows.column("timestamp").to_numpy()

    def encode(
        self, chosen: "NDArray[np.int64]", target: Target, now_ms: int
    ) -> list[EncodedBatch]:
        """Encodes the rows at the indexes `chosen`, in that order, as batches for one partition of `target`.

        No batch exceeds the topic's max.message.bytes. `now_ms` is the timestamp for LogAppendTime. Raises
        PipelineError for a record that is too large or cannot be written.
        """
        compression = target.compression or self._compression
        try:
            batches = encode_batches(
                self._keys,
                self._values,
                self._headers,
                self._timestamps,
                array("q", chosen.tobytes()),
                compression.codec,
                max_message_bytes=target.max_message_bytes,
                compression_level=compression.level,
            )
        except BatchTooLargeError as error:
            raise PipelineError(
                f"a record of {error.size} bytes is too large for topic {target.name!r}, which "
                f"accepts up to {error.limit} bytes (max.message.bytes): raise that limit, or make the "
                "record smaller"
            ) from error
        except InvalidRecordError as error:
            raise PipelineError(f"a row cannot be written as a record: {error.reason}") from error
        if target.is_log_append_time:
            batches = [
                with_max_timestamp(batch, TimestampType.LOG_APPEND_TIME, now_ms)
                for batch in batches
            ]
        return [_describe(batch) for batch in batches]


def _describe(batch: bytes) -> EncodedBatch:
    header = BatchHeader.parse(batch)
    return EncodedBatch(batch, header.record_count, header.max_timestamp)


def row_sizes(rows: pa.RecordBatch) -> "NDArray[np.int64]":
    """Returns an upper bound for the uncompressed size in bytes of each row (schema ROWS)."""
    sizes = np.full(rows.num_rows, _RECORD_OVERHEAD, np.int64)
    for name in ("key", "value"):
        sizes += _lengths(rows.column(name))
    headers = rows.column("headers")
    if headers.null_count < len(headers):
        pairs = headers.flatten()
        each = np.full(len(pairs), _HEADER_OVERHEAD, np.int64)
        for name in ("key", "value"):
            each += _lengths(pc.struct_field(pairs, name))
        counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
        before = np.concatenate(([0], np.cumsum(each)))
        sizes += np.diff(before[np.concatenate(([0], np.cumsum(counts)))])
    return sizes


def _lengths(found: pa.Array) -> "NDArray[np.int32]":
    lengths: NDArray[np.int32] = pc.fill_null(pc.binary_length(found), 0).to_numpy()
    return lengths
