"""The format of a pack, which holds many small objects in one file, with its encoder and decoder.

    header   one block: magic 8, format u16, pack id u64, CRC-32C u32 of these fields
    records  one for each object, each from the beginning of a block of 512 bytes on
    index    from the beginning of a block on, only in a sealed pack: an entry for each object
    trailer  the last bytes of a sealed pack

    record   magic 4, CRC-32C u32 of what follows up to the key's end, CRC-32C u32 of the object,
             size of the key u16, size of the object u32, pack id u64, position of the record u64,
             durable u64, modified_ms u64, the key, the object
    entry    position of the object u64, its size u32, modified_ms u64, size of the key u16, the key
    trailer  position of the index u64, its size u64, its CRC-32C u32, magic 8,
             CRC-32C u32 of these fields

All numbers are little-endian. A disk writes a block whole or not at all, and no block holds bytes of two records, so
that writing a record cannot damage one that was acknowledged.

`durable` is the position up to which the pack was known to be on the disk when the record was written. An invalid
record before that position was damaged later. After it, a write may never have finished, and was then never
acknowledged.

Beside a pack, the file of its deletions has an entry for each object in it that was deleted:

    deletion CRC-32C u32 of what follows, position of the object u64, size of the key u16, the key
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from lacuna.logstore.objects.store import check_key
from lacuna.logstore.records.crc import crc32c

BLOCK = 512
FORMAT = 1
"""The format that is written (adr/0028); readers take it and all below."""

_CRC = struct.Struct("<I")

_HEADER_MAGIC = b"LacPack\0"
_HEADER = struct.Struct("<8sHQ")

_RECORD_MAGIC = b"LacR"
_RECORD = struct.Struct("<IHIQQQQ")
_CRC_END = len(_RECORD_MAGIC) + _CRC.size
_HEAD_SIZE = _CRC_END + _RECORD.size

_ENTRY = struct.Struct("<QIQH")
_TRAILER_MAGIC = b"LacIndex"
_TRAILER = struct.Struct("<QQI8s")
TRAILER_SIZE = _TRAILER.size + _CRC.size

_DELETION = struct.Struct("<QH")


class Packed(NamedTuple):
    """An object in a pack: `size` bytes from `position` of the file on, put at `modified_ms`."""

    key: str
    position: int
    size: int
    modified_ms: int


class NewerFormatError(ValueError):
    """A pack of a newer version of Lacuna. Its format is the argument."""


@dataclass(frozen=True, slots=True)
class PackContent:
    """The objects of a pack, in order, the end of its records, and the damaged ranges [start, end)."""

    objects: tuple[Packed, ...]
    end: int
    damaged: tuple[tuple[int, int], ...]


def header(pack_id: int) -> bytes:
    """Return the first bytes of a pack."""
    return _with_crc(_HEADER.pack(_HEADER_MAGIC, FORMAT, pack_id))


def read_header(content: bytes) -> int | None:
    """Return the id of the pack that begins with `content`, or None if it is damaged or not written yet.

    Raises `NewerFormatError`.
    """
    fields = content[: _HEADER.size]
    if len(content) < _HEADER.size + _CRC.size or not _is_sound(content[: _HEADER.size + 4]):
        return None
    magic, number, pack_id = _HEADER.unpack(fields)
    if magic != _HEADER_MAGIC:
        return None
    if number > FORMAT:
        raise NewerFormatError(number)
    return int(pack_id)


def record_space(key_size: int, size: int) -> int:
    """Return the bytes, in whole blocks, that the record of an object of `size` bytes takes."""
    return blocks(_HEAD_SIZE + key_size + size)


def blocks(size: int) -> int:
    """Return `size` rounded up to whole blocks."""
    return (size + BLOCK - 1) & -BLOCK


def record_head(
    key: bytes,
    data: bytes,
    *,
    pack_id: int,
    position: int,
    durable: int,
    modified_ms: int,
) -> bytes:
    """Return the head of a record, up to and including `key`; `data` follows it in the pack."""
    fields = (crc32c(data), len(key), len(data), pack_id, position, durable, modified_ms)
    covered = _RECORD.pack(*fields) + key
    return _RECORD_MAGIC + _CRC.pack(crc32c(covered)) + covered


def is_record(content: memoryview) -> bool:
    """Whether a record may begin here."""
    return content[: len(_RECORD_MAGIC)] == _RECORD_MAGIC


def read_next(content: memoryview, start: int, pack_id: int | None) -> tuple[list[Packed], int]:
    """Return the objects of the consecutive whole records from `start` on, and the end of the last one.

    `content` begins at `start` of the pack, and may end anywhere.
    """
    found: list[Packed] = []
    at = 0
    while (record := _parse(content, at, start, pack_id)) is not None and record.is_whole:
        found.append(record.packed)
        at = record.end - start
    return found, start + at


def read_all(content: bytes, pack_id: int | None) -> PackContent:
    """Return the valid content of a pack that is no longer written. Never raises, regardless of the bytes.

    An object with only damaged bytes is included, since its readers check each part. Without a `pack_id`, records of
    any pack are valid.
    """
    records = _find(memoryview(content), pack_id)
    durable = max((each.durable for each in records), default=0)
    objects: list[Packed] = []
    damaged: list[tuple[int, int]] = []
    end = BLOCK
    for each in records:
        is_known = each.is_whole or each.start < durable
        if each.start > end and end < durable:
            damaged.append((end, each.start))
        if is_known:
            objects.append(each.packed)
            end = each.end
        if is_known and not each.is_whole:
            damaged.append((each.start, each.end))
    return PackContent(tuple(objects), end, tuple(damaged))


def index(objects: Iterable[Packed], position: int) -> bytes:
    """Return the index and trailer that seal a pack; `position` is where they begin."""
    entries = bytearray()
    for key, at, size, modified_ms in objects:
        name = key.encode()
        entries += _ENTRY.pack(at, size, modified_ms, len(name)) + name
    return bytes(entries) + _with_crc(
        _TRAILER.pack(position, len(entries), crc32c(entries), _TRAILER_MAGIC)
    )


def read_trailer(content: bytes) -> tuple[int, int, int] | None:
    """Return the position, size and checksum of the index, or None if these bytes are not a trailer."""
    if len(content) != TRAILER_SIZE or not _is_sound(content):
        return None
    position, size, crc, magic = _TRAILER.unpack(content[: _TRAILER.size])
    return (position, size, crc) if magic == _TRAILER_MAGIC else None


def read_index(content: bytes) -> list[Packed]:
    """Return the objects of a sealed pack, from an index whose checksum is right."""
    found = []
    at = 0
    while at < len(content):
        position, size, modified_ms, key_size = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        found.append(Packed(content[at : at + key_size].decode(), position, size, modified_ms))
        at += key_size
    return found


def deletion(key: str, position: int) -> bytes:
    """Return an entry of the file of deletions."""
    name = key.encode()
    covered = _DELETION.pack(position, len(name)) + name
    return _CRC.pack(crc32c(covered)) + covered


def read_deletions(content: bytes) -> tuple[list[tuple[str, int]], int]:
    """Return the keys and positions of the deleted objects, and the end of the valid entries."""
    found = []
    at = 0
    while at + _CRC.size + _DELETION.size <= len(content):
        position, key_size = _DELETION.unpack_from(content, at + _CRC.size)
        key_at = at + _CRC.size + _DELETION.size
        end = key_at + key_size
        (crc,) = _CRC.unpack_from(content, at)
        if not key_size or end > len(content) or crc != crc32c(content[at + _CRC.size : end]):
            break
        found.append((content[key_at:end].decode(), position))
        at = end
    return found, at


class _Record(NamedTuple):
    packed: Packed
    start: int
    end: int
    durable: int
    is_whole: bool


def _find(content: memoryview, pack_id: int | None) -> list[_Record]:
    """Return all records with a valid head, regardless of the bytes between them."""
    found = []
    at = BLOCK
    while at < len(content):
        each = _parse(content, at, 0, pack_id)
        if each is None:
            at += BLOCK
        else:
            found.append(each)
            at = each.end
    return found


def _parse(content: memoryview, at: int, start: int, pack_id: int | None) -> _Record | None:
    """Return the record at `at` of `content`, which begins at `start` of the pack, or None without a valid
    head there.
    """
    if content[at : at + len(_RECORD_MAGIC)] != _RECORD_MAGIC or at + _HEAD_SIZE > len(content):
        return None
    fields = _RECORD.unpack_from(content, at + _CRC_END)
    data_crc, key_size, size, found_id, position, durable, modified_ms = fields
    key_at = at + _HEAD_SIZE
    data_at = key_at + key_size
    end = data_at + size
    (crc,) = _CRC.unpack_from(content, at + len(_RECORD_MAGIC))
    if position != start + at or end > len(content) or pack_id not in (None, found_id):
        return None
    if crc != crc32c(content[at + _CRC_END : data_at]):
        return None
    try:
        key = check_key(bytes(content[key_at:data_at]).decode())
    except ValueError:
        return None
    is_whole = data_crc == crc32c(content[data_at:end])
    packed = Packed(key, start + data_at, size, modified_ms)
    return _Record(packed, position, start + blocks(end), durable, is_whole)


def _with_crc(fields: bytes) -> bytes:
    return fields + _CRC.pack(crc32c(fields))


def _is_sound(content: bytes) -> bool:
    fields, crc = content[: -_CRC.size], content[-_CRC.size :]
    return crc == _CRC.pack(crc32c(fields))
