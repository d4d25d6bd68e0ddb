"""The layout of messages of magic 0 and 1 in a message set (002_, S22).

A set is a sequence of entries: offset int64, size int32, and a message of `size` bytes. A message is crc uint32 (CRC-32
of the rest), magic int8, attributes int8, timestamp int64 (magic 1 only), key and value, each with an int32 length that
is -1 for null. In the attributes, bits 0 to 2 are the codec, and bit 3 is the timestamp type (magic 1). A message with
a codec is a wrapper: its value is a compressed message set.
"""

from __future__ import annotations

import struct
from typing import Final

MAGIC_0: Final = 0
MAGIC_1: Final = 1

ENTRY: Final = struct.Struct(">qi")
ENTRY_SIZE: Final = ENTRY.size
OFFSET: Final = struct.Struct(">q")
SIZE: Final = struct.Struct(">i")
CRC: Final = struct.Struct(">I")

# Positions within a message. The CRC-32 covers everything from the magic on.
CRC_END: Final = 4
MAGIC_AT: Final = 4
ATTRIBUTES_AT: Final = 5
TIMESTAMP_AT: Final = 6
# After the CRC-32: magic, attributes, in magic 1 the timestamp.
HEAD: Final = (struct.Struct(">bb"), struct.Struct(">bbq"))
# By magic: the position of the key's length, and the size of the smallest message (null key, null value).
KEY_AT: Final = (6, 14)
MIN_MESSAGE_BYTES: Final = (14, 22)

# A batch of 1 MiB may hold more than a million records, but many clients cannot process a wrapper with that many.
# Producers send far fewer: librdkafka ends a batch at 10,000.
MAX_WRAPPER_RECORDS: Final = 1 << 14
