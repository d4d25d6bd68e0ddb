"""A second, simpler reader for message sets (S22), to compare with lacuna.logstore.records.legacy.

It shares no code with the reader under test: it uses the standard library's codecs, struct and lists. The standard
library lacks Snappy and LZ4, which the captured bytes in tests/golden/legacy cover.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Rec:
    """A record: its absolute offset, timestamp, key and value."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def message(
    magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    """Return a message, starting with its CRC-32."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    for data in (key, value):
        body += struct.pack(">i", -1 if data is None else len(data)) + (data or b"")
    return struct.pack(">I", zlib.crc32(body)) + body


def entry(offset: int, data: bytes) -> bytes:
    """Return a message as an entry in a set."""
    return struct.pack(">qi", offset, len(data)) + data


def plain(magic: int, records: list[Rec], attributes: int = 0) -> bytes:
    """Return a set of plain messages."""
    return b"".join(
        entry(r.offset, message(magic, attributes, r.timestamp, r.key, r.value)) for r in records
    )


def wrapper(
    magic: int, offset: int, inner: bytes, *, attributes: int = 1, timestamp: int = -1
) -> bytes:
    """Return a gzip wrapper for a set."""
    return entry(offset, message(magic, attributes, timestamp, None, gzip.compress(inner)))


def with_right_crcs(message_set: bytes) -> bytes:
    """Return a set with the CRC-32 of each entry corrected, up to the first entry with an impossible size."""
    mended = bytearray(message_set)
    at = 0
    while at + 16 <= len(mended):
        end = at + 12 + int.from_bytes(mended[at + 8 : at + 12], "big", signed=True)
        if not at + 16 <= end <= len(mended):
            break
        mended[at + 12 : at + 16] = zlib.crc32(mended[at + 16 : end]).to_bytes(4, "big")
        at = end
    return bytes(mended)


def read(message_set: bytes) -> list[Rec]:
    """Return every record, including those in wrappers, with absolute offsets. Ignores truncated ends and CRC-32s."""
    found: list[Rec] = []
    while len(message_set) >= 12:
        offset, size = struct.unpack(">qi", message_set[:12])
        data, message_set = message_set[12 : 12 + size], message_set[12 + size :]
        if len(data) < size:
            break
        found += _records(offset, data)
    return found


def _records(offset: int, data: bytes) -> list[Rec]:
    magic, attributes = data[4], data[5]
    timestamp = struct.unpack(">q", data[6:14])[0] if magic == 1 else -1
    rest = data[14 if magic == 1 else 6 :]
    parts: list[bytes | None] = []
    for _ in range(2):
        (length,) = struct.unpack(">i", rest[:4])
        parts.append(None if length < 0 else rest[4 : 4 + length])
        rest = rest[4 + max(length, 0) :]
    if attributes & 7 == 0:
        return [Rec(offset, timestamp, parts[0], parts[1])]
    assert parts[1] is not None
    inner = read(gzip.decompress(parts[1]))
    last = inner[-1].offset
    return [
        Rec(
            offset + (r.offset - last) if magic == 1 else r.offset,
            timestamp if attributes & 8 else r.timestamp,
            r.key,
            r.value,
        )
        for r in inner
    ]
