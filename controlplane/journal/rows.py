"""How a batch of records, and a part of a snapshot, lies in a row: lengths and bytes, under a
CRC-32.

The checksum covers the position too, so that a row that turned up in another's place is found out.
"""

import struct
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from controlplane.journal.journal import JournalCorrupt

_LENGTH: Final = struct.Struct("<I")
_POSITION: Final = struct.Struct("<q")


def encode_records(records: Sequence[bytes]) -> bytes:
    """Each record behind its length (four bytes, little endian)."""
    parts: list[bytes] = []
    for record in records:
        parts.append(_LENGTH.pack(len(record)))
        parts.append(record)
    return b"".join(parts)


def decode_records(blob: bytes) -> list[bytes]:
    """The inverse; the checksum was right. Raises ValueError where lengths do not fit."""
    records: list[bytes] = []
    at = 0
    while at < len(blob):
        if at + _LENGTH.size > len(blob):
            raise ValueError("a length is cut short")
        (length,) = _LENGTH.unpack_from(blob, at)
        at += _LENGTH.size
        if at + length > len(blob):
            raise ValueError("a record is cut short")
        records.append(blob[at : at + length])
        at += length
    return records


def checksum(position: int, blob: bytes) -> int:
    """CRC-32 of the position (eight bytes, little endian) and the bytes."""
    return crc32(blob, crc32(_POSITION.pack(position)))


def check_row(what: str, position: int, blob: object, stored_checksum: object) -> bytes:
    """The bytes of a row, or JournalCorrupt with its name."""
    if not isinstance(blob, bytes) or checksum(position, blob) != stored_checksum:
        raise JournalCorrupt(
            f"{what} at position {position} does not match its checksum: the file was damaged; "
            "restore it from a backup"
        )
    return blob
