from array import array

from typing_extensions import Buffer

from lacuna.logstore.records.column_layout import BinaryColumn, HeaderColumn
from lacuna.logstore.records.layout import Codec

MAX_BATCH_BYTES: int
MAX_MESSAGE_BYTES: int

def encode_batches(
    keys: BinaryColumn | None,
    values: BinaryColumn | None,
    headers: HeaderColumn | None,
    timestamps: Buffer,
    rows: array[int],
    codec: Codec,
    max_batch_bytes: int = ...,
    max_message_bytes: int = ...,
    compression_level: int | None = None,
) -> list[bytes]: ...
def murmur2_partitions(
    keys: BinaryColumn | None, row_count: int, partition_count: int
) -> array[int]: ...
