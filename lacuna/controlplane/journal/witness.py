"""The witness: a file next to the journal with the position up to which it was acknowledged.

SQLite's log does not show this position, since a damaged last commit looks like an unfinished one. The position of each
append is therefore written here after the append is durable, and before it is acknowledged. The file is not synced,
which would double the syncs of a commit. It is never ahead of the journal on the disk. Like the page cache, it survives
if the process is killed; after a power cut, it may be behind, and then proves less.

Two slots are written alternately, so that a torn or damaged write leaves the other slot intact.

    slot   magic 8, cluster (first 8 bytes of the SHA-256 of its id), position i64, CRC-32 u32

Numbers are little-endian, and each slot is at the beginning of a block of 512 bytes.
"""

import struct
from hashlib import sha256
from mmap import mmap
from typing import Final
from zlib import crc32

_MAGIC: Final = b"LacAckd1"
_SLOT: Final = struct.Struct("<8s8sq")
_CRC: Final = struct.Struct("<I")
_BLOCK: Final = 512
_SLOTS: Final = 2
_SIZE: Final = _SLOT.size + _CRC.size


def witness_path(journal_path: str) -> str:
    return journal_path + ".acknowledged"


def read_witness(path: str, cluster_id: str | None) -> int:
    """Return the last position recorded for the cluster, or for any cluster if `cluster_id` is None. Return 0 if there
    is no such file or no valid slot.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_SLOTS * _BLOCK)
    except FileNotFoundError:
        return 0
    slots = [content[at : at + _SIZE] for at in range(0, _SLOTS * _BLOCK, _BLOCK)]
    return max(_position(slot, cluster_id) for slot in slots)


def _position(slot: bytes, cluster_id: str | None) -> int:
    if len(slot) < _SIZE:
        return 0
    fields, (crc,) = slot[: _SLOT.size], _CRC.unpack_from(slot, _SLOT.size)
    magic, cluster, position = _SLOT.unpack(fields)
    is_ours = cluster_id is None or cluster == _digest(cluster_id)
    is_whole = magic == _MAGIC and crc == crc32(fields)
    return int(position) if is_whole and is_ours else 0


def _digest(cluster_id: str) -> bytes:
    return sha256(cluster_id.encode()).digest()[:8]


class Witness:
    """The witness file at `path`, for the journal's writer. It is recreated with `position`."""

    def __init__(self, path: str, cluster_id: str, position: int) -> None:
        self._cluster = _digest(cluster_id)
        self._next = 0
        slot = self._slot(position).ljust(_BLOCK, b"\0")
        with open(path, "wb+") as file:
            file.write(slot * _SLOTS)
            file.flush()
            self._map = mmap(file.fileno(), _SLOTS * _BLOCK)

    def note(self, position: int) -> None:
        """Record that everything up to `position` is durable. Writing to the mapped file is faster than a system
        call.
        """
        begin = self._next * _BLOCK
        self._map[begin : begin + _SIZE] = self._slot(position)
        self._next = (self._next + 1) % _SLOTS

    def _slot(self, position: int) -> bytes:
        fields = _SLOT.pack(_MAGIC, self._cluster, position)
        return fields + _CRC.pack(crc32(fields))

    def close(self) -> None:
        self._map.close()
