"""Encodes rows, each a batch of journal records or a part of a snapshot, with a CRC-32 that also covers the position,
so that a misplaced row is detected.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from zlib import crc32

from lacuna.controlplane.journal.journal import JournalCorrupt

_LENGTH: Final = struct.Struct("<I")
_POSITION: Final = struct.Struct("<q")


def encode_records(records: Sequence[bytes]) -> bytes:
    """Encode each record as its length (four bytes, little-endian) followed by its bytes."""
    parts: list[bytes] = []
    for record in records:
        parts.append(_LENGTH.pack(len(record)))
        parts.append(record)
    return b"".join(parts)


def decode_records(blob: bytes) -> list[bytes]:
    """Decode the output of `encode_records`, whose checksum has been checked. Raises ValueError if it is truncated."""
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
    """Return the CRC-32 of the position (eight bytes, little-endian) followed by `blob`."""
    return crc32(blob, crc32(_POSITION.pack(position)))


def add_checksum(crc: int, more: bytes) -> int:
    """Return the checksum of a blob extended by `more`; `crc` is that of the blob."""
    return crc32(more, crc)


def numbered(parts: Iterable[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield each part with its number, and with the number of parts if it is the last one, otherwise 0. Parts may be
    serialized while they are being stored, so their number is known only at the end.
    """
    number, last = 0, b""
    for number, part in enumerate(parts):
        if number:
            yield number - 1, 0, last
        last = part
    yield number, number + 1, last


def check_row(what: str, position: int, blob: object, stored_checksum: object) -> bytes:
    """Return `blob` if it matches its checksum. Otherwise, raise JournalCorrupt, which refers to the row as `what`."""
    if not isinstance(blob, bytes) or checksum(position, blob) != stored_checksum:
        raise JournalCorrupt(
            f"{what} does not match its checksum: the file was damaged; restore it from a backup"
        )
    return blob
