"""Recovers what versions before packs left in the folder `.log` of a directory store.

They wrote small objects into a put log and made files of them a second later, so a put log matters only
where a process was killed or the power failed. It is one file of two halves of equal size, each a header
of one block and records from a block of 512 bytes on:

    half    magic 8, generation u64, is_suspect u16, CRC-32C u32 of these fields
    record  magic 4, CRC-32C u32 of all that follows, kind u16, size of the key u16,
            size of the object u32, generation u64, position u64, durable u64, inode u64,
            the key, the object's bytes

A record of kind 2 says that nothing that was put under its key is to be recovered. A half is suspect if
its files could not be synced, so that only the page cache may have been right.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from lacuna.logstore.objects.filesystem import FileSystem
from lacuna.logstore.objects.pack_folder import PackFolder
from lacuna.logstore.objects.store import check_key
from lacuna.logstore.records.crc import crc32c

log = logging.getLogger("lacuna.objects")

_BLOCK = 512
_HALF = struct.Struct("<8sQHI")
_HALF_MAGIC = b"LacPuts1"
_RECORD = struct.Struct("<4sIHHIQQQQ")
_RECORD_MAGIC = b"LPut"
_CRC_END = 8
_PUT, _GONE = 1, 2


class _Record(NamedTuple):
    kind: int
    key: str
    data: bytes
    start: int
    end: int
    generation: int
    durable: int
    is_suspect: bool


def recover_old_put_logs(
    file_system: FileSystem, root: str, folder: PackFolder, keep: Callable[[str, bytes], None]
) -> None:
    """Make files of the objects in put logs that nobody locks, and remove those logs.

    `keep` makes an object a file, unless there is one. `folder` is locked meanwhile.
    """
    path = f"{root}/.log"
    if not file_system.is_taken(path):
        return
    if any(name.endswith(".log") for name, _ in file_system.names(path)):
        with folder.locked():
            for name, _ in file_system.names(path):
                if name.endswith(".log"):
                    _recover(file_system, root, f"{path}/{name}", keep)
            file_system.fsync_directory(path)


def _recover(files: FileSystem, root: str, path: str, keep: Callable[[str, bytes], None]) -> None:
    fd = files.open_for_update(path)
    try:
        if not files.lock(fd):
            return  # its store is alive
        content = _read(files, fd)
    finally:
        files.close(fd)
    half_size = len(content) // 2
    records: list[_Record] = []
    damaged: list[str] = []
    for at in (0, half_size):
        records += _half(content[at:][:half_size], at, damaged)
    gone = {each.key for each in records if each.kind == _GONE}
    for each in records:
        if each.kind == _PUT and each.key not in gone:
            _restore(files, f"{root}/{each.key}", each, keep)
    if damaged:
        files.rename(path, f"{path}.damaged")
        log.error(
            "%s.damaged is damaged at bytes %s: everything else in it was recovered; objects stored at "
            "those bytes may be missing or incomplete if the power failed. Check the disk, then delete the file.",
            path,
            ", ".join(damaged),
        )
    else:
        files.unlink(path)


def _restore(
    files: FileSystem, path: str, record: _Record, keep: Callable[[str, bytes], None]
) -> None:
    """Make the object of `record` whole and durable at `path`, unless another object is there by now."""
    with suppress(FileNotFoundError):
        fd = files.open(path)
        try:
            found = _read(files, fd)
            if found == record.data and not record.is_suspect:
                files.fsync(fd)
                files.fsync_directory(os.path.dirname(path))
                return
        finally:
            files.close(fd)
        if not _is_torn(found, record.data):
            return
        files.unlink(path)
    keep(record.key, record.data)


def _read(files: FileSystem, fd: int) -> bytes:
    content = bytearray(files.info_of(fd).size)
    count = files.read_into(fd, memoryview(content), 0)
    return bytes(content[:count])


def _is_torn(found: bytes, whole: bytes) -> bool:
    """Whether `found` can be what a power cut left of `whole`: each block is either right or all zeros."""
    return len(found) <= len(whole) and all(
        block in (whole[start : start + len(block)], bytes(len(block)))
        for start in range(0, len(found), _BLOCK)
        for block in [found[start : start + _BLOCK]]
    )


def _half(half: bytes, start: int, damaged: list[str]) -> list[_Record]:
    """The records of a half that count; adds to `damaged` the ranges of which acknowledged ones may be lost."""
    fields = half[: _HALF.size]
    if fields.strip(b"\0") == b"" or len(fields) < _HALF.size:
        return []  # it was never finished
    magic, generation, is_suspect, crc = _HALF.unpack(fields)
    is_whole = magic == _HALF_MAGIC and crc == crc32c(fields[:-4])
    found = list(_records(half, start))
    if not is_whole:
        generation, is_suspect = max((each.generation for each in found), default=0), True
        damaged.append(f"{start}-{start + _BLOCK}")
    found = [each for each in found if each.generation == generation]
    durable = max((each.durable for each in found), default=0)
    end = start + _BLOCK
    for each in found:
        if each.start > end and end < durable:
            damaged.append(f"{end}-{each.start}")
        end = each.end
    return [each._replace(is_suspect=bool(is_suspect)) for each in found]


def _records(half: bytes, start: int) -> Iterator[_Record]:
    """The records of every generation."""
    at = _BLOCK
    while at < len(half):
        each = _parse(half, at, start)
        if each is None:
            at += _BLOCK
        else:
            yield each
            at = each.end - start


def _parse(half: bytes, at: int, start: int) -> _Record | None:
    if half[at : at + 4] != _RECORD_MAGIC or at + _RECORD.size > len(half):
        return None
    fields = _RECORD.unpack_from(half, at)
    _, crc, kind, key_size, size, generation, position, durable, _ = fields
    data_at = at + _RECORD.size + key_size
    end = data_at + size
    if position != start + at or end > len(half) or crc != crc32c(half[at + _CRC_END : end]):
        return None
    try:
        key = check_key(half[at + _RECORD.size : data_at].decode())
    except ValueError:
        return None
    end_block = start + at + ((end - at + _BLOCK - 1) & -_BLOCK)
    return _Record(kind, key, half[data_at:end], position, end_block, generation, durable, False)
