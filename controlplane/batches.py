"""What a commit says of a batch, as bytes: a row of SegmentSlice.batches."""

from struct import Struct
from typing import Final

#: Little endian: byte position in the object (8 bytes), size (4), record count, which is last_offset_delta + 1 (4), max
#: timestamp, with LogAppendTime the append time (8), producer id, -1 for none (8), producer epoch (4), base
#: sequence (4), and flags (4). One row is packed and read in a tenth of the time of eight fields of a message.
COMMITTED_BATCH: Final = Struct("<qiiqqiiI")

FLAG_LOG_APPEND_TIME: Final = 1
FLAG_TRANSACTIONAL: Final = 4
#: It adds its partition to the transaction (Produce v12 and later).
FLAG_ADDS_PARTITION: Final = 8
#: From this bit on: 1 + the index of the request's transactional id in those of the commit, 0 where none was told.
TRANSACTIONAL_ID_SHIFT: Final = 4
