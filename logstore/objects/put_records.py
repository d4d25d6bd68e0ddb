"""The format of a put log: records to bytes and back.

A put log is one file of two halves of equal size. A half is a header of one block, then records,
each of which begins at a block of 512 bytes:

    half    magic 8, generation u64, is_suspect u16, CRC-32C u32 of these fields
    record  magic 4, CRC-32C u32 of all that follows, kind u16, size of the key u16,
            size of the object u32, generation u64, position u64, durable u64, inode u64,
            the key, the object's bytes

All numbers are little-endian. A disk writes a block whole or not at all, and no block holds bytes of
two records, so that writing a record cannot damage one that was acknowledged.

A record counts if its checksum is right, its position is where it was found, its kind and key are
valid, and its generation is that of its half.
`durable` is the position up to which the half was known to be on the disk when the record was written.
Where no record counts before that position, the log was damaged later; after it, a write may never have
finished, and was then never acknowledged.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from lacuna.logstore.objects.store import check_key
from lacuna.logstore.records.crc import crc32c

BLOCK = 512

_HALF_MAGIC = b"LacPuts1"
_HALF = struct.Struct("<8sQH")
_CRC = struct.Struct("<I")
_HEADER_SIZE = _HALF.size + _CRC.size

_RECORD_MAGIC = b"LPut"
_RECORD = struct.Struct("<HHIQQQQ")
_CRC_END = len(_RECORD_MAGIC) + _CRC.size
_HEAD_SIZE = _CRC_END + _RECORD.size


class Kind(IntEnum):
    """PUT: restore this object if it is missing. GONE: restore nothing that was put under this key."""

    PUT = 1
    GONE = 2


@dataclass(frozen=True, slots=True)
class PutRecord:
    """One record: `inode` is the number of the object's file, `position` the record's place in the log."""

    kind: Kind
    key: str
    inode: int
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class HalfContent:
    """The records of a half that count, in order, and the ranges [start, end) of the log that are damaged.

    `is_suspect`: syncing the files of these objects failed, or the header that would say so is damaged.
    """

    records: tuple[PutRecord, ...]
    damaged: tuple[tuple[int, int], ...]
    is_suspect: bool


def record_space(key: bytes, size: int) -> int:
    """How many bytes a record takes in the log, in whole blocks; `size` is that of the object."""
    return (_HEAD_SIZE + len(key) + size + BLOCK - 1) & -BLOCK


def half_header(generation: int, *, is_suspect: bool = False) -> bytes:
    """The header that begins a half of the log: magic, generation, `is_suspect`, and a checksum of these."""
    fields = _HALF.pack(_HALF_MAGIC, generation, is_suspect)
    return fields + _CRC.pack(crc32c(fields))


def record_head(
    kind: int,
    key: bytes,
    data: bytes,
    *,
    generation: int,
    position: int,
    durable: int,
    inode: int,
) -> bytes:
    """The head of a record, up to and including `key`; `data` follows it in the log."""
    covered = _RECORD.pack(kind, len(key), len(data), generation, position, durable, inode) + key
    return _RECORD_MAGIC + _CRC.pack(crc32c(data, crc32c(covered))) + covered


def read_half(half: bytes, start: int) -> HalfContent:
    """Parse `half`, which begins at `start` of the log. Never raises, whatever the bytes are."""
    header = half[:_HEADER_SIZE]
    if header == bytes(_HEADER_SIZE) or len(header) < _HEADER_SIZE:
        return HalfContent((), (), is_suspect=False)  # it was never finished
    magic, generation, is_suspect = _HALF.unpack_from(header)
    is_whole = magic == _HALF_MAGIC and _CRC.unpack(header[_HALF.size :])[0] == crc32c(
        header[: _HALF.size]
    )
    found = _find(half, start)
    if not is_whole:
        generation, is_suspect = max((each.generation for each in found), default=0), True
    found = [each for each in found if each.generation == generation]
    damaged = [] if is_whole else [(start, start + BLOCK)]
    durable = max((each.durable for each in found), default=0)
    end = start + BLOCK
    for each in found:
        if each.record.position > end and end < durable:
            damaged.append((end, each.record.position))
        end = each.end
    return HalfContent(tuple(each.record for each in found), tuple(damaged), bool(is_suspect))


@dataclass(frozen=True, slots=True)
class _Found:
    record: PutRecord
    generation: int
    durable: int
    end: int


def _find(half: bytes, start: int) -> list[_Found]:
    """The records of every generation. What looks like a record inside another one's bytes is not one."""
    found = []
    at = BLOCK
    while at < len(half):
        each = _parse(half, at, start)
        if each is None:
            at += BLOCK
        else:
            found.append(each)
            at = each.end - start
    return found


def _parse(half: bytes, at: int, start: int) -> _Found | None:
    if half[at : at + len(_RECORD_MAGIC)] != _RECORD_MAGIC or at + _HEAD_SIZE > len(half):
        return None
    fields = _RECORD.unpack_from(half, at + _CRC_END)
    kind, key_size, size, generation, position, durable, inode = fields
    key_at = at + _HEAD_SIZE
    data_at = key_at + key_size
    end = data_at + size
    (crc,) = _CRC.unpack_from(half, at + len(_RECORD_MAGIC))
    if position != start + at or end > len(half) or crc != crc32c(half[at + _CRC_END : end]):
        return None
    try:
        key = check_key(half[key_at:data_at].decode())
        record = PutRecord(Kind(kind), key, inode, position, half[data_at:end])
    except ValueError:  # written by a newer version, which has more kinds or other keys
        return None
    return _Found(record, generation, durable, start + at + ((end - at + BLOCK - 1) & -BLOCK))
