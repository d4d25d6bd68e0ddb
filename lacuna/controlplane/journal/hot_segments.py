"""The data about hot segments that every kind of journal keeps in memory: keys and sizes, never bytes."""

import struct
from collections.abc import Collection, Iterator, Mapping
from typing import Final
from zlib import crc32

from lacuna.controlplane.journal.journal import HotKey, JournalCorrupt

_KEY: Final = struct.Struct("<qq")


def hot_checksum(key: HotKey, data: bytes) -> int:
    """Return the CRC-32 of the key (two numbers of eight bytes, little-endian) followed by `data`. It thus also detects
    bytes that were stored under the wrong key.
    """
    return crc32(data, crc32(_KEY.pack(*key)))


def check_hot(name: str, key: HotKey, data: object, stored_checksum: object) -> bytes:
    """Return `data` if it matches its checksum. Otherwise, raise JournalCorrupt, which names the segment."""
    if not isinstance(data, bytes) or hot_checksum(key, data) != stored_checksum:
        raise damaged_hot(name, key)
    return data


def damaged_hot(name: str, key: HotKey) -> JournalCorrupt:
    """Return the error for a hot segment in the journal `name` that differs from what was written."""
    lease_id, sequence = key
    return JournalCorrupt(
        f"{name}: the hot segment {sequence} of lease {lease_id} does not match its checksum: restore the journal "
        "from a backup"
    )


def in_portions(
    keys: Collection[HotKey], sizes: Mapping[HotKey, int], most_bytes: int, most_keys: int
) -> Iterator[list[HotKey]]:
    """Yield the keys found in `sizes` in groups, each within both limits unless it consists of a single key."""
    portion: list[HotKey] = []
    size = 0
    for key in keys:
        if key not in sizes:
            continue
        if portion and (size + sizes[key] > most_bytes or len(portion) == most_keys):
            yield portion
            portion, size = [], 0
        portion.append(key)
        size += sizes[key]
    if portion:
        yield portion
